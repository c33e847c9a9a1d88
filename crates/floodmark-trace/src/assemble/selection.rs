//! Which records of the one recorder belong to a window on them.
//!
//! A process has one recorder and one journal; every recording is a window on its events, with its own start,
//! devices and options. The writer and a reader that salvages a journal select records by the same rules.

use std::collections::BTreeMap;

use crate::event::{EventKind, Subject};
use crate::header::Window;
use crate::journal::{
    FLAG_FAKE_TENSOR, FLAG_OF_WINDOW, FLAG_OP_CALL, FLAG_STACK_LEFT_OUT, Record, record_kind,
};
use crate::trace::Trace;

/// The records of a window, one after the other.
#[derive(Debug, Default)]
pub struct Selection {
    /// `None` takes every record.
    window: Option<Window>,
    next_step: u32,
    /// Phases that belong to this window only, by thread.
    phases: BTreeMap<u32, Vec<u16>>,
}

impl Selection {
    /// The records of a window from its beginning.
    pub fn new(window: Window) -> Self {
        Self { window: Some(window), ..Self::default() }
    }

    /// The records after those in `trace`.
    pub(crate) fn resume(trace: &Trace) -> Self {
        let steps = trace.events.iter().filter(|event| matches!(event.subject, Subject::Step(_)));
        let next_step = u32::try_from(steps.count()).unwrap_or(u32::MAX);
        Self { window: trace.header.window, next_step, ..Self::default() }
    }

    /// The record as the window stores it; `None` if it does not belong to the window.
    pub fn select(&mut self, record: &Record) -> Option<Record> {
        let Some(window) = self.window else { return Some(*record) };
        if record.time_nanos < window.start_nanos {
            return None;
        }
        let Some(kind) = EventKind::from_number(record.kind) else {
            let is_of_stacks =
                matches!(record.kind, record_kind::CODE | record_kind::STACK | record_kind::MODULE);
            return (window.stacks || !is_of_stacks).then_some(*record);
        };
        if record.flags & FLAG_OF_WINDOW != 0 {
            return self.select_own(window, kind, record);
        }
        let mut record = *record;
        match kind {
            EventKind::Alloc
            | EventKind::Free
            | EventKind::FreeUnknown
            | EventKind::FreeCompleted
            | EventKind::SegmentAlloc
            | EventKind::SegmentFree
            | EventKind::SegmentMap
            | EventKind::SegmentUnmap
            | EventKind::Oom
            | EventKind::Reserved
            | EventKind::InitialBlock
            | EventKind::InitialSegment => {
                let is_fake = record.flags & FLAG_FAKE_TENSOR != 0;
                if is_fake != window.fake_tensors || !window.wants(record.device) {
                    return None;
                }
                self.strip(window, &mut record);
            }
            EventKind::Label | EventKind::Saved | EventKind::Unpacked => {
                if !window.wants(record.device) {
                    return None;
                }
            }
            EventKind::Step => self.number_step(&mut record),
            EventKind::Mark
            | EventKind::PhaseBegin
            | EventKind::PhaseEnd
            | EventKind::OptimizerBegin
            | EventKind::OptimizerEnd => {}
        }
        Some(record)
    }

    /// Leaves out what the window does not record.
    fn strip(&self, window: Window, record: &mut Record) {
        if !window.stacks {
            record.set_stack(0);
            record.flags &= !FLAG_STACK_LEFT_OUT;
        }
        if !window.ops {
            record.op = 0;
            record.flags &= !FLAG_OP_CALL;
        }
        if let Some(&phase) = self.phases.get(&record.thread).and_then(|phases| phases.last()) {
            record.phase = phase;
        }
    }

    fn number_step(&mut self, record: &mut Record) {
        record.set_step_number(self.next_step);
        self.next_step = self.next_step.saturating_add(1);
    }

    /// A record of one window.
    fn select_own(&mut self, window: Window, kind: EventKind, record: &Record) -> Option<Record> {
        if record.window_number() != window.number {
            return None;
        }
        let mut record = *record;
        record.clear_window();
        let phase = u16::try_from(record.name_number()).unwrap_or(0);
        match kind {
            EventKind::Step => self.number_step(&mut record),
            EventKind::PhaseBegin => self.phases.entry(record.thread).or_default().push(phase),
            EventKind::PhaseEnd => {
                let ended = self.phases.get_mut(&record.thread).and_then(Vec::pop)?;
                record.set_name_number(u32::from(ended));
            }
            EventKind::Alloc
            | EventKind::Free
            | EventKind::FreeUnknown
            | EventKind::FreeCompleted
            | EventKind::SegmentAlloc
            | EventKind::SegmentFree
            | EventKind::SegmentMap
            | EventKind::SegmentUnmap
            | EventKind::Oom
            | EventKind::Reserved
            | EventKind::Label
            | EventKind::Mark
            | EventKind::OptimizerBegin
            | EventKind::OptimizerEnd
            | EventKind::InitialBlock
            | EventKind::InitialSegment
            | EventKind::Saved
            | EventKind::Unpacked => {}
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Device;

    fn record(kind: EventKind, device: Device, nanos: u64) -> Record {
        let mut record = Record::block(kind, device, 0, 512).at_time(nanos);
        record.set_stack(7);
        record.op = 3;
        record
    }

    fn window() -> Window {
        Window { number: 2, start_nanos: 100, cpu: true, ..Window::default() }
    }

    #[test]
    fn a_window_takes_its_devices_from_its_start_on_and_nothing_it_did_not_ask_for() {
        let cuda = Device { kind: 1, index: 0 };
        let mut selection = Selection::new(window());
        assert_eq!(selection.select(&record(EventKind::Alloc, Device::CPU, 99)), None);
        assert_eq!(selection.select(&record(EventKind::Alloc, cuda, 100)), None);
        let taken = selection.select(&record(EventKind::Alloc, Device::CPU, 100)).unwrap();
        assert_eq!((taken.stack(), taken.op, taken.bytes()), (0, 0, 512));
        let mut fake = record(EventKind::Alloc, Device::CPU, 100);
        fake.flags = FLAG_FAKE_TENSOR;
        assert_eq!(selection.select(&fake), None);
        let mut stack = record(EventKind::Alloc, Device::CPU, 100);
        stack.kind = record_kind::STACK;
        assert_eq!(selection.select(&stack), None);
    }

    #[test]
    fn steps_are_numbered_from_the_start_of_the_window() {
        let mut selection = Selection::new(window());
        let numbers: Vec<u32> = (0..3)
            .filter_map(|at| selection.select(&record(EventKind::Step, Device::CPU, 100 + at)))
            .map(|step| step.step_number())
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
    }

    #[test]
    fn a_record_of_another_window_is_left_out() {
        let own = |number| Record::named(EventKind::PhaseBegin, 7).at_time(100).in_window(number);
        let mut selection = Selection::new(window());
        assert_eq!(selection.select(&own(1)), None);
        assert!(selection.select(&own(2)).is_some());
        let inside = selection.select(&record(EventKind::Alloc, Device::CPU, 101)).unwrap();
        assert_eq!(inside.phase, 7, "the phase of the window is that of its allocations");
        let mut other = Selection::new(Window { number: 1, ..window() });
        assert!(other.select(&own(1)).is_some());
    }
}
