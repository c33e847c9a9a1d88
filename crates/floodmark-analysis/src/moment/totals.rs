//! The allocated bytes of a device, event by event.
//!
//! Allocated is torch's own total: the live blocks that the trace has seen, and those from before the
//! recording that no event names, less what was freed of these. The CPU allocator keeps no total, so
//! there it is the live blocks alone.

use floodmark_allocator::{Edit, Edits};
use floodmark_trace::{Bytes, Device, Event, EventNumber, Subject, Trace};

use crate::moment::levels::Levels;

/// The totals of one device after some number of events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    device: Device,
    live: u64,
    requested: u64,
    /// Freed by the program, still used by a stream.
    awaiting_streams: u64,
    unseen: u64,
    reserved: Option<u64>,
}

impl Totals {
    /// Before the first event.
    pub(crate) fn at_start(trace: &Trace, device: Device) -> Self {
        let unseen = trace.unseen_at_start(device).0;
        Self { device, live: 0, requested: 0, awaiting_streams: 0, unseen, reserved: None }
    }

    /// After `count` events, and the reserved bytes that were reported right after them.
    pub(crate) fn after(trace: &Trace, device: Device, count: u32) -> Self {
        let mut totals = Self::at_start(trace, device);
        totals.apply_until(trace, 0, (count as usize).min(trace.events.len()));
        totals
    }

    /// Takes the events from one number on and below another into account, and the reserved bytes that were reported right after them.
    pub(crate) fn apply_until(&mut self, trace: &Trace, from: usize, to: usize) {
        for event in &trace.events[from..to] {
            self.apply(trace, event);
        }
        if let Some(event) = trace.events.get(to)
            && matches!(event.subject, Subject::Reserved(_))
        {
            self.apply(trace, event);
        }
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    pub(crate) fn allocated(&self) -> Bytes {
        Bytes(self.live) + Bytes(self.unseen)
    }

    /// torch's active bytes: what is allocated, and what some stream still uses. None on the CPU.
    pub(crate) fn active(&self) -> Option<Bytes> {
        (!self.device.is_cpu()).then(|| self.allocated() + Bytes(self.awaiting_streams))
    }

    /// The bytes that the program requested; `None` while that is unknown for some live blocks.
    pub(crate) fn requested(&self) -> Option<Bytes> {
        (self.unseen == 0).then_some(Bytes(self.requested))
    }

    /// Blocks from before the recording that no event names.
    pub(crate) fn unseen(&self) -> Bytes {
        Bytes(self.unseen)
    }

    pub(crate) fn reserved(&self) -> Option<Bytes> {
        self.reserved.map(Bytes)
    }

    /// The totals, as they are shown.
    pub(crate) fn levels(&self, seconds: f64) -> Levels {
        let (allocated, active, reserved) = (self.allocated(), self.active(), self.reserved());
        Levels { seconds, allocated, active, reserved }
    }

    /// Applies one event; those of other devices change nothing.
    pub(crate) fn apply(&mut self, trace: &Trace, event: &Event) {
        if event.device != self.device {
            return;
        }
        match event.subject {
            Subject::Alloc(id) => {
                let allocation = &trace.allocations[id.index()];
                self.live = self.live.saturating_add(allocation.rounded.0);
                self.requested = self.requested.saturating_add(allocation.requested.0);
            }
            Subject::Free { allocation: id, deferred } => {
                let allocation = &trace.allocations[id.index()];
                self.live = self.live.saturating_sub(allocation.rounded.0);
                // torch counts the requested bytes until the last stream has finished using the
                // block.
                if deferred {
                    self.awaiting_streams =
                        self.awaiting_streams.saturating_add(allocation.rounded.0);
                } else {
                    self.requested = self.requested.saturating_sub(allocation.requested.0);
                }
            }
            Subject::FreeCompleted(id) => {
                let allocation = &trace.allocations[id.index()];
                self.awaiting_streams = self.awaiting_streams.saturating_sub(allocation.rounded.0);
                self.requested = self.requested.saturating_sub(allocation.requested.0);
            }
            Subject::FreeUnknown(bytes) => {
                self.unseen = self.unseen.saturating_sub(Bytes::from(bytes).0);
            }
            Subject::Reserved(bytes) => self.reserved = Some(Bytes::from(bytes).0),
            Subject::SegmentAlloc(_)
            | Subject::SegmentFree(_)
            | Subject::SegmentMap(_)
            | Subject::SegmentUnmap(_)
            | Subject::InitialSegment(_)
            | Subject::Oom(_)
            | Subject::Label { .. }
            | Subject::Saved(_)
            | Subject::Unpacked(_)
            | Subject::Step(_)
            | Subject::Mark(_)
            | Subject::PhaseBegin(_)
            | Subject::PhaseEnd(_)
            | Subject::OptimizerBegin
            | Subject::OptimizerEnd => {}
        }
    }
}

/// The highest point of one device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peak {
    pub(crate) device: Device,
    pub(crate) allocated: Bytes,
    /// How many events had happened when it was first reached.
    pub(crate) after: u32,
    /// The highest reserved total.
    pub(crate) reserved: Option<Bytes>,
    /// What was allocated at the end.
    pub(crate) end: Bytes,
    /// How many allocations the recording saw.
    pub(crate) allocations: u64,
    /// The bytes of all of them.
    pub(crate) allocated_total: Bytes,
    /// What was allocated when the recording began.
    pub(crate) start: Bytes,
}

impl Peak {
    /// Before the first event.
    pub(crate) fn at_start(totals: &Totals) -> Self {
        let (device, allocated) = (totals.device(), totals.allocated());
        Self {
            device,
            allocated,
            after: 0,
            reserved: None,
            end: allocated,
            allocations: 0,
            allocated_total: Bytes(0),
            start: allocated,
        }
    }

    /// Applies one event of the device, with the totals after it.
    pub(crate) fn follow(&mut self, trace: &Trace, event: &Event, totals: &Totals, after: u32) {
        if let Subject::Alloc(id) = event.subject {
            let allocation = &trace.allocations[id.index()];
            if allocation.before_recording {
                self.start += allocation.rounded;
            } else {
                self.allocations += 1;
                self.allocated_total += allocation.rounded;
            }
        }
        self.end = totals.allocated();
        if self.end > self.allocated {
            (self.allocated, self.after) = (self.end, after);
        }
        self.reserved = self.reserved.max(totals.reserved());
    }
}

/// The highest point of every device, CPU first: one pass for all.
pub(crate) fn peaks(trace: &Trace) -> Vec<Peak> {
    let devices = trace.devices().into_iter();
    let mut levels: Vec<(Totals, Peak)> = devices
        .map(|device| Totals::at_start(trace, device))
        .map(|totals| (totals, Peak::at_start(&totals)))
        .collect();
    for (after, event) in (1_u32..).zip(&trace.events) {
        let Some((totals, peak)) = levels.iter_mut().find(|(_, peak)| peak.device == event.device)
        else {
            continue;
        };
        totals.apply(trace, event);
        peak.follow(trace, event, totals, after);
    }
    levels.into_iter().map(|(_, peak)| peak).collect()
}

/// The peak of allocated bytes on a device after a change to the program, by adding up.
pub(crate) fn peak_after(trace: &Trace, device: Device, edits: &Edits) -> Bytes {
    let mut changes = saved_changes(trace, edits);
    changes.sort_unstable();
    let mut changes = changes.into_iter().peekable();
    let mut saved = 0_i128;
    let mut totals = Totals::at_start(trace, device);
    let mut peak = totals.allocated();
    for (at, event) in (0_u32..).zip(&trace.events) {
        totals.apply(trace, event);
        while let Some((_, change)) = changes.next_if(|&(event, _)| event <= at) {
            saved += change;
        }
        let left = i128::from(totals.allocated().0) - saved;
        peak = peak.max(Bytes(u64::try_from(left).unwrap_or(0)));
    }
    peak
}

/// The saved bytes, as changes at events.
fn saved_changes(trace: &Trace, edits: &Edits) -> Vec<(u32, i128)> {
    let mut changes = Vec::new();
    for (&owner, &edit) in edits {
        let Some(allocation) = trace.allocations.get(owner as usize) else { continue };
        let freed = allocation.freed_at.map(EventNumber::get);
        let bytes = i128::from(allocation.rounded.0);
        let (from, until, saved) = match edit {
            Edit::LeaveOut => (allocation.made_at, freed, bytes),
            Edit::Resize { bytes: left } => (allocation.made_at, freed, bytes - i128::from(left)),
            Edit::Gap { freed_after, again_before } => {
                // It is live again before that event.
                let again = again_before.map(|again| again.saturating_sub(1));
                (freed_after, again.or(freed), bytes)
            }
        };
        changes.push((from, saved));
        changes.extend(until.map(|until| (until, -saved)));
    }
    changes
}
