//! The requests of a program after a change that drops allocations, makes them smaller, or frees them early and allocates
//! them again.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::program::{Program, Request};

/// What a change does to one allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// The program does not make the allocation.
    LeaveOut,
    /// The allocation has another size.
    Resize {
        /// The requested bytes.
        bytes: u64,
    },
    /// The program frees the allocation early and allocates it again, as recomputation does.
    Gap {
        /// The event after which the program frees it.
        freed_after: u32,
        /// The event before which the program allocates it again; `None` if it does not.
        again_before: Option<u32>,
    },
}

/// The edits of a program, by the number of the allocation.
pub type Edits = BTreeMap<u32, Edit>;

/// A request that an edit adds, before or after the requests of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Added {
    event: u32,
    is_after: bool,
    owner: u32,
}

impl Program {
    /// The program after a change. An allocation that is made again gets a new number.
    #[must_use]
    pub fn edited(&self, edits: &Edits) -> Self {
        let mut added = added_requests(edits).into_iter().peekable();
        let mut early = EarlyFrees { next_number: self.owners, ..EarlyFrees::default() };
        let mut requests = Vec::with_capacity(self.requests.len() + added.len());
        for &(at, request) in &self.requests {
            let is_due = |next: &Added| next.event < at || (next.event == at && !next.is_after);
            while let Some(next) = added.next_if(is_due) {
                let request = if next.is_after {
                    early.free(next.owner)
                } else {
                    early.allocate_again(next.owner)
                };
                requests.extend(request.map(|request| (next.event, request)));
            }
            requests.extend(early.edit(request, edits).map(|request| (at, request)));
        }
        let is_left_out = |owner: u32| edits.get(&owner) == Some(&Edit::LeaveOut);
        let mut program = Self { requests, owners: early.next_number, ..self.clone() };
        program.initial_blocks.retain(|block| !is_left_out(block.owner));
        program
    }
}

/// The requests that gaps add, in order.
fn added_requests(edits: &Edits) -> Vec<Added> {
    let mut added = Vec::new();
    for (&owner, &edit) in edits {
        let Edit::Gap { freed_after, again_before } = edit else { continue };
        added.push(Added { event: freed_after, is_after: true, owner });
        added.extend(again_before.map(|event| Added { event, is_after: false, owner }));
    }
    added.sort_unstable();
    added
}

/// The allocations that a change frees early.
#[derive(Debug, Default)]
struct EarlyFrees {
    /// The number of the next allocation that is made again.
    next_number: u32,
    /// The requests of all allocations.
    allocated: HashMap<u32, Request>,
    /// The new number of each allocation that was freed early; `None` until it is made again.
    again: HashMap<u32, Option<u32>>,
}

impl EarlyFrees {
    /// The request that frees an allocation early.
    fn free(&mut self, owner: u32) -> Option<Request> {
        self.allocated.get(&owner)?;
        self.again.insert(owner, None);
        Some(Request::Free { owner })
    }

    /// The request that allocates it again.
    fn allocate_again(&mut self, owner: u32) -> Option<Request> {
        let again = self.again.get_mut(&owner)?;
        let Some(&Request::Alloc { bytes, stream, pool, .. }) = self.allocated.get(&owner) else {
            return None;
        };
        let number = self.next_number;
        *again = Some(number);
        self.next_number += 1;
        Some(Request::Alloc { owner: number, bytes, stream, pool })
    }

    /// The number of an allocation that the program frees; `None` if it is already freed or was never made.
    fn freed_as(&self, owner: u32, edits: &Edits) -> Option<u32> {
        if edits.get(&owner) == Some(&Edit::LeaveOut) {
            return None;
        }
        self.again.get(&owner).copied().unwrap_or(Some(owner))
    }

    /// A recorded request after the change; `None` if the program does not make it.
    fn edit(&mut self, request: Request, edits: &Edits) -> Option<Request> {
        match request {
            Request::Alloc { owner, stream, pool, bytes } => {
                let bytes = match edits.get(&owner) {
                    Some(Edit::LeaveOut) => return None,
                    Some(&Edit::Resize { bytes }) => bytes,
                    Some(Edit::Gap { .. }) | None => bytes,
                };
                let request = Request::Alloc { owner, bytes, stream, pool };
                self.allocated.insert(owner, request);
                Some(request)
            }
            Request::Free { owner } => {
                self.freed_as(owner, edits).map(|owner| Request::Free { owner })
            }
            Request::FreeLater { owner } => {
                self.freed_as(owner, edits).map(|owner| Request::FreeLater { owner })
            }
            Request::Complete { owner } => {
                self.freed_as(owner, edits).map(|owner| Request::Complete { owner })
            }
            Request::EmptyCache | Request::Failed { .. } => Some(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(owner: u32, bytes: u64) -> Request {
        Request::Alloc { owner, bytes, stream: 0, pool: 0 }
    }

    fn program() -> Program {
        let requests = vec![
            (1, alloc(0, 8)),
            (2, alloc(1, 16)),
            (3, alloc(2, 32)),
            (4, Request::Free { owner: 1 }),
            (5, Request::Free { owner: 0 }),
        ];
        Program { requests, owners: 3, ..Program::default() }
    }

    fn edited(edits: &[(u32, Edit)]) -> Vec<(u32, Request)> {
        program().edited(&edits.iter().copied().collect()).requests
    }

    #[test]
    fn without_edits_it_is_the_same_program() {
        assert_eq!(edited(&[]), program().requests);
    }

    #[test]
    fn what_is_left_out_is_neither_allocated_nor_freed() {
        let left: Vec<u32> = edited(&[(1, Edit::LeaveOut)]).iter().map(|&(at, _)| at).collect();
        assert_eq!(left, [1, 3, 5]);
    }

    #[test]
    fn a_smaller_request_keeps_its_free() {
        let requests = edited(&[(1, Edit::Resize { bytes: 2 })]);
        assert_eq!(requests[1], (2, alloc(1, 2)));
        assert_eq!(requests[3], (4, Request::Free { owner: 1 }));
    }

    #[test]
    fn a_gap_frees_early_and_allocates_again() {
        let gap = Edit::Gap { freed_after: 2, again_before: Some(5) };
        assert_eq!(
            edited(&[(0, gap)]),
            [
                (1, alloc(0, 8)),
                (2, alloc(1, 16)),
                (2, Request::Free { owner: 0 }),
                (3, alloc(2, 32)),
                (4, Request::Free { owner: 1 }),
                (5, alloc(3, 8)),
                (5, Request::Free { owner: 3 }),
            ]
        );
        let changed = program().edited(&Edits::from([(0, gap)]));
        assert_eq!(changed.owners, 4);
    }

    #[test]
    fn a_gap_without_end_frees_once() {
        let gap = Edit::Gap { freed_after: 2, again_before: None };
        let frees = edited(&[(0, gap)])
            .into_iter()
            .filter(|(_, request)| *request == Request::Free { owner: 0 });
        assert_eq!(frees.map(|(at, _)| at).collect::<Vec<_>>(), [2]);
    }
}
