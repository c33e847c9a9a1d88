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
    /// An empty trace.
    pub fn new(header: Header) -> Self {
        Self { trace: Trace { header, ..Trace::default() } }
    }

    /// Reserves space for this many events and allocations; a low estimate costs a copy.
    pub fn reserve(&mut self, events: usize, allocations: usize) {
        self.trace.events.reserve_exact(events);
        self.trace.allocations.reserve_exact(allocations);
    }

    /// Adds the definitions of a batch, without its rows.
    pub fn define(&mut self, batch: Batch) {
        self.trace.push_definitions(batch);
    }

    /// Adds an event and returns its new allocation. An event that refers to an unknown allocation
    /// is counted and left out.
    pub fn push(&mut self, row: &Row) -> Option<AllocationId> {
        let next = u32::try_from(self.trace.allocations.len()).ok().map(AllocationId);
        self.trace.push_row(row);
        next.filter(|_| matches!(row.kind, EventKind::Alloc | EventKind::InitialBlock))
    }

    /// Sets the size of an allocation's block, once known.
    pub fn set_block_bytes(&mut self, id: AllocationId, bytes: Bytes) {
        self.trace.set_block_bytes(id, bytes);
    }

    /// The trace so far, for lookups of earlier rows.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The whole trace: with its final totals, its ending and its losses.
    #[must_use]
    pub fn finish(mut self, totals: Vec<Total>, ending: Ending, losses: Vec<Loss>) -> Trace {
        self.trace.totals = totals;
        self.trace.ending = Some(ending);
        self.trace.complete(losses);
        self.trace
    }
}
