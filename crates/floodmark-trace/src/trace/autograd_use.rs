//! When autograd saved an allocation, and when the backward pass read it.
//!
//! Most traces of other tools lack it, so it is not a field of each allocation.

use crate::event::{AllocationId, EventNumber};
use crate::trace::Trace;

/// What autograd did with an allocation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AutogradUse {
    /// The event at which it was first saved for the backward pass.
    pub saved_at: Option<EventNumber>,
    /// The event at which the backward pass last read it.
    pub unpacked_at: Option<EventNumber>,
}

/// By allocation, up to the last one that autograd saved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AutogradUses(Vec<AutogradUse>);

impl AutogradUses {
    fn get(&self, id: AllocationId) -> AutogradUse {
        self.0.get(id.index()).copied().unwrap_or_default()
    }

    fn get_mut(&mut self, id: AllocationId) -> &mut AutogradUse {
        if id.index() >= self.0.len() {
            self.0.resize(id.index() + 1, AutogradUse::default());
        }
        &mut self.0[id.index()]
    }

    /// Autograd saved an allocation; the first time counts.
    pub(crate) fn save(&mut self, id: AllocationId, at: u32) {
        self.get_mut(id).saved_at.get_or_insert(EventNumber::new(at));
    }

    /// The backward pass read a saved allocation; the last time counts.
    pub(crate) fn unpack(&mut self, id: AllocationId, at: u32) {
        self.get_mut(id).unpacked_at = Some(EventNumber::new(at));
    }

    /// Removes everything after the first `events` events, and every read: the last read may have
    /// been another.
    pub(crate) fn remove_later(&mut self, allocations: usize, events: usize) {
        self.0.truncate(allocations);
        for one in &mut self.0 {
            one.saved_at = one.saved_at.filter(|at| (at.get() as usize) < events);
            one.unpacked_at = None;
        }
    }
}

impl Trace {
    /// What autograd did with an allocation.
    pub fn autograd_use(&self, id: AllocationId) -> AutogradUse {
        self.autograd_uses.get(id)
    }
}
