//! Comma-separated values (RFC 4180): every event, or a row for each step. Numbers are bytes and seconds. Unknown values are
//! empty.

use std::borrow::Cow;
use std::io::{self, Write};

use floodmark_analysis::{Context, levels};
use floodmark_trace::{Allocation, AllocationId, Bytes, Event, Subject, Trace};

use crate::options::{ExportError, Options, chosen_devices};
use crate::step_rows::step_rows;

const EVENT_COLUMNS: &str = "event,seconds,device,kind,bytes,requested,allocated,active,reserved,step,phase,category,name,module,op,backward,file,line,function";

/// Writes every event of one device, or of all, with the levels of its device after it.
pub fn write_csv(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let devices = chosen_devices(trace, options.device)?;
    let context = Context::new(trace);
    write!(out, "{EVENT_COLUMNS}\r\n")?;
    let mut rows = csv_writer(out);
    let mut following: Vec<_> = devices.iter().map(|&device| levels(trace, device)).collect();
    let skipped =
        trace.events.len() - options.max_events.unwrap_or(usize::MAX).min(trace.events.len());
    for (at, event) in trace.events.iter().enumerate() {
        let now: Vec<_> = following.iter_mut().map(Iterator::next).collect();
        let Some(index) = devices.iter().position(|&device| device == event.device) else {
            continue;
        };
        let Some((_, now)) = now[index].filter(|_| at >= skipped) else { continue };
        let Some(event_cells) = EventCells::from_event(trace, &context, event) else { continue };
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        let mut cells = vec![at.to_string(), seconds(now.seconds), event.device.to_string()];
        cells.extend([
            event_cells.kind.to_owned(),
            event_cells.bytes.to_string(),
            event_cells.requested,
        ]);
        cells.extend([Some(now.allocated), now.active, now.reserved].map(bytes));
        cells.push(context.step(number).map_or_else(String::new, |step| step.to_string()));
        cells.extend(event_cells.rest);
        row(&mut rows, &cells, options.guard_formulas)?;
    }
    Ok(rows.flush()?)
}

/// The columns that depend on the kind of an event.
struct EventCells {
    kind: &'static str,
    bytes: u64,
    requested: String,
    /// From `phase` on.
    rest: Vec<String>,
}

impl EventCells {
    fn from_event(trace: &Trace, context: &Context, event: &Event) -> Option<Self> {
        let without_allocation = |kind, bytes: u64| {
            let rest = vec![String::new(); 9];
            Some(Self { kind, bytes, requested: String::new(), rest })
        };
        let segment = |at: u32| trace.segments.get(at as usize).map_or(0, |found| found.bytes.0);
        match event.subject {
            Subject::Alloc(id) => {
                let allocation = &trace.allocations[id.index()];
                let kind = if allocation.before_recording { "before recording" } else { "alloc" };
                Some(Self::about(trace, context, kind, id, allocation))
            }
            Subject::Free { allocation: id, .. } => {
                let allocation = &trace.allocations[id.index()];
                Some(Self::about(trace, context, "free", id, allocation))
            }
            Subject::FreeCompleted(id) => {
                let allocation = &trace.allocations[id.index()];
                Some(Self::about(trace, context, "free_completed", id, allocation))
            }
            Subject::FreeUnknown(bytes) => without_allocation("free_unknown", Bytes::from(bytes).0),
            Subject::SegmentAlloc(at) => without_allocation("segment_alloc", segment(at)),
            Subject::SegmentFree(at) => without_allocation("segment_free", segment(at)),
            Subject::SegmentMap(at) => without_allocation("segment_map", segment(at)),
            Subject::SegmentUnmap(at) => without_allocation("segment_unmap", segment(at)),
            Subject::InitialSegment(at) => {
                without_allocation("segment before recording", segment(at))
            }
            Subject::Oom(at) => without_allocation(
                "oom",
                trace.ooms.get(at as usize).map_or(0, |oom| oom.requested.0),
            ),
            // Their contents are in the columns of other events.
            Subject::Reserved(_)
            | Subject::Label { .. }
            | Subject::Saved(_)
            | Subject::Unpacked(_)
            | Subject::Step(_)
            | Subject::Mark(_)
            | Subject::PhaseBegin(_)
            | Subject::PhaseEnd(_)
            | Subject::OptimizerBegin
            | Subject::OptimizerEnd => None,
        }
    }

    fn about(
        trace: &Trace,
        context: &Context,
        kind: &'static str,
        id: AllocationId,
        allocation: &Allocation,
    ) -> Self {
        let phase = context.phase(trace, id).map_or("", |phase| phase.name(trace));
        let category = floodmark_analysis::category(trace, context, id).name();
        let name = trace.label(allocation.label).map_or("", |label| label.name.as_str());
        let module = trace.module_path(allocation.stack).unwrap_or("");
        let op = trace.text(allocation.op).unwrap_or("");
        let innermost = trace
            .python_frames(allocation.stack)
            .find_map(|(_, frame)| trace.code(frame.code).map(|code| (frame.line, code)));
        let (line, file, function) = innermost.map_or_else(
            || (String::new(), "", ""),
            |(line, code)| (line.to_string(), code.file.as_str(), code.name.as_str()),
        );
        let backward = if allocation.backward { "true" } else { "false" };
        let rest = [phase, category, name, module, op, backward, file, &line, function];
        Self {
            kind,
            bytes: allocation.rounded.0,
            requested: allocation.requested.0.to_string(),
            rest: rest.map(str::to_owned).into(),
        }
    }
}

/// Writes a row for each step of one device, or of all: its peak and the levels at its end.
pub fn write_steps_csv(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let devices = chosen_devices(trace, options.device)?;
    write!(
        out,
        "step,ended_seconds,device,peak,allocated,active,reserved,growth,phases,categories\r\n"
    )?;
    let mut rows = csv_writer(out);
    for device in devices {
        for found in step_rows(trace, device)? {
            let mut cells = vec![found.step.to_string()];
            cells.push(found.ended_seconds.map_or_else(String::new, seconds));
            cells.push(device.to_string());
            cells.extend([found.peak, found.allocated, found.active, found.reserved].map(bytes));
            cells.push(found.growth.map_or_else(String::new, |growth| growth.to_string()));
            cells.push(pairs(found.phases.iter().map(|(phase, bytes)| (phase.as_str(), *bytes))));
            cells.push(pairs(found.categories.into_iter()));
            row(&mut rows, &cells, options.guard_formulas)?;
        }
    }
    Ok(rows.flush()?)
}

/// `forward=1024;backward=2048`.
fn pairs<'a>(all: impl Iterator<Item = (&'a str, Bytes)>) -> String {
    let all: Vec<String> = all.map(|(name, bytes)| format!("{name}={}", bytes.0)).collect();
    all.join(";")
}

fn bytes(value: Option<Bytes>) -> String {
    value.map_or_else(String::new, |bytes| bytes.0.to_string())
}

fn seconds(value: f64) -> String {
    format!("{value:.6}")
}

/// A cell that is no formula in a spreadsheet. Names come from the traced program, and a spreadsheet would run `=cmd|…`. An
/// apostrophe makes it text. Numbers are not changed.
pub fn guarded_cell(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula && cell.parse::<f64>().is_err() {
        return Cow::Owned(format!("'{cell}"));
    }
    Cow::Borrowed(cell)
}

/// Writes rows in the form of RFC 4180: cells are quoted if necessary, and lines end with CR LF.
pub fn csv_writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out)
}

fn row(out: &mut csv::Writer<impl Write>, cells: &[String], guards: bool) -> io::Result<()> {
    for cell in cells {
        // Some readers treat it as the end of the file.
        let cell = cell.replace('\0', "\u{fffd}");
        let cell = if guards { guarded_cell(&cell) } else { Cow::Borrowed(cell.as_str()) };
        out.write_field(cell.as_bytes())?;
    }
    Ok(out.write_record(None::<&[u8]>)?)
}
