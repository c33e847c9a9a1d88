//! A thread's access to the journal: its own chunk, or the one that threads share.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use floodmark_trace::journal::{Definition, MAX_PAYLOAD_BYTES, Record};

use super::recording::Recording;
use super::window_change::disable_if_unused;
use crate::journal::Position;
use crate::stacks::DefinitionWriter;
use crate::switches::ENABLED;

/// How long a thread waits for the writer when the journal is full, and how often it publishes its time.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
const WAIT_STEP: Duration = Duration::from_millis(2);

/// Writes records into a thread's journal.
pub(super) struct ThreadJournal<'a> {
    pub(super) recording: &'a Recording,
    pub(super) thread: u32,
    pub(super) at: &'a mut Position,
}

impl DefinitionWriter for ThreadJournal<'_> {
    fn define(&mut self, definition: &Definition<&str>) {
        let (record, payload) = definition.to_record();
        self.write(record, &payload);
    }
}

impl ThreadJournal<'_> {
    #[inline]
    pub(super) fn write(&mut self, record: Record, payload: &[u8]) {
        let payload = &payload[..payload.len().min(MAX_PAYLOAD_BYTES)];
        let slots = record.slots(payload.len());
        if self.at.has_room(slots) || self.next_chunk() {
            self.at.write(&self.recording.journal, self.thread, record, payload);
        } else {
            self.write_shared(record, payload);
        }
    }

    /// Writes into the chunk that threads without one of their own share.
    #[cold]
    fn write_shared(&mut self, record: Record, payload: &[u8]) {
        // Before the lock is taken: threads that wait for the lock would block the writer.
        self.wait_for_writer();
        let mut shared = self.recording.journal.shared.lock();
        if !shared.has_room(record.slots(payload.len())) {
            shared.seal(&self.recording.journal);
            if let Err(error) = shared.take_chunk(&self.recording.journal) {
                drop(shared);
                return self.fail(&error);
            }
        }
        shared.last_nanos = shared.last_nanos.max(self.at.last_nanos);
        shared.write(&self.recording.journal, self.thread, record, payload);
        self.at.last_nanos = shared.last_nanos;
    }

    fn fail(&self, error: &std::io::Error) {
        self.recording.fail(format!("the journal could not grow: {error}"));
    }

    /// Takes the next chunk. Returns false where this thread must share one.
    #[cold]
    fn next_chunk(&mut self) -> bool {
        self.at.seal(&self.recording.journal);
        if !self.recording.journal.chunks.has_room() {
            return false;
        }
        self.wait_for_writer();
        let taken = self.at.take_chunk(&self.recording.journal);
        taken.inspect_err(|error| self.fail(error)).is_ok()
    }

    /// Gives the writer time when it is far behind: the journal must not grow without end. Not for long, since
    /// another thread may be inside a hook and block the writer. While no window is open no thread waits: the
    /// hooks write no events.
    fn wait_for_writer(&mut self) {
        if !self.recording.journal.chunks.is_full() {
            return;
        }
        if disable_if_unused(self.recording) {
            return;
        }
        let begin = Instant::now();
        while self.recording.journal.chunks.is_full()
            && ENABLED.load(Ordering::Acquire)
            && begin.elapsed() < LONGEST_WAIT
        {
            // The next record is later than this, so the writer need not stop at the one before.
            self.at.last_nanos = self.recording.nanos().max(self.at.last_nanos);
            if let Some(published) = self.at.published {
                published.store(self.at.last_nanos, Ordering::Release);
            }
            self.recording.journal.chunks.wait(WAIT_STEP);
        }
    }
}
