//! The records that a traced thread writes while the program runs.
//!
//! A thread owns one chunk at a time: a part of a file, of fixed size, mapped shared. A record takes a few slots
//! of its chunk and carries a checksum. One more file, the ledger, has a line for each chunk, which counts
//! the records that are completely written. So a reader can say how many records there must be, which of them
//! are good, and how many are lost.
//!
//! Records are ordered by their time. A thread reads the clock inside the hook, after an allocation and
//! before a free, so no free precedes its allocation, with any threads.
//!
//! All numbers are little-endian. `docs/trace-format.md` draws the bytes.

mod definition;
mod ledger;
mod payload;
mod record;
mod salvage;
pub mod state;

pub use definition::Definition;
pub use ledger::{
    LEDGER_BYTES, LEDGER_LINE_BYTES, LedgerLine, MOST_CHUNKS, ledger_header, ledger_line_offset,
};
pub(crate) use payload::cut_at_char;
pub use payload::{MAX_PAYLOAD_BYTES, pack_strings, unpack_strings};
pub use record::{Entry, Record, RecordBytes, SHORT_WORDS, Seed, parse_record};
pub(crate) use salvage::other_version;
pub use salvage::{JournalWriter, SalvagedJournal, read_journal};

/// The first eight bytes of a ledger.
pub const LEDGER_MAGIC: [u8; 8] = *b"FLDJRNL2";
/// The first eight bytes of a chunk.
pub const CHUNK_MAGIC: [u8; 8] = *b"FLDJSEG2";
/// The name of the ledger in the journal's folder.
pub const LEDGER_NAME: &str = "ledger";
/// The suffix of files with chunks.
pub const CHUNK_EXTENSION: &str = "chunk";
/// Bytes before the first slot of a chunk.
pub const CHUNK_HEADER_BYTES: usize = 64;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 16;
/// Bytes of a chunk on disk.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Slots of a chunk.
pub const SLOTS_PER_CHUNK: usize = (CHUNK_BYTES - CHUNK_HEADER_BYTES) / SLOT_BYTES;

/// The kinds of records that are [`Definition`]s. Numbers below 100 are those of [`crate::EventKind`].
pub mod record_kind {
    /// Defines a function.
    pub const CODE: u8 = 100;
    /// Defines a node of the call tree.
    pub const STACK: u8 = 101;
    /// Defines or names a module.
    pub const MODULE: u8 = 102;
    /// Defines a label.
    pub const LABEL: u8 = 103;
    /// Defines a text.
    pub const TEXT: u8 = 104;
}

/// The backward pass did it.
pub const FLAG_BACKWARD: u8 = 1;
/// The block was freed while a stream still used it: `FreeCompleted` comes later.
pub const FLAG_DEFERRED: u8 = 2;
/// The recorder had no memory left for the call stack, or for a part of it.
pub const FLAG_STACK_LEFT_OUT: u8 = 4;
/// The recorder had no number or no memory left for the phase, operator, stream, pool or label.
pub const FLAG_NAME_LEFT_OUT: u8 = 8;
/// A fake tensor's block: torch did not report it.
pub const FLAG_FAKE_TENSOR: u8 = 16;
/// The record belongs to one window of the recorder, which has the number `bytes`; a journal of another window
/// leaves it out.
pub const FLAG_OF_WINDOW: u8 = 32;
/// The block is the first of an operator call.
pub const FLAG_OP_CALL: u8 = 64;

/// The header of a chunk: the number of its line in the ledger.
pub fn chunk_header(session: u64, number: u32) -> [u8; CHUNK_HEADER_BYTES] {
    let mut header = [0; CHUNK_HEADER_BYTES];
    header[0..8].copy_from_slice(&CHUNK_MAGIC);
    header[8..16].copy_from_slice(&session.to_le_bytes());
    header[16..20].copy_from_slice(&number.to_le_bytes());
    header
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

const _: () = assert!(SLOT_BYTES * SLOTS_PER_CHUNK > 2 * MAX_PAYLOAD_BYTES);
