//! What the program and the Python package both need of a trace: open it, follow it, export it to a path, render answers.
//!
//! - [`traces`]: from a path to a trace, also one that still grows.
//! - [`export`]: a trace in another tool's format, as a file, a folder or bytes.
//! - [`source_text`]: the text of a source file, from the trace or from this machine.
//! - [`text`]: answers as text tables and HTML.
//! - [`progress`]: how far a long read or write is; nothing here draws it.

pub mod export;
pub mod progress;
pub mod size;
pub mod source_text;
pub mod text;
pub mod traces;
