//! `allocations`: all allocations, in their order.

use floodmark_analysis::{AllocationLines, TensorModules, category};
use floodmark_trace::{Allocation, AllocationId, EventNumber, TextId};

use super::ranks::RankRow;
use super::sheet::{Cell, Column, ColumnType, flag, int, maybe_int, maybe_text, text};
use super::{Out, TableInput};
use crate::options::ExportError;

const COLUMNS: &[Column] = &[
    ("allocation", ColumnType::Int),
    ("device", ColumnType::Text),
    ("bytes", ColumnType::Int),
    ("requested", ColumnType::Int),
    ("allocated_event", ColumnType::Int),
    ("allocated_micros", ColumnType::Int),
    ("saved_micros", ColumnType::Int),
    ("last_use_micros", ColumnType::Int),
    ("freed_event", ColumnType::Int),
    ("freed_micros", ColumnType::Int),
    ("completed_event", ColumnType::Int),
    ("at_peak", ColumnType::Flag),
    ("before_recording", ColumnType::Flag),
    ("backward", ColumnType::Flag),
    ("step", ColumnType::Int),
    ("phase", ColumnType::Text),
    ("category", ColumnType::Text),
    ("name", ColumnType::Text),
    ("shape", ColumnType::Text),
    ("dtype", ColumnType::Text),
    ("module", ColumnType::Text),
    ("op", ColumnType::Text),
    ("location", ColumnType::Text),
    ("file", ColumnType::Text),
    ("line", ColumnType::Int),
    ("function", ColumnType::Text),
    ("stack", ColumnType::Int),
    ("address", ColumnType::Int),
    ("stream", ColumnType::Text),
    ("pool", ColumnType::Text),
    ("thread", ColumnType::Int),
];

pub(super) fn write(
    input: &TableInput<'_>,
    ranks: &[RankRow],
    out: &mut Out<'_>,
) -> Result<(), ExportError> {
    let mut sheet = out.table("allocations", COLUMNS)?;
    let mut lines = AllocationLines::new(input.trace);
    let modules = TensorModules::new(input.trace);
    for (id, allocation) in (0_u32..).map(AllocationId).zip(&input.trace.allocations) {
        let index = input.devices.iter().position(|&device| device == allocation.device);
        // An allocation without an event lies in a lost part of the file.
        let made = input.trace.events.get(allocation.made_at as usize);
        let (Some(index), Some(made)) = (index, made) else { continue };
        let device = &ranks[index].device;
        let at_peak = ranks[index].is_live_at_peak(allocation);
        sheet.row(&cells(input, &mut lines, &modules, id, device, at_peak, made.time.0))?;
    }
    sheet.finish()
}

fn cells<'a>(
    input: &TableInput<'a>,
    lines: &'a mut AllocationLines<'_>,
    modules: &TensorModules<'a>,
    id: AllocationId,
    device: &'a str,
    at_peak: bool,
    allocated_micros: u64,
) -> [Cell<'a>; COLUMNS.len()] {
    let TableInput { trace, context, .. } = input;
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
