//! `segments`: the segments that the allocator allocated from the driver and freed, in order.

use floodmark_trace::{EventKind, SegmentChange, TextId};

use super::sheet::{Column, ColumnType, int, maybe_text, text};
use super::{Out, TableInput};
use crate::options::ExportError;

const COLUMNS: &[Column] = &[
    ("event", ColumnType::Int),
    ("micros", ColumnType::Int),
    ("device", ColumnType::Text),
    ("kind", ColumnType::Text),
    ("address", ColumnType::Int),
    ("bytes", ColumnType::Int),
    ("stream", ColumnType::Text),
    ("pool", ColumnType::Text),
    ("stack", ColumnType::Int),
];

pub(super) fn write(input: &TableInput<'_>, out: &mut Out<'_>) -> Result<(), ExportError> {
    let trace = input.trace;
    let mut sheet = out.table("segments", COLUMNS)?;
    for (at, event) in (0_u64..).zip(&trace.events).filter(|(_, event)| input.has(event.device)) {
        let Some(change) = event.subject.segment_change() else { continue };
        let (kind, number) = match change {
            SegmentChange::Alloc(number) => (EventKind::SegmentAlloc, number),
            SegmentChange::Free(number) => (EventKind::SegmentFree, number),
            SegmentChange::Map(number) => (EventKind::SegmentMap, number),
            SegmentChange::Unmap(number) => (EventKind::SegmentUnmap, number),
            SegmentChange::Initial(number) => (EventKind::InitialSegment, number),
        };
        let Some(segment) = trace.segments.get(number as usize) else { continue };
        sheet.row(&[
            int(at),
            int(event.time.0),
            text(&event.device.to_string()),
            text(kind.name()),
            int(segment.addr.0),
            int(segment.bytes.0),
            maybe_text(trace.text(TextId::from(segment.stream))),
            maybe_text(trace.text(TextId::from(segment.pool))),
            int(segment.stack.0.into()),
        ])?;
    }
    sheet.finish()
}
