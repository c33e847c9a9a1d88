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
//! | Arrow in memory | [`report_columns()`] | pandas, Polars, pyarrow |
//! | Parquet, Arrow | [`write_tables`], [`write_ranks`] | DuckDB, Polars, Spark, pyarrow |
//!
//! # Pictures
//!
//! A [`Chart`] is laid out once and written as SVG; `resvg` turns that SVG into PNG with a bundled font (`pictures/`). Flame
//! graphs are nested rectangles, so they are written here too; the usual library for them has a licence of its own.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`options`]: what to export; [`files`]: several files of one export; [`step_rows`]: the rows of a table of steps;
//!    `report_columns`: reports as Arrow columns; [`tfrecord`]: the container of TensorBoard's files;
//!    [`perfetto_messages`]: Perfetto's protobuf messages; [`tensorboard_messages`]: those of TensorBoard.
//! 2. [`event_tracks`]: events as tracks, for Perfetto and Chrome; [`stacks`]: bytes by call stack; [`csv`]: CSV; [`tables`]: Parquet
//!    and Arrow; [`timeline`]: JSON of the timeline.
//! 3. [`chrome`]: Chrome's format; [`collapsed`]: collapsed stacks; [`perfetto`]: Perfetto's format; [`pictures`]: SVG, PNG and flame
//!    graphs; [`speedscope`]: speedscope's format.
//! 4. [`tensorboard`]: TensorBoard's event files.

mod chrome;
mod collapsed;
mod csv;
mod event_tracks;
mod files;
mod options;
mod perfetto;
mod perfetto_messages;
mod pictures;
mod report_columns;
mod speedscope;
mod stacks;
mod step_rows;
mod tables;
mod tensorboard;
mod tensorboard_messages;
mod tfrecord;
mod timeline;

pub use self::csv::{csv_writer, guarded_cell, write_csv, write_steps_csv};
pub use chrome::write_chrome;
pub use collapsed::write_collapsed;
pub use files::Files;
pub use options::{ExportError, Options};
pub use perfetto::write_perfetto;
pub use pictures::{
    Band, Chart, Emphasis, Mark, Quantity, Series, chart_of, write_chart_png, write_chart_svg,
    write_flamegraph, write_png, write_svg,
};
pub use report_columns::report_columns;
pub use speedscope::write_speedscope;
pub use tables::{Coding, RankRow, write_ranks, write_tables};
pub use tensorboard::write_tensorboard;
pub use timeline::{write_layers, write_timeline};
