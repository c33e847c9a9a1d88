//! From a path to a trace: a file with its journal, or a folder with one file per rank.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use floodmark_allocator::complete;
use floodmark_snapshot::{SnapshotError, is_snapshot, read_snapshot_from};
use floodmark_trace::{
    DecompressionLimit, GrowingReader, Hint, ReadError, Trace, check_beginning, read_trace_within,
};

use crate::progress::{Progress, Silent};
use crate::size::parse_size;
use crate::traces::journal_files::Journal;
use crate::traces::regular_file::{Irregular, open_regular};

/// Why a file could not be opened as a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file does not exist.
    #[error("there is no such file")]
    Missing,
    /// The system could not read it.
    #[error(transparent)]
    Io(io::Error),
    /// It is a device, a pipe, or another file that is not regular.
    #[error("it is {0}, not a regular file")]
    NotAFile(Irregular),
    /// The limit in the environment is no size.
    #[error("`{variable}` is `{0}`, which is not a size", variable = DecompressionLimit::VARIABLE)]
    BadLimit(String),
    /// It is no trace, or a damaged one.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is no memory snapshot, or a damaged one.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::Missing } else { Self::Io(error) }
    }
}

impl Hint for OpenError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("record one with `floodmark run -o FILE script.py`"),
            Self::Io(_) => None,
            Self::NotAFile(kind) => Some(kind.hint()),
            Self::BadLimit(_) => {
                Some("write a number of bytes, or one with a unit such as `16GiB`")
            }
            Self::Read(error) => error.hint(),
            Self::Snapshot(error) => error.hint(),
        }
    }
}

/// Reads a trace, with the records that are in the journal beside it only.
pub fn open_trace(path: &Path) -> Result<Trace, OpenError> {
    open_trace_with(path, &Silent)
}

/// The same with progress, for snapshots of torch, which take long.
pub fn open_trace_with(path: &Path, progress: &dyn Progress) -> Result<Trace, OpenError> {
    // The journal is read first: what is flushed meanwhile is then in the file, and not missed.
    let journal = Journal::read(path)?;
    let mut file = open_regular(path)?;
    let limit = decompression_limit()?;
    let mut bytes = beginning(&mut file)?;
    if is_snapshot(&bytes) {
        return open_snapshot(file, limit, progress);
    }
    // Of another kind of file, no more is read.
    check_beginning(&bytes)?;
    file.read_to_end(&mut bytes)?;
    let mut trace = read_trace_within(limit, &bytes, &journal.files())?;
    journal.note_running(&mut trace);
    Ok(trace)
}

/// The limit on decompressed bytes: that of the environment, or one that grows with the file.
pub(crate) fn decompression_limit() -> Result<DecompressionLimit, OpenError> {
    let Some(text) = std::env::var_os(DecompressionLimit::VARIABLE) else {
        return Ok(DecompressionLimit::BySize);
    };
    let size = text.to_str().and_then(|text| parse_size(text).ok());
    let size = size.ok_or_else(|| OpenError::BadLimit(text.to_string_lossy().into_owned()))?;
    Ok(DecompressionLimit::Bytes(size))
}

/// Reads what is new in a trace; `None` for a file that does not grow.
pub(crate) fn open_growing(
    path: &Path,
    reader: &mut GrowingReader,
) -> Result<Option<Trace>, OpenError> {
    // The journal first, as above.
    let journal = Journal::read(path)?;
    let mut file = open_regular(path)?;
    if reader.taken() == 0 && is_snapshot(&beginning(&mut file)?) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(reader.taken()))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    reader.take(&bytes)?;
    let mut trace = reader.trace(&journal.files())?;
    journal.note_running(&mut trace);
    Ok(Some(trace))
}

/// The first bytes of a file, which show its kind.
pub(crate) fn beginning(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.by_ref().take(PEEKED_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

/// Reads a torch snapshot.
fn open_snapshot(
    mut file: File,
    limit: DecompressionLimit,
    progress: &dyn Progress,
) -> Result<Trace, OpenError> {
    file.rewind()?;
    let bytes = file.metadata()?.len();
    let watched = Watched { file, done: 0, total: bytes, progress };
    let mut trace = read_snapshot_from(watched, bytes, limit)?;
    // A snapshot has requested bytes, not the bytes of blocks.
    complete(&mut trace);
    Ok(trace)
}

/// The number of bytes that show the kind of a file.
const PEEKED_BYTES: u64 = 4096;

/// A file that reports how much of it has been read.
struct Watched<'a> {
    file: File,
    done: u64,
    total: u64,
    progress: &'a dyn Progress,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.done += count as u64;
        self.progress.at(self.done, Some(self.total));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct ReportedProgress(Mutex<Vec<(u64, Option<u64>)>>);

    impl Progress for ReportedProgress {
        fn at(&self, done: u64, total: Option<u64>) {
            self.0.lock().unwrap().push((done, total));
        }
    }

    #[test]
    fn reading_a_snapshot_reports_progress() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/recordings/zoo/lstm.pickle.gz");
        let bytes = path.metadata().unwrap().len();
        let seen = ReportedProgress::default();
        open_trace_with(&path, &seen).unwrap();
        let seen = seen.0.into_inner().unwrap();
        assert!(seen.iter().all(|&(_, total)| total == Some(bytes)));
        assert!(seen.is_sorted());
        assert!(seen.last().is_some_and(|&(done, _)| 0 < done && done <= bytes));
    }
}
