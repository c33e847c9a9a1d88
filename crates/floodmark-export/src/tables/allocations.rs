//! `allocations`: every stay of a storage in memory, in the order in which they were allocated.

use floodmark_analysis::{AllocationLines, TensorModules, category};
use floodmark_trace::{Allocation, AllocationId, EventNumber, TextId};

use super::ranks::RankRow;
use super::sheet::{Cell, Column, Kind, flag, int, maybe_int, maybe_text, text};
use super::{Out, Source};
use crate::options::ExportError;

const COLUMNS: &[Column] = &[
    ("allocation", Kind::Int),
    ("device", Kind::Text),
    ("bytes", Kind::Int),
    ("requested", Kind::Int),
    ("allocated_event", Kind::Int),
    ("allocated_micros", Kind::Int),
    ("saved_micros", Kind::Int),
    ("last_use_micros", Kind::Int),
    ("freed_event", Kind::Int),
    ("freed_micros", Kind::Int),
    ("completed_event", Kind::Int),
    ("at_peak", Kind::Flag),
    ("before_recording", Kind::Flag),
    ("backward", Kind::Flag),
    ("step", Kind::Int),
    ("phase", Kind::Text),
    ("category", Kind::Text),
    ("name", Kind::Text),
    ("shape", Kind::Text),
    ("dtype", Kind::Text),
    ("module", Kind::Text),
    ("op", Kind::Text),
    ("location", Kind::Text),
    ("file", Kind::Text),
    ("line", Kind::Int),
    ("function", Kind::Text),
    ("stack", Kind::Int),
    ("address", Kind::Int),
    ("stream", Kind::Text),
    ("pool", Kind::Text),
    ("thread", Kind::Int),
];

pub(super) fn write(
    source: &Source<'_>,
    ranks: &[RankRow],
    out: &mut Out<'_>,
) -> Result<(), ExportError> {
    let mut sheet = out.table("allocations", COLUMNS)?;
    let mut lines = AllocationLines::new(source.trace);
    let modules = TensorModules::new(source.trace);
    for (id, allocation) in (0_u32..).map(AllocationId).zip(&source.trace.allocations) {
        let index = source.devices.iter().position(|&device| device == allocation.device);
        // An allocation whose part of the file is lost has no event: nothing is known of it.
        let made = source.trace.events.get(allocation.made_at as usize);
        let (Some(index), Some(made)) = (index, made) else { continue };
        let device = &ranks[index].device;
        let at_peak = ranks[index].is_live_at_peak(allocation);
        sheet.row(&cells(source, &mut lines, &modules, id, device, at_peak, made.time.0))?;
    }
    sheet.finish()
}

fn cells<'a>(
    source: &Source<'a>,
    lines: &'a mut AllocationLines<'_>,
    modules: &TensorModules<'a>,
    id: AllocationId,
    device: &'a str,
    at_peak: bool,
    allocated_micros: u64,
) -> [Cell<'a>; COLUMNS.len()] {
    let Source { trace, context, .. } = source;
    let allocation: &Allocation = &trace.allocations[id.index()];
    let micros =
        |at: Option<EventNumber>| trace.events.get(at?.get() as usize).map(|event| event.time.0);
    let used = trace.autograd_use(id);
    let step = (!allocation.before_recording).then(|| context.step(allocation.made_at)).flatten();
    let label = trace.label(allocation.label);
    let line = lines.line_of(allocation);
    let frame = line.frame.as_ref();
    [
        int(id.0.into()),
        text(device),
        int(allocation.rounded.0),
        int(allocation.requested.0),
        int(allocation.made_at.into()),
        int(allocated_micros),
        maybe_int(micros(used.saved_at)),
        maybe_int(micros(used.unpacked_at)),
        maybe_int(allocation.freed_at.map(|at| at.get().into())),
        maybe_int(micros(allocation.freed_at)),
        maybe_int(allocation.completed_at.map(|at| at.get().into())),
        flag(at_peak),
        flag(allocation.before_recording),
        flag(allocation.backward),
        maybe_int(step.map(Into::into)),
        maybe_text(context.phase(trace, id).map(|phase| phase.name(trace))),
        text(category(trace, context, id).name()),
        maybe_text(label.map(|label| label.name.as_str())),
        maybe_text(label.map(|label| label.shape.as_str())),
        maybe_text(label.map(|label| label.dtype.as_str())),
        maybe_text(modules.module_of(allocation)),
        maybe_text(trace.text(allocation.op)),
        text(&line.location),
        maybe_text(frame.map(|frame| frame.file.as_str())),
        maybe_int(frame.map(|frame| frame.line.into())),
        maybe_text(frame.map(|frame| frame.function.as_str())),
        int(allocation.stack.0.into()),
        int(allocation.addr.0),
        maybe_text(trace.text(TextId::from(allocation.stream))),
        maybe_text(trace.text(TextId::from(allocation.pool))),
        int(allocation.thread.0.into()),
    ]
}
