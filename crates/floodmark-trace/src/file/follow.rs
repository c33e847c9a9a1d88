//! A file that still grows: each byte is decoded once, however often the file is read.
//!
//! An incomplete frame at the end is left for the next read. A [`Trace`] is immutable and may be in use while the file
//! grows, so each read returns a copy ([`GrowingReader::trace`]); copying costs far less than reading again. Callers
//! that share the reader use the trace in place ([`GrowingReader::complete`]).

use super::read::{ReadError, Reader, check_beginning};
use crate::frame::{self, FRAME_HEADER_BYTES, PRELUDE_BYTES, Piece};
use crate::limits::DecompressionLimit;
use crate::trace::Trace;

/// Reads a file piece by piece.
#[derive(Debug)]
pub struct GrowingReader {
    reader: Reader,
    taken: u64,
    left: Option<Left>,
}

/// The incomplete frame at the end of the file.
#[derive(Debug, Clone, Copy)]
struct Left {
    bytes: u64,
    /// Whether it can be the beginning of a frame.
    is_cut: bool,
}

impl Default for GrowingReader {
    fn default() -> Self {
        Self::new(DecompressionLimit::default())
    }
}

impl GrowingReader {
    /// A reader with this limit on decompressed bytes.
    pub fn new(limit: DecompressionLimit) -> Self {
        Self { reader: Reader::new(limit), taken: 0, left: None }
    }

    /// The bytes already read: the next input begins there.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Reads the file from [`Self::taken`] to its current end.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let mut at = 0;
        if self.taken == 0 {
            check_beginning(bytes)?;
            at = PRELUDE_BYTES;
        }
        self.left = None;
        self.reader.set_file_bytes(self.taken + bytes.len() as u64);
        for piece in frame::pieces_from(bytes, at) {
            match piece {
                Piece::Frame(frame) => {
                    at += FRAME_HEADER_BYTES + frame.payload.len();
                    self.reader.take_frame(frame);
                }
                Piece::Damaged { bytes: damaged, .. } => {
                    let end = at.saturating_add(usize::try_from(damaged).unwrap_or(usize::MAX));
                    if end >= bytes.len() {
                        self.left =
                            Some(Left { bytes: damaged, is_cut: frame::is_cut(&bytes[at..]) });
                        break;
                    }
                    self.reader.note_damage(self.taken + at as u64, damaged);
                    at = end;
                }
            }
        }
        self.taken += at as u64;
        Ok(())
    }

    /// The current trace, with the records of the journal.
    pub fn trace(&self, journal: &[&[u8]]) -> Result<Trace, ReadError> {
        let mut reader = self.reader.to_finish();
        match self.left {
            Some(Left { is_cut: true, .. }) => reader.is_cut = true,
            Some(Left { bytes, is_cut: false }) => reader.note_damage(self.taken, bytes),
            None => {}
        }
        reader.finish(journal)
    }

    /// Updates the trace with all complete frames, and borrows it. The journal is not read. Only new rows are
    /// processed.
    pub fn complete(&mut self) -> Result<&Trace, ReadError> {
        let left = self.left.filter(|left| !left.is_cut).map(|left| (self.taken, left.bytes));
        self.reader.complete(left)
    }

    /// The last completed trace.
    pub fn completed(&self) -> &Trace {
        self.reader.completed()
    }
}
