//! From paths to traces and back: what the program and the Python package both do with files.
//!
//! - [`traces`]: from a path to a trace, also one that still grows.
//! - [`export`]: a trace in another tool's format, as a file, a folder or bytes.
//! - [`source_text`]: the text of a source file, from the trace or from this machine.
//! - [`size`]: a number of bytes, written with its unit.
//! - [`progress`]: how far a long read or write is; nothing here draws it.

pub mod export;
pub mod progress;
pub mod size;
pub mod source_text;
pub mod traces;
