//! The `.flood` file: written flush by flush, read as a whole or followed while it grows.

mod append_answer;
mod follow;
mod other_file;
mod read;
mod write;

pub use append_answer::{StoreError, append_answer};
pub use follow::GrowingReader;
pub use other_file::OtherFile;
pub use read::{ReadError, check_beginning, read_trace, read_trace_within};
pub use write::TraceWriter;
