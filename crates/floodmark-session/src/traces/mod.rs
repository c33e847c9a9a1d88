//! From a path to a trace: opening a file, and following one that grows.

mod following;
mod journal_files;
mod open;
mod regular_file;

pub use following::Following;
pub use journal_files::is_being_recorded;
pub use open::{OpenError, open_trace, open_trace_with, read_own_growing};
pub use regular_file::{Irregular, is_irregular};
