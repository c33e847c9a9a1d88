//! The lifetime of an allocation in seconds.

use floodmark_trace::{Allocation, AllocationId, EventNumber, Trace};

/// The event that freed an allocation.
pub(crate) fn freed(allocation: &Allocation) -> Option<u32> {
    allocation.freed_at.map(EventNumber::get)
}

/// When autograd first saved an allocation for the backward pass.
pub(crate) fn saved_seconds(trace: &Trace, id: AllocationId) -> Option<f64> {
    seconds(trace, trace.autograd_use(id).saved_at)
}

/// When an allocation was last used, as far as that is known: when the backward pass last read what autograd
/// had saved of it.
pub(crate) fn last_use_seconds(trace: &Trace, id: AllocationId) -> Option<f64> {
    seconds(trace, trace.autograd_use(id).unpacked_at)
}

fn seconds(trace: &Trace, event: Option<EventNumber>) -> Option<f64> {
    Some(trace.events.get(event?.get() as usize)?.time.as_seconds())
}
