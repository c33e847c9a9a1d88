//! Where the files of a format go that has more than one.

use std::io::{self, Write};

/// A folder for the files of an export. The implementation has paths; the formats have only names.
pub trait Files {
    /// Begins a file; `/` in its name leads into a folder. It is done when the writer is flushed and dropped.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + Send>>;
}
