//! A point up to which a growing trace was read.
//!
//! A [`Trace`] that grows in place is shared by all of its readers. A reader that keeps what it has read, and asks again
//! after more events, needs the trace as it was: [`Trace::until`] makes a copy without the later events.

use std::collections::BTreeMap;

use super::push::SummedEvents;
use crate::batch::Total;
use crate::event::{Bytes, Device, EventNumber, LabelId, Subject};
use crate::header::{Ending, Header};
use crate::losses::Losses;
use crate::trace::Trace;

/// A state of a trace that grows.
#[derive(Debug, Clone)]
pub struct TracePoint {
    header: Header,
    ending: Option<Ending>,
    is_running: bool,
    events: usize,
    allocations: usize,
    segments: usize,
    ooms: usize,
    gpu_memory: usize,
    totals: Vec<Total>,
    losses: Losses,
    devices: BTreeMap<Device, Bytes>,
}

impl Trace {
    /// Its current point.
    pub fn point(&self) -> TracePoint {
        TracePoint {
            header: self.header.clone(),
            ending: self.ending.clone(),
            is_running: self.is_running,
            events: self.events.len(),
            allocations: self.allocations.len(),
            segments: self.segments.len(),
            ooms: self.ooms.len(),
            gpu_memory: self.gpu_memory.len(),
            totals: self.totals.clone(),
            losses: self.losses.clone(),
            devices: self.devices.clone(),
        }
    }

    /// A copy without the events that came after a point of this trace. Later names stay: they are also true before
    /// the point.
    #[must_use]
    pub fn until(&self, point: &TracePoint) -> Self {
        let mut trace = self.clone();
        trace.header.clone_from(&point.header);
        trace.ending.clone_from(&point.ending);
        trace.is_running = point.is_running;
        trace.totals.clone_from(&point.totals);
        trace.losses.clone_from(&point.losses);
        trace.devices.clone_from(&point.devices);
        trace.segments.truncate(point.segments);
        trace.ooms.truncate(point.ooms);
        trace.gpu_memory.truncate(point.gpu_memory);
        trace.remove_later_events(point);
        trace.summed = SummedEvents::default();
        trace
    }

    fn remove_later_events(&mut self, point: &TracePoint) {
        self.events.truncate(point.events);
        self.allocations.truncate(point.allocations);
        let before = |event: Option<EventNumber>| {
            event.filter(|event| (event.get() as usize) < point.events)
        };
        for allocation in self.allocations.iter_mut().filter(|allocation| !allocation.is_lost()) {
            allocation.freed_at = before(allocation.freed_at);
            allocation.completed_at = before(allocation.completed_at);
            allocation.label = LabelId(0);
        }
        self.autograd_uses.remove_later(point.allocations, point.events);
        // The last of these counts, and it may have been another one then.
        for (at, event) in (0_u32..).zip(&self.events) {
            if let Subject::Label { allocation, label } = event.subject {
                self.allocations[allocation.index()].label = label;
            } else if let Subject::Unpacked(id) = event.subject {
                self.autograd_uses.unpack(id, at);
            }
        }
    }
}
