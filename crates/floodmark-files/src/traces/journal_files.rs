//! The journal beside a trace: its files, and whether a live recording still writes them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use floodmark_trace::Trace;
use floodmark_trace::journal::state::{
    FOLDER_SUFFIX, STATE_BYTES, STATE_FILE, is_held, read_state,
};
use floodmark_trace::journal::{CHUNK_EXTENSION, LEDGER_LINE_BYTES, LEDGER_NAME};

use crate::traces::open::OpenError;
use crate::traces::regular_file::open_regular;

/// The journal of a trace.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    files: Vec<Vec<u8>>,
    /// The session of the recording that holds the lock.
    held_by: Option<u64>,
}

impl Journal {
    /// Reads the journal of the trace `path`; empty if there is none.
    pub(crate) fn read(path: &Path) -> Result<Self, OpenError> {
        // The lock is read first: what a program writes before it ends is then read, not missed.
        let state = JournalState::read(path)?;
        let held_by = state.as_ref().and_then(JournalState::held_by);
        let mut files: Vec<Vec<u8>> = state.into_iter().map(|state| state.bytes).collect();
        for path in record_files(path)? {
            if let Some(mut file) = open_present(&path)? {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                files.push(bytes);
            }
        }
        Ok(Self { files, held_by })
    }

    pub(crate) fn files(&self) -> Vec<&[u8]> {
        self.files.iter().map(Vec::as_slice).collect()
    }

    /// Adds to the trace that its program still records, if it does.
    pub(crate) fn note_running(&self, trace: &mut Trace) {
        if self.held_by.is_some_and(|held_by| is_session(trace, held_by)) {
            trace.note_running();
        }
    }
}

/// Whether a live recording writes the trace `path`.
pub fn is_being_recorded(path: &Path) -> Result<bool, OpenError> {
    Ok(JournalState::read(path)?.is_some_and(|state| state.is_held))
}

/// Whether the program of this trace still records.
pub(crate) fn is_running(path: &Path, trace: &Trace) -> bool {
    let state = JournalState::read(path).ok().flatten();
    state.and_then(|state| state.held_by()).is_some_and(|held_by| is_session(trace, held_by))
}

fn is_session(trace: &Trace, session: u64) -> bool {
    u64::from_str_radix(&trace.header.session, 16) == Ok(session)
}

struct JournalState {
    bytes: Vec<u8>,
    is_held: bool,
}

impl JournalState {
    fn read(path: &Path) -> Result<Option<Self>, OpenError> {
        let Some(file) = open_present(&folder(path).join(STATE_FILE))? else { return Ok(None) };
        // On a file system without locks it is unknown whether the program runs.
        let is_held = is_held(&file).unwrap_or(false);
        let mut bytes = Vec::new();
        file.take(STATE_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(Some(Self { bytes, is_held }))
    }

    fn held_by(&self) -> Option<u64> {
        read_state(&self.bytes).filter(|_| self.is_held).map(|state| state.session)
    }
}

/// The state and the used lines of the ledger; empty if there is no journal.
pub(crate) fn journal_counters(path: &Path) -> Result<Vec<u8>, OpenError> {
    let mut counters = JournalState::read(path)?.map(|state| state.bytes).unwrap_or_default();
    let lines = record_files(path)?.len() * LEDGER_LINE_BYTES;
    if let Some(ledger) = open_present(&folder(path).join(LEDGER_NAME))? {
        ledger.take(lines as u64).read_to_end(&mut counters)?;
    }
    Ok(counters)
}

/// The files of the journal with records, and the ledger that counts them; none if there is no journal.
fn record_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder(path)) {
        Ok(entries) => entries,
        // A file of that name belongs to the user.
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let is_ledger = path.file_name() == Some(OsStr::new(LEDGER_NAME));
        let is_ours = is_ledger || path.extension() == Some(OsStr::new(CHUNK_EXTENSION));
        // The journal has files only.
        if is_ours && entry.file_type()?.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn folder(path: &Path) -> PathBuf {
    let mut folder = path.as_os_str().to_owned();
    folder.push(FOLDER_SUFFIX);
    PathBuf::from(folder)
}

/// Opens a file of a journal; `None` if it does not exist. A running program removes files that it has flushed, and the
/// folder at its end.
fn open_present(path: &Path) -> Result<Option<File>, OpenError> {
    match open_regular(path) {
        Ok(file) => Ok(Some(file)),
        Err(OpenError::Missing | OpenError::NotAFile(_)) => Ok(None),
        Err(OpenError::Io(error)) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
