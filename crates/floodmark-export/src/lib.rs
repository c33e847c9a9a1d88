//! Traces and answers in the formats of other tools: one file per format.
//!
//! Every format is a function `write_…(trace, options, out)`: a [`Trace`](floodmark_trace::Trace) and the answers of
//! `floodmark-analysis` go in, bytes come out; those with several files are given [`Files`] instead. Nothing here opens a path, prints, or decides anything about memory: a number
//! that no answer has belongs in `floodmark-analysis`.
//!
//! | format | function | read by |
//! |---|---|---|
//! | speedscope | [`write_speedscope`] | <https://www.speedscope.app/> |
//! | timeline | [`write_timeline`] | whatever reads JSON |
//! | SVG, PNG | [`write_svg`], [`write_png`] | browsers, documents |
//! | CSV | [`write_csv`], [`write_steps_csv`] | spreadsheets, pandas |
//! | collapsed stacks | [`write_collapsed`] | every flame graph tool |
//! | flame graph | [`write_flamegraph`] | browsers |
//! | Perfetto, Chrome | [`write_perfetto`], [`write_chrome`] | <https://ui.perfetto.dev>, `chrome://tracing` |
//! | TensorBoard | [`write_tensorboard`] | `tensorboard` |
//! | Arrow in memory | [`report_columns`] | pandas, Polars, pyarrow |
//! | Parquet, Arrow | [`write_tables`], [`write_ranks`] | DuckDB, Polars, Spark, pyarrow |
//!
//! # Why pictures are drawn here
//!
//! A [`Chart`] is laid out once, into a handful of shapes (`scene.rs`), which `svg.rs` writes down and `raster.rs` draws. The
//! libraries of the field do one of the two well: those that draw text into pixels carry a font of several hundred
//! kilobytes or look for one on the machine, and the same chart comes out of their two back ends with other
//! sizes. Lines, rectangles and an alphabet of strokes (`font.rs`) are all that a chart of memory needs; they add a few
//! kilobytes to the wheel, nothing to what must be built, and every machine draws the same picture. Flame graphs are
//! nested rectangles, so they are written here too; the usual library for them has a licence of its own.

mod chart;
mod chrome;
mod collapsed;
mod course;
mod csv;
mod files;
mod flamegraph;
mod font;
mod options;
mod perfetto;
mod perfetto_messages;
mod plot;
mod png;
mod raster;
mod report_columns;
mod scene;
mod speedscope;
mod stacks;
mod step_rows;
mod svg;
mod tables;
mod tensorboard;
mod tensorboard_messages;
mod tfrecord;
mod ticks;
mod timeline;

pub use self::csv::{csv_writer, guarded_cell, write_csv, write_steps_csv};
pub use chart::{Band, Chart, Emphasis, Mark, Quantity, Series};
pub use chrome::write_chrome;
pub use collapsed::write_collapsed;
pub use files::Files;
pub use flamegraph::write_flamegraph;
pub use options::{ExportError, Options};
pub use perfetto::write_perfetto;
pub use plot::{chart_of, write_chart_png, write_chart_svg, write_png, write_svg};
pub use report_columns::report_columns;
pub use speedscope::write_speedscope;
pub use tables::{Coding, RankRow, write_ranks, write_tables};
pub use tensorboard::write_tensorboard;
pub use timeline::{write_layers, write_timeline};
