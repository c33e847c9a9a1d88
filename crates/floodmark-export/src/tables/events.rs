//! `events`: all events in order, with the levels of their device after them.

use floodmark_analysis::levels;
use floodmark_trace::{AllocationId, Bytes, Event, EventKind, Subject};

use super::sheet::{Cell, Column, ColumnType, int, maybe_int, maybe_text, text};
use super::{Out, TableInput};
use crate::options::ExportError;

const COLUMNS: &[Column] = &[
    ("event", ColumnType::Int),
    ("micros", ColumnType::Int),
    ("device", ColumnType::Text),
    ("kind", ColumnType::Text),
    ("allocation", ColumnType::Int),
    ("bytes", ColumnType::Int),
    ("allocated", ColumnType::Int),
    ("active", ColumnType::Int),
    ("reserved", ColumnType::Int),
    ("step", ColumnType::Int),
    ("thread", ColumnType::Int),
    ("name", ColumnType::Text),
];

pub(super) fn write(input: &TableInput<'_>, out: &mut Out<'_>) -> Result<(), ExportError> {
    let trace = input.trace;
    let mut sheet = out.table("events", COLUMNS)?;
    let names: Vec<String> = input.devices.iter().map(ToString::to_string).collect();
    let mut following: Vec<_> = input.devices.iter().map(|&device| levels(trace, device)).collect();
    let skipped = trace.events.len().saturating_sub(input.most_events);
    for (at, event) in trace.events.iter().enumerate() {
        let mut here = None;
        for (index, levels) in following.iter_mut().enumerate() {
            let now = levels.next();
            if input.devices[index] == event.device {
                here = now.map(|(_, now)| (index, now));
            }
        }
        let details = Details::from_event(input, event);
        if at < skipped || (here.is_none() && details.is_about_a_device) {
            continue;
        }
        let here = here.filter(|_| details.is_about_a_device);
        let now = here.map(|(_, now)| now);
        sheet.row(&[
            int(at as u64),
            int(event.time.0),
            maybe_text(here.map(|(index, _)| names[index].as_str())),
            text(details.kind.name()),
            maybe_int(details.allocation.map(|id| id.0.into())),
            maybe_int(details.bytes.map(|bytes| bytes.0)),
            maybe_int(now.map(|now| now.allocated.0)),
            maybe_int(now.and_then(|now| now.active).map(|bytes| bytes.0)),
            maybe_int(now.and_then(|now| now.reserved).map(|bytes| bytes.0)),
            Cell::Int(input.context.step(u32::try_from(at).unwrap_or(u32::MAX)).map(Into::into)),
            int(event.thread.0.into()),
            maybe_text(details.name),
        ])?;
    }
    sheet.finish()
}

/// The columns that depend on the kind of an event.
struct Details<'a> {
    kind: EventKind,
    allocation: Option<AllocationId>,
    bytes: Option<Bytes>,
    name: Option<&'a str>,
    is_about_a_device: bool,
}

impl<'a> Details<'a> {
    fn from_event(input: &TableInput<'a>, event: &Event) -> Self {
        let trace = input.trace;
        let about = |kind, id: AllocationId| {
            let bytes = Some(trace.allocations[id.index()].rounded);
            Self { kind, allocation: Some(id), bytes, name: None, is_about_a_device: true }
        };
        let memory = |kind, bytes| Self {
            kind,
            allocation: None,
            bytes,
            name: None,
            is_about_a_device: true,
        };
        let segment = |kind, at: u32| {
            memory(kind, trace.segments.get(at as usize).map(|segment| segment.bytes))
        };
        let program = |kind, name| Self { name, is_about_a_device: false, ..memory(kind, None) };
        match event.subject {
            Subject::Alloc(id) if trace.allocations[id.index()].before_recording => {
                about(EventKind::InitialBlock, id)
            }
            Subject::Alloc(id) => about(EventKind::Alloc, id),
            Subject::Free { allocation, .. } => about(EventKind::Free, allocation),
            Subject::FreeCompleted(id) => about(EventKind::FreeCompleted, id),
            Subject::FreeUnknown(bytes) => memory(EventKind::FreeUnknown, Some(bytes.into())),
            Subject::SegmentAlloc(at) => segment(EventKind::SegmentAlloc, at),
            Subject::SegmentFree(at) => segment(EventKind::SegmentFree, at),
            Subject::SegmentMap(at) => segment(EventKind::SegmentMap, at),
            Subject::SegmentUnmap(at) => segment(EventKind::SegmentUnmap, at),
            Subject::InitialSegment(at) => segment(EventKind::InitialSegment, at),
            Subject::Oom(at) => {
                memory(EventKind::Oom, trace.ooms.get(at as usize).map(|oom| oom.requested))
            }
            Subject::Reserved(bytes) => memory(EventKind::Reserved, Some(bytes.into())),
            Subject::Label { allocation, label } => {
                let name = trace.label(label).map(|label| label.name.as_str());
                Self { name, ..about(EventKind::Label, allocation) }
            }
            Subject::Saved(id) => about(EventKind::Saved, id),
            Subject::Unpacked(id) => about(EventKind::Unpacked, id),
            Subject::Step(_) => program(EventKind::Step, None),
            Subject::Mark(text) => program(EventKind::Mark, trace.text(text)),
            Subject::PhaseBegin(text) => program(EventKind::PhaseBegin, trace.text(text)),
            Subject::PhaseEnd(text) => program(EventKind::PhaseEnd, trace.text(text)),
            Subject::OptimizerBegin => program(EventKind::OptimizerBegin, None),
            Subject::OptimizerEnd => program(EventKind::OptimizerEnd, None),
        }
    }
}
