//! The requests of a program after a change to it: allocations that it would not make, smaller ones, and
//! ones that it would free and allocate again.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::program::{Program, Request};

/// What a change does to one allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// It is not made.
    LeaveOut,
    /// It requests so many bytes.
    Resize {
        /// The requested bytes.
        bytes: u64,
    },
    /// It is freed early and allocated again, as recomputation does.
    Gap {
        /// The event after which it is freed.
        freed_after: u32,
        /// The event before which it is allocated again; `None` for never.
        again_before: Option<u32>,
    },
}

/// What a change does to a program, by the number of the allocation.
pub type Edits = BTreeMap<u32, Edit>;

/// A request that an edit adds: after the requests of an event, or before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Added {
    event: u32,
    is_after: bool,
    owner: u32,
}

impl Program {
    /// The same after a change. A second life of an allocation gets a number of its own.
    #[must_use]
    pub fn edited(&self, edits: &Edits) -> Self {
        let mut added = added_requests(edits).into_iter().peekable();
        let mut lives = Lives { number: self.owners, ..Lives::default() };
        let mut requests = Vec::with_capacity(self.requests.len() + added.len());
        for &(at, request) in &self.requests {
            let is_due = |next: &Added| next.event < at || (next.event == at && !next.is_after);
            while let Some(next) = added.next_if(is_due) {
                let request =
                    if next.is_after { lives.end(next.owner) } else { lives.begin(next.owner) };
                requests.extend(request.map(|request| (next.event, request)));
            }
            requests.extend(lives.edit(request, edits).map(|request| (at, request)));
        }
        let is_left_out = |owner: u32| edits.get(&owner) == Some(&Edit::LeaveOut);
        let mut program = Self { requests, owners: lives.number, ..self.clone() };
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

/// Allocations that a change frees early.
#[derive(Debug, Default)]
struct Lives {
    /// The number that the next second life gets.
    number: u32,
    /// The requests that allocated.
    made: HashMap<u32, Request>,
    /// The second life of each allocation that was freed early; `None` before it begins.
    second: HashMap<u32, Option<u32>>,
}

impl Lives {
    /// The request that frees an allocation early.
    fn end(&mut self, owner: u32) -> Option<Request> {
        self.made.get(&owner)?;
        self.second.insert(owner, None);
        Some(Request::Free { owner })
    }

    /// The request that allocates it again.
    fn begin(&mut self, owner: u32) -> Option<Request> {
        let second = self.second.get_mut(&owner)?;
        let Some(&Request::Alloc { bytes, stream, pool, .. }) = self.made.get(&owner) else {
            return None;
        };
        let number = self.number;
        *second = Some(number);
        self.number += 1;
        Some(Request::Alloc { owner: number, bytes, stream, pool })
    }

    /// The number under which an allocation is freed; `None` where it has been freed or was never made.
    fn freed_as(&self, owner: u32, edits: &Edits) -> Option<u32> {
        if edits.get(&owner) == Some(&Edit::LeaveOut) {
            return None;
        }
        self.second.get(&owner).copied().unwrap_or(Some(owner))
    }

    /// A recorded request after the change; `None` where it is not made.
    fn edit(&mut self, request: Request, edits: &Edits) -> Option<Request> {
        match request {
            Request::Alloc { owner, stream, pool, bytes } => {
                let bytes = match edits.get(&owner) {
                    Some(Edit::LeaveOut) => return None,
                    Some(&Edit::Resize { bytes }) => bytes,
                    Some(Edit::Gap { .. }) | None => bytes,
                };
                let request = Request::Alloc { owner, bytes, stream, pool };
                self.made.insert(owner, request);
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
