//! The first allocation in which two recordings of one program differ.

use floodmark_trace::{Allocation, Bytes, Device, Trace};
use serde::{Deserialize, Serialize};

use crate::allocation::location::allocation_location;

/// An allocation of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferentAllocation {
    /// The bytes that the program requested.
    pub requested: Bytes,
    /// The line that allocated it.
    pub location: String,
}

impl DifferentAllocation {
    fn new(trace: &Trace, allocation: &Allocation) -> Self {
        let location = allocation_location(trace, allocation);
        Self { requested: allocation.requested, location }
    }
}

/// The first difference between two recordings: the allocations in it, of which one may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstDifference {
    /// How many allocations before it are the same in both.
    pub same: u64,
    /// That of the first recording; none where it has no further one.
    pub one: Option<DifferentAllocation>,
    /// That of the second recording.
    pub other: Option<DifferentAllocation>,
}

/// Compares size and line of allocations on GPUs, in their order; none where all are the same.
pub fn first_difference(one: &Trace, other: &Trace) -> Option<FirstDifference> {
    let (mut ones, mut others) = (on_gpus(one), on_gpus(other));
    let mut same = 0;
    loop {
        let (first, second) = (ones.next(), others.next());
        if first.is_none() && second.is_none() {
            return None;
        }
        let first = first.map(|allocation| DifferentAllocation::new(one, allocation));
        let second = second.map(|allocation| DifferentAllocation::new(other, allocation));
        if first != second {
            return Some(FirstDifference { same, one: first, other: second });
        }
        same += 1;
    }
}

fn on_gpus(trace: &Trace) -> impl Iterator<Item = &Allocation> {
    let is_on_gpu = |device: Device| !device.is_cpu();
    trace.allocations.iter().filter(move |allocation| is_on_gpu(allocation.device))
}

impl std::fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |one: &Option<DifferentAllocation>| match one {
            Some(one) => format!("{} at {}", one.requested, one.location),
            None => "no further one".to_owned(),
        };
        let (number, one, other) = (self.same + 1, shown(&self.one), shown(&self.other));
        write!(f, "allocation {number} is {one} in the first try, and {other} in the other")
    }
}
