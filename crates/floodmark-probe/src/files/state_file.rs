//! The state file of a journal: its lock, and the reason why recording stopped.
//!
//! The file is mapped, and its descriptor closed. The mapping keeps the lock, which ends with the process; a program
//! that closes all descriptors cannot end it. A forked child does not get the mapping, so it does not get the lock.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use floodmark_trace::journal::state::{
    NOTE_LENGTH_OFFSET, NOTE_OFFSET, STATE_BYTES, STATE_FILE, StopNote, new_state,
};
use parking_lot::Mutex;

use crate::files::own_file::{Identity, OwnFile, check_length};

/// The state of a running recording.
#[derive(Debug)]
pub(crate) struct StateFile {
    /// `None` after [`Self::release`].
    mapping: Mutex<Option<Mapping>>,
    identity: Identity,
    pid: u32,
}

impl StateFile {
    /// Creates the file in the journal's folder and takes its lock.
    pub(crate) fn create(folder: &Path, session: u64) -> io::Result<Self> {
        check_length(STATE_BYTES)?;
        let mut file = OwnFile::create_new(&folder.join(STATE_FILE))?;
        // SAFETY: a plain system call on a descriptor that is open.
        let is_locked =
            unsafe { libc::flock(file.descriptor(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        let pid = std::process::id();
        file.write_all(&new_state(session, pid, is_locked))?;
        let mapping = Mutex::new(Some(Mapping::new(&file)?));
        Ok(Self { mapping, identity: file.identity, pid })
    }

    /// Writes why recording stopped. The first note counts.
    pub(crate) fn note_stop(&self, note: &StopNote) {
        // A child that was forked past our handlers does not have the mapping.
        if self.pid == std::process::id()
            && let Some(mapping) = &*self.mapping.lock()
        {
            mapping.note_stop(note);
        }
    }

    /// Returns the mapping: dropping it releases the lock.
    pub(crate) fn release(&self) -> Option<Mapping> {
        let is_ours = self.pid == std::process::id();
        is_ours.then(|| self.mapping.lock().take()).flatten()
    }

    /// Whether the file is still in this folder.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        self.identity.is_at(&folder.join(STATE_FILE))
    }
}

/// The mapped file.
#[derive(Debug)]
pub(crate) struct Mapping(*mut u8);

// SAFETY: the mapping is used under a lock.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and unmapped once.
        unsafe { libc::munmap(self.0.cast(), STATE_BYTES) };
    }
}

impl Mapping {
    fn new(file: &OwnFile) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, shared) = (file.descriptor(), libc::MAP_SHARED);
        // SAFETY: a new mapping of a file that is as long as that.
        let addr = unsafe { libc::mmap(std::ptr::null_mut(), STATE_BYTES, access, shared, fd, 0) };
        if addr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping that was just made; this changes what `fork` copies.
        unsafe { libc::madvise(addr, STATE_BYTES, libc::MADV_DONTFORK) };
        Ok(Self(addr.cast()))
    }

    fn note_stop(&self, note: &StopNote) {
        if !self.is_writable() {
            return;
        }
        // SAFETY: inside the mapping, and a multiple of four.
        let length = unsafe { AtomicU32::from_ptr(self.0.add(NOTE_LENGTH_OFFSET).cast()) };
        if length.load(Ordering::Acquire) != 0 {
            return;
        }
        let (reason_bytes, note) = note.to_bytes();
        // SAFETY: a note is cut to the page; readers read it after its length is stored.
        unsafe { self.0.add(NOTE_OFFSET).copy_from_nonoverlapping(note.as_ptr(), note.len()) };
        length.store(reason_bytes.to_le(), Ordering::Release);
    }

    /// `false` when the file was truncated: writing would raise `SIGBUS`. A kernel without the call
    /// (before 5.14) leaves it open.
    fn is_writable(&self) -> bool {
        // SAFETY: the mapping is ours; this writes nothing.
        let failed =
            unsafe { libc::madvise(self.0.cast(), STATE_BYTES, libc::MADV_POPULATE_WRITE) };
        failed == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use floodmark_trace::journal::state::{is_held, read_state};

    use super::*;

    fn note(reason: &str) -> StopNote {
        StopNote { reason: reason.to_owned(), at_micros: 3 }
    }

    #[test]
    fn the_lock_is_held_until_the_file_is_released() {
        let folder = tempfile::TempDir::new().unwrap();
        let state = StateFile::create(folder.path(), 7).unwrap();
        let read = File::open(folder.path().join(STATE_FILE)).unwrap();
        assert!(is_held(&read).unwrap());
        drop(state.release());
        assert!(!is_held(&read).unwrap());
        state.note_stop(&note("too late"));
    }

    #[test]
    fn the_first_note_counts() {
        let folder = tempfile::TempDir::new().unwrap();
        let state = StateFile::create(folder.path(), 7).unwrap();
        state.note_stop(&note("first"));
        state.note_stop(&note("second"));
        let bytes = std::fs::read(folder.path().join(STATE_FILE)).unwrap();
        let read = read_state(&bytes).unwrap();
        assert_eq!((read.session, read.is_locked, read.stop), (7, true, Some(note("first"))));
    }

    #[test]
    fn a_truncated_file_does_not_end_the_program() {
        let folder = tempfile::TempDir::new().unwrap();
        let state = StateFile::create(folder.path(), 7).unwrap();
        File::create(folder.path().join(STATE_FILE)).unwrap();
        state.note_stop(&note("nowhere to write it"));
        assert!(state.is_in(folder.path()));
    }
}
