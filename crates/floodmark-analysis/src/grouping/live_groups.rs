//! Live allocations, sorted into groups.

use floodmark_trace::{Allocation, AllocationId, Bytes, Device, Trace};

use crate::grouping::row::{Detail, Row};
use crate::moment::Moment;

/// The live allocations of a device at a time.
#[derive(Debug)]
pub(crate) struct Live<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) device: Device,
    pub(crate) allocations: Vec<AllocationId>,
    /// Bytes from before the recording of no recorded allocation.
    pub(crate) unseen: Bytes,
}

impl<'a> Live<'a> {
    pub(crate) fn at(trace: &'a Trace, moment: &Moment) -> Self {
        let allocations = (0_u32..)
            .zip(&trace.allocations)
            .filter(|(_, allocation)| {
                allocation.device == moment.device && is_live(allocation, moment.after)
            })
            .map(|(id, _)| AllocationId(id))
            .collect();
        Self::from_allocations(trace, moment, allocations)
    }

    /// The same, with known live allocations.
    pub(crate) fn from_allocations(
        trace: &'a Trace,
        moment: &Moment,
        allocations: Vec<AllocationId>,
    ) -> Self {
        Self { trace, device: moment.device, allocations, unseen: moment.unseen }
    }

    pub(crate) fn get(&self, id: AllocationId) -> &'a Allocation {
        &self.trace.allocations[id.index()]
    }

    /// The name that the recorder found for an allocation.
    pub(crate) fn name(&self, id: AllocationId) -> Option<&'a str> {
        let label = self.trace.label(self.get(id).label)?;
        (!label.name.is_empty()).then_some(label.name.as_str())
    }

    /// The innermost module on the stack of an allocation.
    pub(crate) fn module(&self, id: AllocationId) -> Option<&'a str> {
        self.trace.module_path(self.get(id).stack)
    }

    /// Sorts the allocations into groups, those with the same key; the bytes of no recorded
    /// allocation go to the group `unseen`.
    pub(crate) fn group_by_with_unseen<K: Ord + Copy>(
        &self,
        unseen: K,
        key: impl FnMut(AllocationId, &'a Allocation) -> K,
    ) -> Vec<Group<K>> {
        let mut groups = self.group_by(key);
        if self.unseen > Bytes(0) {
            match groups.binary_search_by_key(&unseen, |group| group.key) {
                Ok(at) => groups[at].bytes += self.unseen,
                Err(at) => groups.insert(
                    at,
                    Group {
                        key: unseen,
                        members: Vec::new(),
                        bytes: self.unseen,
                        median: Bytes(0),
                    },
                ),
            }
        }
        groups
    }

    /// Sorts the allocations into groups: those with the same key.
    pub(crate) fn group_by<K: Ord + Copy>(
        &self,
        mut key: impl FnMut(AllocationId, &'a Allocation) -> K,
    ) -> Vec<Group<K>> {
        let mut members: Vec<Member<K>> = self
            .allocations
            .iter()
            .map(|&id| {
                let allocation = self.get(id);
                (key(id, allocation), allocation.rounded, id)
            })
            .collect();
        members.sort_unstable();
        members.chunk_by(|one, other| one.0 == other.0).map(Group::new).collect()
    }
}

/// Key, size, and which.
type Member<K> = (K, Bytes, AllocationId);

/// Allocations with the same key.
#[derive(Debug)]
pub(crate) struct Group<K> {
    pub(crate) key: K,
    /// Smallest first.
    pub(crate) members: Vec<AllocationId>,
    pub(crate) bytes: Bytes,
    pub(crate) median: Bytes,
}

impl<K: Copy> Group<K> {
    fn new(members: &[Member<K>]) -> Self {
        Self {
            key: members[0].0,
            members: members.iter().map(|&(_, _, id)| id).collect(),
            bytes: members.iter().map(|&(_, bytes, _)| bytes).sum(),
            median: members[members.len() / 2].1,
        }
    }
}

impl<K> Group<K> {
    /// The row that shows the group.
    pub(crate) fn into_row(self, location: String, detail: Detail) -> Row {
        let count = self.members.len() as u64;
        let Self { bytes, median, .. } = self;
        Row { bytes, cumulative: Bytes(0), count, median, location, detail }
    }
}

/// The common value of all members, if they have one.
pub(crate) fn common<T: PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values.all(|value| value.as_ref() == Some(&first)).then_some(first)
}

/// Whether an allocation is live after this number of events.
pub(crate) fn is_live(allocation: &Allocation, after: u32) -> bool {
    allocation.made_at < after && allocation.freed_at.is_none_or(|freed| freed.get() >= after)
}
