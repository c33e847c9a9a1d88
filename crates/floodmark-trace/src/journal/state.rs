//! The state file of a journal: its recording, and why that stopped before the program did.
//!
//! A live recording holds a lock on the file, so a reader and another recorder see whether the program still writes.
//! The file gets its full length when the recording begins and is mapped. So the stop note can be written when the disk
//! is full, when a file may not grow, and when every descriptor is closed.
//!
//! `docs/trace-format.md` draws the bytes.

use std::fs::{File, TryLockError};
use std::io;

use super::cut_at_char;

/// The suffix of a trace's name in the name of its journal's folder.
pub const FOLDER_SUFFIX: &str = ".journal";
/// The name of the file in the journal's folder.
pub const STATE_FILE: &str = "state";
/// Bytes of the file.
pub const STATE_BYTES: usize = 4096;
/// The first eight bytes.
pub const STATE_MAGIC: [u8; 8] = *b"FLDSTAT1";
/// Where the length of the reason is. It is stored last, so a reader never sees half a note.
pub const NOTE_LENGTH_OFFSET: usize = 24;
/// Where the rest of the note is: checksum, time, reason.
pub const NOTE_OFFSET: usize = 28;
const TIME_OFFSET: usize = 32;
const REASON_OFFSET: usize = 40;

/// Why a recording stopped while the program went on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopNote {
    /// Why.
    pub reason: String,
    /// When, in microseconds since the recording began.
    pub at_micros: u64,
}

impl StopNote {
    /// The length of the reason, and the bytes from [`NOTE_OFFSET`] on.
    pub fn to_bytes(&self) -> (u32, Vec<u8>) {
        let reason = cut_at_char(&self.reason, STATE_BYTES - REASON_OFFSET).as_bytes();
        #[expect(clippy::cast_possible_truncation, reason = "cut to a page")]
        let length = reason.len() as u32;
        let time = self.at_micros.to_le_bytes();
        let mut bytes = checksum(time, reason).to_le_bytes().to_vec();
        bytes.extend_from_slice(&time);
        bytes.extend_from_slice(reason);
        (length, bytes)
    }
}

fn checksum(time: [u8; 8], reason: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&time);
    crc.update(reason);
    crc.finalize()
}

/// The contents of a state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalState {
    /// The recording, as in the header of the trace.
    pub session: u64,
    /// The process that records.
    pub pid: u32,
    /// Whether it holds a lock on the file while it records; some file systems have none.
    pub is_locked: bool,
    /// Why recording stopped before the program did.
    pub stop: Option<StopNote>,
}

/// The bytes of the file when a recording begins.
pub fn new_state(session: u64, pid: u32, is_locked: bool) -> [u8; STATE_BYTES] {
    let mut bytes = [0; STATE_BYTES];
    bytes[..8].copy_from_slice(&STATE_MAGIC);
    bytes[8..16].copy_from_slice(&session.to_le_bytes());
    bytes[16..20].copy_from_slice(&pid.to_le_bytes());
    bytes[20] = u8::from(is_locked);
    bytes
}

/// Reads a state file; `None` when the bytes are something else. A damaged note is left out.
pub fn read_state(bytes: &[u8]) -> Option<JournalState> {
    if bytes.get(..8)? != STATE_MAGIC {
        return None;
    }
    let session = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let pid = u32_at(bytes, 16)?;
    let is_locked = *bytes.get(20)? == 1;
    Some(JournalState { session, pid, is_locked, stop: read_note(bytes) })
}

fn read_note(bytes: &[u8]) -> Option<StopNote> {
    let length = u32_at(bytes, NOTE_LENGTH_OFFSET).filter(|&length| length > 0)? as usize;
    let time: [u8; 8] = bytes.get(TIME_OFFSET..REASON_OFFSET)?.try_into().ok()?;
    let reason = bytes.get(REASON_OFFSET..)?.get(..length)?;
    if u32_at(bytes, NOTE_OFFSET)? != checksum(time, reason) {
        return None;
    }
    let reason = String::from_utf8_lossy(reason).into_owned();
    Some(StopNote { reason, at_micros: u64::from_le_bytes(time) })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Whether a live recording holds the lock of its state file. `file` is that file, opened for reading.
pub fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        // The lock is released at once, since another recorder may test it too.
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_note(note: &StopNote) -> Vec<u8> {
        let mut bytes = new_state(7, 42, true).to_vec();
        let (length, rest) = note.to_bytes();
        bytes[NOTE_OFFSET..][..rest.len()].copy_from_slice(&rest);
        bytes[NOTE_LENGTH_OFFSET..][..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        let state = read_state(&new_state(7, 42, true)).unwrap();
        assert_eq!(state, JournalState { session: 7, pid: 42, is_locked: true, stop: None });
        let note = StopNote { reason: "no space left".to_owned(), at_micros: 3_200_000 };
        assert_eq!(read_state(&with_note(&note)).unwrap().stop, Some(note));
    }

    #[test]
    fn a_reason_that_is_too_long_is_cut() {
        let note = StopNote { reason: "ö".repeat(9000), at_micros: 1 };
        let read = read_state(&with_note(&note)).unwrap().stop.unwrap();
        assert_eq!(read.reason, "ö".repeat((STATE_BYTES - REASON_OFFSET) / 2));
    }

    #[test]
    fn a_damaged_note_is_left_out() {
        let note = StopNote { reason: "no space left".to_owned(), at_micros: 3_200_000 };
        let whole = with_note(&note);
        for at in NOTE_LENGTH_OFFSET..REASON_OFFSET + note.reason.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            assert_eq!(read_state(&bytes).unwrap().stop, None, "byte {at}");
        }
        for length in 0..REASON_OFFSET + note.reason.len() {
            assert_eq!(
                read_state(&whole[..length]).and_then(|state| state.stop),
                None,
                "truncated at {length}"
            );
        }
        assert_eq!(read_state(b"something else, and long enough for it"), None);
    }
}
