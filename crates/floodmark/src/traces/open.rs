//! From a path to a trace: a file with its journal, or a folder with one file per rank.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use floodmark_allocator::complete;
use floodmark_snapshot::{SnapshotError, is_snapshot, read_snapshot_from};
use floodmark_trace::{
    DecompressionLimit, GrowingReader, Hint, Loss, ReadError, Trace, check_beginning,
    read_trace_within,
};

use crate::commands::args::parse_size;
use crate::text::failure::Problem;
use crate::text::progress::Progress;
use crate::traces::journal_files::Journal;
use crate::traces::regular_file::{Irregular, open_regular};

/// Why a file could not be opened as a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing.
    #[error("there is no such file")]
    Missing,
    /// The system does not let us read it.
    #[error(transparent)]
    Io(io::Error),
    /// It is a device, a pipe, or another thing that is not read.
    #[error("it is {0}, not a regular file")]
    NotAFile(Irregular),
    /// The limit that the user set is no size.
    #[error("`{variable}` is `{0}`, which is no size", variable = DecompressionLimit::VARIABLE)]
    BadLimit(String),
    /// It can be read, and is no trace.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is a pickle, and no memory snapshot.
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

/// Reads a trace, and what its file lacks from the journal beside it.
pub fn open_trace(path: &Path) -> Result<Trace, OpenError> {
    // The journal first: what is flushed meanwhile is then in the file, never in neither.
    let journal = Journal::read(path)?;
    let mut file = open_regular(path)?;
    let limit = decompression_limit()?;
    let mut bytes = beginning(&mut file)?;
    if is_snapshot(&bytes) {
        return open_snapshot(path, file, limit);
    }
    // Of a file that is something else, no more is read.
    check_beginning(&bytes)?;
    file.read_to_end(&mut bytes)?;
    let mut trace = read_trace_within(limit, &bytes, &journal.files())?;
    journal.note_running(&mut trace);
    Ok(trace)
}

/// How much a file may decompress to: what the user set, or a limit that grows with the file.
pub(crate) fn decompression_limit() -> Result<DecompressionLimit, OpenError> {
    let Some(text) = std::env::var_os(DecompressionLimit::VARIABLE) else {
        return Ok(DecompressionLimit::BySize);
    };
    let size = text.to_str().and_then(|text| parse_size(text).ok());
    let size = size.ok_or_else(|| OpenError::BadLimit(text.to_string_lossy().into_owned()))?;
    Ok(DecompressionLimit::Bytes(size))
}

/// Reads what a trace has more than a reader has seen of it; `None` for a file that does not grow.
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

/// Reads what the file of a window of this process has more than a reader has seen of it. The journal is not read:
/// the recorder has written all that was asked for.
pub fn read_own_growing(path: &Path, reader: &mut GrowingReader) -> Result<Trace, OpenError> {
    let mut file = open_regular(path)?;
    file.seek(SeekFrom::Start(reader.taken()))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    reader.take(&bytes)?;
    let mut trace = reader.trace(&[])?;
    trace.losses.0.retain(|loss| !matches!(loss, Loss::Unfinished));
    Ok(trace)
}

/// Enough of a file to know what it is.
pub(crate) fn beginning(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.by_ref().take(PEEKED_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

/// Reads a torch snapshot.
fn open_snapshot(
    path: &Path,
    mut file: File,
    limit: DecompressionLimit,
) -> Result<Trace, OpenError> {
    file.rewind()?;
    let bytes = file.metadata()?.len();
    let progress = Progress::new(format!("Reading `{}`", path.display()), bytes);
    let mut trace = read_snapshot_from(Watched { file, done: 0, progress }, bytes, limit)?;
    // A snapshot tells what was asked for, not what was handed out.
    complete(&mut trace);
    Ok(trace)
}

/// Enough to know what a file is.
const PEEKED_BYTES: u64 = 4096;

/// A file, and how much of it has been read.
struct Watched {
    file: File,
    done: u64,
    progress: Progress,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.done += count as u64;
        self.progress.at(self.done);
        Ok(count)
    }
}

/// The same, with an error that names the path.
pub(crate) fn open(path: &Path) -> Result<Trace> {
    open_trace(path).with_context(|| format!("Failed to read `{}`", path.display()))
}

/// The traces in a folder, each with its rank; `None` when the path is no folder.
pub(crate) fn ranks(path: &Path) -> Result<Option<Vec<(u32, PathBuf)>>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let failed = || format!("Failed to read `{}`", path.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if is_named_like_a_trace(&path) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Problem::NoTraces).with_context(failed);
    }
    paths.sort();
    let ranked = (0_u32..).zip(paths).map(|(at, path)| (rank_of(&path).unwrap_or(at), path));
    Ok(Some(ranked.collect()))
}

/// The trace of a rank in a folder.
pub(crate) fn rank_in(path: &Path, rank: u32) -> Result<PathBuf> {
    let failed = || format!("Failed to read `{}`", path.display());
    let Some(ranks) = ranks(path)? else { return Err(Problem::NotAFolder).with_context(failed) };
    let present = || {
        let numbers: Vec<String> = ranks.iter().map(|(rank, _)| rank.to_string()).collect();
        numbers.join(", ")
    };
    let found = ranks.iter().find(|(found, _)| *found == rank);
    let found = found.ok_or_else(|| Problem::NoSuchRank { rank, present: present() });
    found.map(|(_, path)| path.clone()).with_context(failed)
}

/// `x.flood`, or what people call torch's snapshots.
fn is_named_like_a_trace(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return false };
    let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    [".flood", ".pickle", ".pkl"].iter().any(|ending| packed.ends_with(ending))
}

/// 3 of `rank-0003.flood`, and of `memory.rank-0003.flood`.
fn rank_of(path: &Path) -> Option<u32> {
    let mut parts = path.file_name()?.to_str()?.split('.');
    parts.find_map(|part| part.strip_prefix("rank-")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_rank() {
        let of = |name: &str| rank_of(Path::new(name));
        assert_eq!(of("a/rank-0003.flood"), Some(3));
        assert_eq!(of("memory.rank-0012.flood"), Some(12));
        assert_eq!(of("rank-1.pickle.gz"), Some(1));
        assert_eq!(of("frank-1.flood"), None);
        assert_eq!(of("x.flood"), None);
    }
}
