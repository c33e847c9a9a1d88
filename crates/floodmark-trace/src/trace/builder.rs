//! Builds a trace from another source than a `.flood` file: row by row, straight into its columns.

use crate::batch::{Batch, Row, Total};
use crate::event::{AllocationId, Bytes, EventKind};
use crate::header::{Ending, Header};
use crate::losses::Loss;
use crate::trace::Trace;

/// A trace that is being made. Rows come in order; definitions may come at any time.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    trace: Trace,
}

impl TraceBuilder {
    /// A trace of nothing yet.
    pub fn new(header: Header) -> Self {
        Self { trace: Trace { header, ..Trace::default() } }
    }

    /// Makes room for as many events and allocations, and no more: a guess that is too low costs a copy.
    pub fn reserve(&mut self, events: usize, allocations: usize) {
        self.trace.events.reserve_exact(events);
        self.trace.allocations.reserve_exact(allocations);
    }

    /// Adds the definitions of a batch. Its rows are not looked at.
    pub fn define(&mut self, batch: Batch) {
        self.trace.push_definitions(batch);
    }

    /// Adds an event. One that refers to an unknown allocation is counted, not trusted.
    /// Returns its new allocation.
    pub fn push(&mut self, row: &Row) -> Option<AllocationId> {
        let next = u32::try_from(self.trace.allocations.len()).ok().map(AllocationId);
        self.trace.push_row(row);
        next.filter(|_| matches!(row.kind, EventKind::Alloc | EventKind::InitialBlock))
    }

    /// Says how large the block of an allocation is, once that is known.
    pub fn set_block_bytes(&mut self, id: AllocationId, bytes: Bytes) {
        self.trace.set_block_bytes(id, bytes);
    }

    /// The trace so far, for those who look up what they have said.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The whole trace: with the totals at its end, how it ended and what is missing from it.
    #[must_use]
    pub fn finish(mut self, totals: Vec<Total>, ending: Ending, losses: Vec<Loss>) -> Trace {
        self.trace.totals = totals;
        self.trace.ending = Some(ending);
        self.trace.complete(losses);
        self.trace
    }
}
