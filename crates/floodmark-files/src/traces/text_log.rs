//! Reads logs, from text files or pipes, in parts of a bounded size.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use floodmark_analysis::OomLogReader;
use floodmark_snapshot::is_snapshot;
use floodmark_trace::{ReadError, check_beginning};

use crate::traces::open::{OpenError, beginning};
use crate::traces::regular_file::open_regular;

/// The size of a part.
const PART_BYTES: usize = 1 << 16;

/// Opens a text file; `None` for a trace, a snapshot or another binary file.
pub fn open_text(path: &Path) -> Result<Option<File>, OpenError> {
    let mut file = open_regular(path)?;
    let start = beginning(&mut file)?;
    let is_other =
        !is_snapshot(&start) && matches!(check_beginning(&start), Err(ReadError::NotATrace { .. }));
    if !is_other || start.contains(&0) {
        return Ok(None);
    }
    file.rewind()?;
    Ok(Some(file))
}

/// Reads a log to its end.
pub fn read_log(mut log: impl Read) -> io::Result<OomLogReader> {
    let mut reader = OomLogReader::new();
    let mut part = vec![0; PART_BYTES];
    loop {
        match log.read(&mut part) {
            Ok(0) => return Ok(reader),
            Ok(read) => reader.push(&part[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
