//! The live allocations at any time of a device, without reading earlier events again.
//!
//! Kept are the totals every [`TOTALS_EVERY`] events, and from time to time the allocations that are there: after
//! as many new ones as were live, and never fewer than [`LIVE_EVERY`]. So all of them together are not longer
//! than the list of allocations, and what is there at a moment is found by looking at about two such lists.

use floodmark_trace::{Allocation, AllocationId, Device, Trace};

use crate::allocation::context::Context;
use crate::grouping::live_groups::is_live;
use crate::moment::at::At;
use crate::moment::totals::{Peak, Totals};
use crate::moment::{Moment, check_device, moment_of, moment_of_peak};
use crate::question_error::QuestionError;

const TOTALS_EVERY: usize = 4096;
const LIVE_EVERY: usize = 1024;

/// The totals and the allocations of a device at some moments, from which all others are near: at most four
/// bytes an allocation. In a trace that grows it is extended by what is new.
#[derive(Debug, Clone)]
pub struct MomentIndex {
    device: Device,
    peak: Peak,
    /// How many events were read, and the totals after them.
    read: usize,
    totals: Totals,
    /// After every [`TOTALS_EVERY`] events.
    checkpoints: Vec<Totals>,
    known: Vec<LiveAt>,
    /// How many allocations after the last known state the next one is.
    wait: usize,
}

/// The live allocations at one allocation.
#[derive(Debug, Clone)]
struct LiveAt {
    /// The allocation.
    next: u32,
    /// The live ones, in the order of their allocation.
    live: Vec<u32>,
}

impl MomentIndex {
    /// Reads the events of a device once.
    pub fn new(trace: &Trace, device: Device) -> Result<Self, QuestionError> {
        let device = device.canonical();
        check_device(trace, device)?;
        let mut index = Self::at_start(trace, device);
        index.extend(trace);
        Ok(index)
    }

    /// Before the first event.
    pub(crate) fn at_start(trace: &Trace, device: Device) -> Self {
        let totals = Totals::at_start(trace, device);
        Self {
            device,
            peak: Peak::at_start(&totals),
            read: 0,
            totals,
            checkpoints: vec![totals],
            known: Vec::new(),
            wait: LIVE_EVERY,
        }
    }

    /// Reads the events that are new. Returns whether all events were read again: where it turned out that another
    /// number of bytes was there before the recording, no total is what it was.
    pub(crate) fn extend(&mut self, trace: &Trace) -> bool {
        let start = Totals::at_start(trace, self.device);
        let is_renewed = start.unseen() != self.checkpoints[0].unseen();
        if is_renewed {
            *self = Self::at_start(trace, self.device);
        }
        for event in &trace.events[self.read..] {
            self.totals.apply(trace, event);
            self.read += 1;
            if event.device == self.device {
                let after = u32::try_from(self.read).unwrap_or(u32::MAX);
                self.peak.follow(trace, event, &self.totals, after);
            }
            if self.read.is_multiple_of(TOTALS_EVERY) {
                self.checkpoints.push(self.totals);
            }
        }
        self.extend_known(trace);
        is_renewed
    }

    fn extend_known(&mut self, trace: &Trace) {
        let is_here = |allocation: &Allocation, after| {
            allocation.device == self.device && is_live(allocation, after)
        };
        let number = |id| u32::try_from(id).unwrap_or(u32::MAX);
        loop {
            let last = self.known.last();
            let (from, older) =
                last.map_or((0, &[][..]), |known| (known.next as usize, known.live.as_slice()));
            let to = from + self.wait;
            let Some(next) = trace.allocations.get(to) else { return };
            // The time of an allocation is unknown if its frame is lost.
            if next.made_at as usize >= trace.events.len() {
                self.wait += 1;
                continue;
            }
            let live = older.iter().map(|&id| id as usize).chain(from..to);
            let live = live.filter(|&id| is_here(&trace.allocations[id], next.made_at));
            let live: Vec<u32> = live.map(number).collect();
            self.wait = live.len().max(LIVE_EVERY);
            self.known.push(LiveAt { next: number(to), live });
        }
    }

    /// The highest point of the device.
    pub(crate) fn peak(&self) -> &Peak {
        &self.peak
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The moment of its peak.
    pub(crate) fn peak_moment(&self, trace: &Trace, context: &Context) -> Moment {
        moment_of_peak(trace, context, self.peak.after, &|after| self.totals(trace, after))
    }

    /// A moment of the device.
    pub fn moment(
        &self,
        trace: &Trace,
        context: &Context,
        at: At,
    ) -> Result<Moment, QuestionError> {
        moment_of(trace, context, &self.peak, at, &|after| self.totals(trace, after))
    }

    /// The totals after this many events, and the reserved bytes that were reported right after them.
    pub(crate) fn totals(&self, trace: &Trace, after: u32) -> Totals {
        let after = (after as usize).min(trace.events.len());
        let mut totals = self.checkpoints[after / TOTALS_EVERY];
        totals.apply_until(trace, after / TOTALS_EVERY * TOTALS_EVERY, after);
        totals
    }

    /// The live allocations after a number of events, in the order of allocation.
    pub(crate) fn live(&self, trace: &Trace, after: u32) -> Vec<AllocationId> {
        self.made_and_live(trace, 0, allocations_before(trace, after), after)
    }

    /// Of the allocations with numbers from `from` on and below `to`, which were made before `after`, those that
    /// are live after this number of events.
    pub(crate) fn made_and_live(
        &self,
        trace: &Trace,
        from: u32,
        to: u32,
        after: u32,
    ) -> Vec<AllocationId> {
        let is_here = |id: &u32| {
            let allocation = &trace.allocations[*id as usize];
            allocation.device == self.device && is_live(allocation, after)
        };
        // Uses a list from before the time, so that no later free is missed.
        let known = self.known.partition_point(|known| known.next < to);
        let known =
            known.checked_sub(1).map(|at| &self.known[at]).filter(|known| known.next > from);
        let Some(known) = known else {
            return (from..to).filter(is_here).map(AllocationId).collect();
        };
        let older = &known.live[known.live.partition_point(|&id| id < from)..];
        older.iter().copied().chain(known.next..to).filter(is_here).map(AllocationId).collect()
    }
}

/// The number of allocations up to this number of events.
pub(crate) fn allocations_before(trace: &Trace, after: u32) -> u32 {
    let past = &trace.events[..(after as usize).min(trace.events.len())];
    let last = past.iter().rev().find_map(|event| event.subject.allocated());
    last.map_or(0, |id| id.0 + 1)
}
