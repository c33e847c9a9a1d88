//! A trace in memory that grows batch by batch, and can be read at any time.

use crate::batch::Batch;
use crate::header::{Ending, Header};
use crate::losses::Loss;
use crate::trace::Trace;

/// Batches that have not been written to a file.
#[derive(Debug, Default)]
pub struct GrowingTrace {
    trace: Trace,
}

impl GrowingTrace {
    /// Appends a batch.
    pub fn push(&mut self, batch: Batch) {
        self.trace.push(batch);
    }

    /// The trace so far: a copy, since it goes on to grow. Without an ending its program still records.
    pub fn trace(&self, header: &Header, ending: Option<Ending>, losses: Vec<Loss>) -> Trace {
        let mut trace = self.trace.clone();
        trace.header.clone_from(header);
        trace.is_running = ending.is_none();
        trace.ending = ending;
        trace.complete(losses);
        trace
    }
}
