//! From a path to a trace: opening a file, following one that grows, and reading a
//! recording of this process while it is open.

mod following;
mod growing_window;
mod journal_files;
mod open;
mod regular_file;
mod text_log;

pub use following::Following;
pub use growing_window::{GrowingWindow, IndexedTrace, TraceView, ask_all};
pub use journal_files::is_being_recorded;
pub use open::{OpenError, open_trace, open_trace_with};
pub use regular_file::{Irregular, is_irregular};
pub use text_log::{open_text, read_log};
