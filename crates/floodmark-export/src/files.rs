//! Where the files of a format go that has more than one.

use std::io::{self, Write};

/// A folder, or what stands for one. Whoever has it knows paths; the formats know only names.
pub trait Files {
    /// Begins a file; `/` in its name leads into a folder. It is done when the writer is flushed and let go of.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + Send>>;
}
