//! The names of a recording on disk: the trace, and the folder of its journal.
//!
//! Both are complete, and the journal's lock is held, before they get their names. So another recorder and a reader
//! see all of it or nothing. A replaced file loses its name only: programs that have it open keep it.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use floodmark_trace::frame::FILE_MAGIC;
use floodmark_trace::journal::state::{
    FOLDER_SUFFIX, STATE_BYTES, STATE_FILE, is_held, read_state,
};
use floodmark_trace::journal::{CHUNK_EXTENSION, LEDGER_NAME};
use floodmark_trace::{Header, TraceWriter};

use crate::files::own_file::{Identity, OwnFile};
use crate::files::start_error::{Occupant, StartError};
use crate::files::state_file::StateFile;

/// How often the rename is tried while other recorders create and remove the same name.
const MOST_TRIES: usize = 16;

/// What may be replaced at the path of a trace. A live recording, a folder or a device is never
/// replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Nothing: the path must be free.
    Nothing,
    /// A trace of an earlier recording, or an empty file.
    Trace,
    /// Any file, a symbolic link (not its target), and a recording that was not finished.
    AnyFile,
}

/// The files of a new recording.
#[derive(Debug)]
pub(crate) struct Output {
    /// The journal's folder.
    pub(crate) folder: PathBuf,
    pub(crate) state: StateFile,
    pub(crate) trace: TraceWriter<OwnFile>,
    /// The file that was replaced.
    pub(crate) replaced: Option<File>,
}

impl Output {
    /// Creates the files of a recording into `path`.
    pub(crate) fn create(
        path: &Path,
        session: u64,
        header: &Header,
        replace: Replace,
    ) -> Result<Self, StartError> {
        let is_free = check_path(path, replace)?;
        // The journal comes first: its lock keeps other recorders away from the trace.
        let (folder, state) = create_journal(path, session, replace)?;
        match create_trace(path, session, header, is_free) {
            Ok((trace, replaced)) => Ok(Self { folder, state, trace, replaced }),
            Err(source) => {
                remove_journal(&folder, &state);
                Err(not_created(path, is_free, source))
            }
        }
    }
}

fn not_created(path: &Path, is_free: bool, source: io::Error) -> StartError {
    let path = path.to_owned();
    if is_free && source.kind() == io::ErrorKind::AlreadyExists {
        return StartError::Occupied { path, what: Occupant::File };
    }
    StartError::File { path, source }
}

/// The files of a window that joins a recorder. The writer creates them: opening a window waits for no disk.
#[derive(Debug)]
pub(crate) struct PlannedOutput {
    path: PathBuf,
    session: u64,
    replace: Replace,
}

/// The result of writing a whole trace at once.
#[derive(Debug)]
pub(crate) enum WholeTrace {
    /// The trace was written; `replaced` is the file that had its name.
    Written { replaced: Option<File> },
    /// A journal exists: [`PlannedOutput::create`] checks whose it is.
    HasJournal,
}

impl PlannedOutput {
    /// Plans the files of a recording into `path`. `None` where a check cannot show whether they can
    /// be created: a journal exists, or the folder is not writable.
    pub(crate) fn check(
        path: &Path,
        session: u64,
        replace: Replace,
    ) -> Result<Option<Self>, StartError> {
        check_path(path, replace)?;
        let has_journal = fs::symlink_metadata(beside(path, "", FOLDER_SUFFIX)).is_ok();
        let is_planned = !has_journal && is_writable(path.parent().unwrap_or(Path::new("/")));
        Ok(is_planned.then(|| Self { path: path.to_owned(), session, replace }))
    }

    /// Creates the files.
    pub(crate) fn create(&self, header: &Header) -> Result<Output, StartError> {
        Output::create(&self.path, self.session, header, self.replace)
    }

    /// Writes a trace that is complete, so that it needs no journal.
    pub(crate) fn write(&self, trace: &[u8]) -> Result<WholeTrace, StartError> {
        if fs::symlink_metadata(beside(&self.path, "", FOLDER_SUFFIX)).is_ok() {
            return Ok(WholeTrace::HasJournal);
        }
        let is_free = check_path(&self.path, self.replace)?;
        let new = beside(&self.path, ".", &format!(".{:016x}", self.session));
        let written = OwnFile::create_new(&new).and_then(|mut file| {
            let written = file.write_all(trace).and_then(|()| name(&new, &self.path, is_free));
            written.inspect_err(|_| {
                let _ = fs::remove_file(&new);
            })
        });
        let written = written.map(|replaced| WholeTrace::Written { replaced });
        written.map_err(|source| not_created(&self.path, is_free, source))
    }
}

fn is_writable(folder: &Path) -> bool {
    CString::new(folder.as_os_str().as_bytes()).is_ok_and(|folder| {
        // SAFETY: a plain system call on a name that outlives it.
        unsafe { libc::access(folder.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
    })
}

/// Removes the state and the folder of a journal whose chunks are removed, unless another recorder has replaced them.
pub(crate) fn remove_journal(folder: &Path, state: &StateFile) {
    if state.is_in(folder) {
        let _ = fs::remove_file(folder.join(STATE_FILE));
        let _ = fs::remove_dir(folder);
    }
}

/// Whether the path is free. An error when what is there may not be replaced.
fn check_path(path: &Path, replace: Replace) -> Result<bool, StartError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(source) => return Err(StartError::File { path: path.to_owned(), source }),
    };
    let what = if found.is_dir() {
        Occupant::Folder
    } else if found.is_symlink() {
        Occupant::Link
    } else if !found.is_file() {
        Occupant::Special
    } else if replace == Replace::Nothing {
        Occupant::File
    } else {
        Occupant::OtherFile
    };
    let may_replace = match what {
        Occupant::Folder | Occupant::Special => false,
        Occupant::Link => replace == Replace::AnyFile,
        Occupant::File | Occupant::OtherFile => match replace {
            Replace::Nothing => false,
            Replace::Trace => is_trace_or_empty(path),
            Replace::AnyFile => true,
        },
    };
    if may_replace {
        return Ok(false);
    }
    Err(StartError::Occupied { path: path.to_owned(), what })
}

fn is_trace_or_empty(path: &Path) -> bool {
    let mut begins = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(FILE_MAGIC.len() as u64).read_to_end(&mut begins));
    read.is_ok() && (begins.is_empty() || begins == FILE_MAGIC)
}

/// The name with something before and after it, in the same folder.
fn beside(path: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(after);
    path.with_file_name(name)
}

fn create_journal(
    path: &Path,
    session: u64,
    replace: Replace,
) -> Result<(PathBuf, StateFile), StartError> {
    let folder = beside(path, "", FOLDER_SUFFIX);
    let failed = |source| StartError::Journal { path: folder.clone(), source };
    let new = beside(path, ".", &format!(".{session:016x}{FOLDER_SUFFIX}"));
    fs::create_dir(&new).map_err(failed)?;
    let state = StateFile::create(&new, session).map_err(failed).and_then(|state| {
        for _ in 0..MOST_TRIES {
            // An empty folder is replaced, one with files in it is not.
            match fs::rename(&new, &folder) {
                Ok(()) => return Ok(state),
                Err(error) if is_taken(&error) => remove_unfinished(path, &folder, replace)?,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    });
    if state.is_err() {
        let _ = fs::remove_file(new.join(STATE_FILE));
        let _ = fs::remove_dir(&new);
    }
    state.map(|state| (folder, state))
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

/// Removes the journal of a recording that was not finished. An error when it may not be removed.
fn remove_unfinished(path: &Path, folder: &Path, replace: Replace) -> Result<(), StartError> {
    let failed = |source| StartError::Journal { path: folder.to_owned(), source };
    // Uses the opened folder, even when another recorder renames a new one to this name.
    let opened = match File::open(folder) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let state = open_in(&opened, STATE_FILE).ok();
    if let Some(state) = &state
        && is_held(state).unwrap_or(false)
    {
        return Err(StartError::InUse { path: path.to_owned(), pid: pid_of(state) });
    }
    if replace != Replace::AnyFile {
        return Err(StartError::Unfinished { path: path.to_owned(), folder: folder.to_owned() });
    }
    if let Some(state) = &state {
        // Waits for readers, which test the lock, and for another recorder that removes the same journal.
        let _ = state.lock();
        let found = state.metadata().map_err(failed)?;
        if !Identity::new(&found).is_at(&folder.join(STATE_FILE)) {
            return Ok(());
        }
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name == LEDGER_NAME
            || Path::new(&name).extension().is_some_and(|ending| ending == CHUNK_EXTENSION)
        {
            unlink_in(&opened, name.as_bytes());
        }
    }
    unlink_in(&opened, STATE_FILE.as_bytes());
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

fn pid_of(mut state: &File) -> u32 {
    let mut bytes = vec![0; STATE_BYTES];
    let read = state.read(&mut bytes).unwrap_or(0);
    read_state(&bytes[..read]).map_or(0, |state| state.pid)
}

fn open_in(folder: &File, name: &str) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    let name = CString::new(name)?;
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: a plain system call; the descriptor is owned by nothing else.
    unsafe {
        let opened = libc::openat(folder.as_raw_fd(), name.as_ptr(), flags);
        if opened < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(opened)) }
    }
}

fn unlink_in(folder: &File, name: &[u8]) {
    if let Ok(name) = CString::new(name) {
        // An error shows when the folder is removed.
        // SAFETY: a plain system call on a descriptor that is open.
        unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) };
    }
}

/// Creates the trace under a temporary name, writes its header and renames it. Returns the replaced file too.
fn create_trace(
    path: &Path,
    session: u64,
    header: &Header,
    is_free: bool,
) -> io::Result<(TraceWriter<OwnFile>, Option<File>)> {
    let new = beside(path, ".", &format!(".{session:016x}"));
    let file = OwnFile::create_new(&new)?;
    let named = TraceWriter::new(file, header)
        .and_then(|trace| name(&new, path, is_free).map(|replaced| (trace, replaced)));
    if named.is_err() {
        let _ = fs::remove_file(&new);
    }
    named
}

/// Gives a new file its name. Returns the file that had it, open: to free its blocks can take milliseconds, which
/// happens when it is closed.
fn name(new: &Path, path: &Path, is_free: bool) -> io::Result<Option<File>> {
    if is_free {
        // Fails where the name exists.
        rename_with(new, path, libc::RENAME_NOREPLACE)?;
        return Ok(None);
    }
    let mut options = fs::OpenOptions::new();
    let replaced = options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path).ok();
    // A file system may write a new file to disk before it replaces another one; exchanging two
    // files does not wait.
    rename_with(new, path, libc::RENAME_EXCHANGE)?;
    // The old file, when it was exchanged.
    let _ = fs::remove_file(new);
    Ok(replaced)
}

/// Renames a file, with flags where the file system has them.
fn rename_with(from: &Path, to: &Path, flags: libc::c_uint) -> io::Result<()> {
    let names = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let [old, new] = names;
    let (old, new) = (old?, new?);
    let here = libc::AT_FDCWD;
    // SAFETY: a plain system call on two names that outlive it.
    let failed = unsafe {
        libc::syscall(libc::SYS_renameat2, here, old.as_ptr(), here, new.as_ptr(), flags)
    };
    if failed == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Not on every file system; and the other file may not exist any more.
        Some(libc::EINVAL | libc::ENOSYS) => fs::rename(from, to),
        Some(libc::ENOENT) if flags == libc::RENAME_EXCHANGE => fs::rename(from, to),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_planned_file_replaces_a_trace_and_nothing_that_came_meanwhile() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.flood");
        let plan = || PlannedOutput::check(&path, 7, Replace::Trace).unwrap().unwrap();
        for trace in [&FILE_MAGIC[..], &[&FILE_MAGIC[..], b"second"].concat()] {
            assert!(matches!(plan().write(trace).unwrap(), WholeTrace::Written { .. }));
            assert_eq!(fs::read(&path).unwrap(), trace);
        }
        let planned = plan();
        fs::write(&path, "the user's").unwrap();
        let error = planned.write(&FILE_MAGIC).unwrap_err();
        assert!(matches!(error, StartError::Occupied { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"the user's");
        assert_eq!(names(folder.path()), ["a.flood"]);
    }

    #[test]
    fn a_planned_file_is_not_written_beside_a_journal() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.flood");
        let planned = PlannedOutput::check(&path, 7, Replace::Trace).unwrap().unwrap();
        let live = Output::create(&path, 8, &Header::default(), Replace::Trace).unwrap();
        assert!(matches!(planned.write(&FILE_MAGIC).unwrap(), WholeTrace::HasJournal));
        let error = planned.create(&Header::default()).unwrap_err();
        assert!(matches!(error, StartError::InUse { .. }), "{error}");
        remove_journal(&live.folder, &live.state);
        assert_eq!(names(folder.path()), ["a.flood"]);
    }
}
