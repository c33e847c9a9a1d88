//! The live memory of a device at a time.

pub(crate) mod annotation;
pub(crate) mod icicle;
pub(crate) mod sandwich;
pub(crate) mod source_files;

use floodmark_allocator::Layout;
use floodmark_trace::{Bytes, Device, Losses, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::allocator::fragmentation::{FragmentationReport, fragmentation};
use crate::allocator::simulation::SimulatedProgram;
use crate::grouping::by::{By, Question};
use crate::grouping::by_phase::{FoundPeaks, PhasePeaks};
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Row};
use crate::grouping::{
    by_category, by_line, by_module, by_op, by_op_call, by_parameter, by_phase, by_segment,
    by_stack, by_step, by_tensor, largest_by,
};
use crate::index::TraceIndex;
use crate::index::growing_index::GrowingIndex;
use crate::index::moment_index::MomentIndex;
use crate::json_format::FORMAT;
use crate::moment::category_peaks::category_peaks;
use crate::moment::{Moment, default_device, moment};
use crate::question_error::QuestionError;

/// The live memory of a device at a time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The device.
    pub device: Device,
    /// What the rows are.
    pub by: By,
    /// The time.
    pub at: Moment,
    /// torch's total of allocated bytes.
    pub allocated: Bytes,
    /// torch's total of active bytes: allocated, or still used by a stream; null for the CPU.
    pub active: Option<Bytes>,
    /// torch's total of reserved bytes; null for the CPU.
    pub reserved: Option<Bytes>,
    /// What the program requested; null while that is unknown for some blocks.
    pub requested: Option<Bytes>,
    /// What the recording misses.
    pub losses: Losses,
    /// Wasted memory, in a report by segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<FragmentationReport>,
    /// How many rows there are, those left out included.
    pub total_rows: usize,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Report {
    /// How many rows were left out, and the bytes in them.
    pub fn left_out(&self) -> (usize, Bytes) {
        let shown: Bytes = self.rows.iter().map(Row::own_bytes).sum();
        (self.total_rows.saturating_sub(self.rows.len()), self.allocated.saturating_sub(shown))
    }
}

/// Answers a question.
pub fn report(trace: &Trace, question: &Question) -> Result<Report, QuestionError> {
    let device = match question.device {
        Some(device) => device.canonical(),
        None => default_device(trace, question.at)?,
    };
    let context = Context::new(trace);
    let at = moment(trace, &context, device, question.at)?;
    let live = Live::at(trace, &at);
    report_of(&live, &context, at, question, || PhasePeaks::find(trace, device, &context))
}

/// Adds the peak of each category by itself to a report by category: one more pass over the events.
pub fn add_category_peaks(trace: &Trace, report: &mut Report) -> Result<(), QuestionError> {
    if report.by != By::Category {
        return Ok(());
    }
    let peaks = category_peaks(trace, Some(report.device))?;
    for row in &mut report.rows {
        if let Detail::Category { category, peak, .. } = &mut row.detail {
            *peak = peaks.iter().find(|one| one.category == *category).map(|one| one.peak);
        }
    }
    Ok(())
}

/// The same for repeated questions. The device of the index replaces that of the question.
pub fn report_with(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    question: &Question,
) -> Result<Report, QuestionError> {
    let at = moments.moment(trace, &index.context, question.at)?;
    let live = Live::from_allocations(trace, &at, moments.live(trace, at.after));
    let (device, context) = (moments.device(), &index.context);
    report_of(&live, context, at, question, || PhasePeaks::find(trace, device, context))
}

impl GrowingIndex {
    /// The same as [`report`](crate::report()).
    pub fn report(&self, trace: &Trace, question: &Question) -> Result<Report, QuestionError> {
        let device = match question.device {
            Some(device) => device.canonical(),
            None => self.default_device(trace, question.at)?,
        };
        let at = self.moment(trace, device, question.at)?;
        let index = self.device(trace, device)?;
        let live = Live::from_allocations(trace, &at, index.moments.live(trace, at.after));
        report_of(&live, self.context(), at, question, || index.phases.found())
    }
}

/// The same, when the moment and what is live then are known. `phases` finds the peaks of phases.
pub(crate) fn report_of(
    live: &Live<'_>,
    context: &Context,
    at: Moment,
    question: &Question,
    phases: impl FnOnce() -> FoundPeaks,
) -> Result<Report, QuestionError> {
    let (trace, device) = (live.trace, live.device);
    let top = question.top.unwrap_or(usize::MAX);
    let mut found = None;
    let (total_rows, mut rows) = match question.by {
        By::Line => largest_first(by_line::rows(live, question.frames.is_native()), top),
        By::Stack => by_stack::rows(live, question.frames, top),
        By::Op => largest_first(by_op::rows(live), top),
        By::OpCall => by_op_call::rows(live, context, top),
        By::Parameter => largest_first(by_parameter::rows(live, context), top),
        By::Phase => largest_first(by_phase::rows(live, context, phases()), top),
        By::Category => largest_first(by_category::rows(live, context), top),
        By::Module => by_module::rows(live, top),
        By::Tensor => by_tensor::rows(live, context, top),
        By::Step => by_step::rows(live, context, top),
        By::Segment => {
            let (numbers, layout) = segments(trace, context, device, &at)?;
            found = Some(numbers);
            by_segment::rows(&layout, top)
        }
    };
    accumulate(&mut rows);
    Ok(Report {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device,
        by: question.by,
        allocated: at.allocated,
        active: at.active,
        reserved: at.reserved,
        requested: at.requested,
        at,
        losses: trace.losses.clone(),
        fragmentation: found,
        total_rows,
        rows,
    })
}

fn segments(
    trace: &Trace,
    context: &Context,
    device: Device,
    at: &Moment,
) -> Result<(FragmentationReport, Layout), QuestionError> {
    let simulated =
        SimulatedProgram::new(trace, Some(device), None).map_err(|_| QuestionError::NoSegments)?;
    Ok(fragmentation(trace, context, device, &simulated.config(), at.after))
}

fn largest_first(rows: Vec<Row>, top: usize) -> (usize, Vec<Row>) {
    largest_by(rows, top, |row| row)
}

fn accumulate(rows: &mut [Row]) {
    let mut sum = Bytes(0);
    for row in rows {
        sum += row.own_bytes();
        row.cumulative = sum;
    }
}
