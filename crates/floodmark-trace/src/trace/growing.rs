//! A trace in memory that grows batch by batch, and can be read at any time.

use crate::batch::Batch;
use crate::header::{Ending, Header};
use crate::trace::Trace;

/// Batches that have not been written to a file.
#[derive(Debug, Default)]
pub struct GrowingTrace {
    trace: Trace,
}

impl GrowingTrace {
    /// Appends a batch. [`Self::complete`] must be called after the last one.
    pub fn push(&mut self, batch: Batch) {
        self.trace.push(batch);
    }

    /// Updates the trace with all batches, and borrows it. Without an ending its program still records. Only new
    /// rows are processed.
    pub fn complete(&mut self, header: &Header, ending: Option<Ending>) -> &Trace {
        self.trace.header.clone_from(header);
        self.trace.is_running = ending.is_none();
        self.trace.ending = ending;
        self.trace.complete(Vec::new());
        &self.trace
    }

    /// The last completed trace.
    pub fn completed(&self) -> &Trace {
        &self.trace
    }
}
