//! Pictures: charts of memory over time as SVG and PNG, and flame graphs.
//!
//! `plot.rs` asks the questions, `layout.rs` and `across.rs` place shapes (`scene.rs`), and `svg.rs` writes them. `png.rs` passes
//! this SVG to `resvg`, so PNG and SVG do not differ. Colours (`palette.rs`) are those of the page.
//!
//! # Text
//!
//! Text is `<text>` in the SVG: it can be searched and selected. A PNG is drawn with the fonts in `fonts/`, which have Latin, Greek,
//! Cyrillic, arrows, mathematical signs and boxes: every machine draws the same pixels. A character that they lack (Chinese,
//! Japanese, Korean, Arabic, …) is drawn with a font of the machine, or as a box if no font has it. `font.rs` measures text with the same fonts, so names that would overlap are shortened or left out.

mod across;
mod chart;
mod flamegraph;
mod font;
mod heading;
mod layout;
mod palette;
mod plot;
mod png;
mod scene;
mod svg;
mod ticks;

pub use chart::{Band, Chart, Emphasis, Mark, Quantity, Series};
pub use flamegraph::write_flamegraph;
pub(crate) use plot::draw;
pub use plot::{chart_of, write_chart_png, write_chart_svg, write_png, write_svg};
