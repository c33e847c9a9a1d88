//! From paths to traces and back: what the program and the Python package both do with files.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`progress`]: how far a long read or write is, for a caller that shows it; [`size`]: a number of bytes, written with
//!    its unit; [`source_text`]: the text of a source file, from the trace or from this machine.
//! 2. [`traces`]: from a path to a trace, also one that still grows; [`export`]: a trace in another tool's format, as a
//!    file, a folder or bytes.

pub mod export;
pub mod progress;
pub mod size;
pub mod source_text;
pub mod traces;
