//! Where a thread writes its next record.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use floodmark_trace::journal::{Record, SLOTS_PER_CHUNK};

use super::Journal;
use super::chunks::Chunk;

/// Where the next record goes.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// The id of the journal that the chunk belongs to.
    journal: u64,
    chunk: Option<Arc<Chunk>>,
    slot: usize,
    records: u32,
    first_ordinal: u32,
    /// The time of the last record: the next one is later.
    pub(crate) last_nanos: u64,
    /// Where the thread publishes `last_nanos` for the writer.
    pub(crate) published: Option<&'static AtomicU64>,
}

impl Position {
    /// A thread without a chunk, which publishes the time of its last record.
    pub(crate) fn new(journal: &Journal, published: &'static AtomicU64) -> Self {
        Self { journal: journal.id, published: Some(published), ..Self::default() }
    }

    /// Whether the chunk belongs to this journal.
    pub(crate) fn is_in(&self, journal: &Journal) -> bool {
        self.journal == journal.id
    }

    /// Whether a record of this number of slots fits into the chunk.
    #[inline]
    pub(crate) fn has_room(&self, slots: usize) -> bool {
        self.chunk.is_some() && self.slot + slots <= SLOTS_PER_CHUNK
    }

    /// Writes a record that fits.
    #[inline]
    pub(crate) fn write(
        &mut self,
        journal: &Journal,
        thread: u32,
        mut record: Record,
        payload: &[u8],
    ) {
        let Some(chunk) = &self.chunk else { return };
        // The clock is read last: a thread that has its time always writes the record.
        let now = journal.nanos().max(self.last_nanos + 1);
        (record.thread, record.time_nanos) = (thread, now);
        let ordinal = self.first_ordinal.wrapping_add(self.records);
        let bytes = record.to_bytes(journal.seed, ordinal, payload);
        chunk.write(self.slot, bytes.words(), payload);
        self.slot += bytes.slots;
        self.records += 1;
        self.last_nanos = now;
        chunk.commit(self.slot, self.records);
    }

    pub(crate) fn seal(&mut self, journal: &Journal) {
        if let Some(full) = self.chunk.take() {
            journal.chunks.seal(&full);
        }
    }

    pub(crate) fn take_chunk(&mut self, journal: &Journal) -> std::io::Result<()> {
        let chunk = journal.chunks.take()?;
        (self.journal, self.slot, self.records) = (journal.id, 0, 0);
        self.first_ordinal = chunk.first_ordinal();
        self.chunk = Some(chunk);
        Ok(())
    }
}
