//! The ledger: a line for each chunk, with the number of its records.

use super::{LEDGER_MAGIC, u32_at, u64_at};

/// Bytes of a line. A cache line: the threads that commit records share none.
pub const LEDGER_LINE_BYTES: usize = 64;
/// How many chunks there can be at a time.
pub const MOST_CHUNKS: usize = 16_383;
/// Bytes of a ledger: its header, and a line for each chunk.
pub const LEDGER_BYTES: usize = (MOST_CHUNKS + 1) * LEDGER_LINE_BYTES;

/// The offset of the ledger's length.
const LENGTH_OFFSET: usize = 16;

/// Whether a ledger is shorter than when it was created.
pub(super) fn is_cut(ledger: &[u8]) -> bool {
    (ledger.len() as u64) < u64_at(ledger, LENGTH_OFFSET)
}

/// Where the line of a chunk begins.
pub const fn ledger_line_offset(chunk: u32) -> usize {
    (chunk as usize + 1) * LEDGER_LINE_BYTES
}

/// The first line of a ledger of this many bytes.
pub fn ledger_header(session: u64, bytes: usize) -> [u8; LEDGER_LINE_BYTES] {
    let mut header = [0; LEDGER_LINE_BYTES];
    header[0..8].copy_from_slice(&LEDGER_MAGIC);
    header[8..16].copy_from_slice(&session.to_le_bytes());
    header[LENGTH_OFFSET..LENGTH_OFFSET + 8].copy_from_slice(&(bytes as u64).to_le_bytes());
    header
}

/// A chunk's line in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LedgerLine {
    /// Slots that are completely written.
    pub slots: u32,
    /// Records in these slots.
    pub records: u32,
    /// The ordinal of the first of them.
    pub first_ordinal: u32,
    /// How many of them are in the trace file.
    pub flushed: u32,
}

impl LedgerLine {
    /// Where the word of [`Self::commit_word`] is in the line.
    pub const COMMIT_OFFSET: usize = 0;
    /// Where `first_ordinal` is in the line.
    pub const FIRST_ORDINAL_OFFSET: usize = 8;
    /// Where `flushed` is in the line.
    pub const FLUSHED_OFFSET: usize = 12;

    /// `slots` and `records` in one word, so that one store commits a record.
    pub const fn commit_word(slots: u32, records: u32) -> u64 {
        slots as u64 | (records as u64) << 32
    }

    /// The line of a chunk, if the ledger has it.
    pub fn read(ledger: &[u8], chunk: u32) -> Option<Self> {
        let at = ledger_line_offset(chunk);
        let line = ledger.get(at..at + LEDGER_LINE_BYTES)?;
        let word = u64_at(line, Self::COMMIT_OFFSET);
        #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
        let (slots, records) = (word as u32, (word >> 32) as u32);
        let first_ordinal = u32_at(line, Self::FIRST_ORDINAL_OFFSET);
        Some(Self { slots, records, first_ordinal, flushed: u32_at(line, Self::FLUSHED_OFFSET) })
    }

    /// The bytes of the line.
    pub fn to_bytes(self) -> [u8; LEDGER_LINE_BYTES] {
        let mut line = [0; LEDGER_LINE_BYTES];
        line[0..8].copy_from_slice(&Self::commit_word(self.slots, self.records).to_le_bytes());
        line[8..12].copy_from_slice(&self.first_ordinal.to_le_bytes());
        line[12..16].copy_from_slice(&self.flushed.to_le_bytes());
        line
    }
}
