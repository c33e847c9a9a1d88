//! The output of a format with several files.

use std::io::{self, Write};

/// A folder for the files of an export. The formats know names, the implementation knows paths.
pub trait Files {
    /// Creates a file. Its name may have folders. It is complete when the writer is flushed and dropped.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + Send>>;
}
