//! When an allocation was let go of: the one place of the newer questions that reads it.

use floodmark_trace::{Allocation, EventNumber};

/// The event that let go of an allocation.
pub(crate) fn freed(allocation: &Allocation) -> Option<u32> {
    allocation.freed_at.map(EventNumber::get)
}
