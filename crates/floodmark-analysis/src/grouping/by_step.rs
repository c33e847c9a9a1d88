//! How allocated bytes changed from step to step: peak, end, growth.
//!
//! A row's `bytes` were allocated in that step and are live at the time of the report, so that the rows
//! add up to it as in every other report. Rows are in the order of the steps; when not all are shown,
//! the last ones are.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Device, Subject, Trace};

use crate::allocation::context::{Context, Phase};
use crate::allocation::location::BEFORE_RECORDING;
use crate::grouping::live_groups::{Group, Live};
use crate::grouping::row::{Detail, Row};
use crate::moment::category_levels::categories_after;
use crate::moment::totals::Totals;

/// The levels of one step.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) peak: Bytes,
    pub(crate) end: Bytes,
    pub(crate) growth: Option<i64>,
    pub(crate) reserved: Option<Bytes>,
    pub(crate) phases: BTreeMap<Phase, Bytes>,
    /// How many events had happened when the peak was first reached.
    pub(crate) peak_after: u32,
    categories: BTreeMap<&'static str, Bytes>,
}

pub(crate) fn rows(live: &Live<'_>, context: &Context, top: usize) -> (usize, Vec<Row>) {
    let (trace, device) = (live.trace, live.device);
    let mut groups = live
        .group_by_with_unseen(Key::BeforeRecording, |_, allocation| {
            if allocation.before_recording {
                return Key::BeforeRecording;
            }
            context.step(allocation.made_at).map_or(Key::NoSteps, Key::Step)
        })
        .into_iter()
        .peekable();
    let mut rows = Vec::new();
    while let Some(group) = groups.next_if(|group| !matches!(group.key, Key::Step(_))) {
        rows.push(row_without_step(group));
    }
    for (number, step) in (0_u32..).zip(steps(trace, context, device)) {
        let group = groups.next_if(|group| group.key == Key::Step(number));
        rows.push(row(trace, context, number, step, group));
    }
    let total = rows.len();
    rows.drain(..total.saturating_sub(top));
    (total, rows)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    BeforeRecording,
    /// The trace has no steps.
    NoSteps,
    Step(u32),
}

fn row_without_step(group: Group<Key>) -> Row {
    let location = match group.key {
        Key::BeforeRecording => BEFORE_RECORDING,
        Key::NoSteps | Key::Step(_) => "(no step finished)",
    };
    let detail = Detail::Step {
        step: None,
        kind: None,
        is_finished: None,
        peak: None,
        end: None,
        growth: None,
        reserved: None,
        phases: BTreeMap::new(),
        categories: BTreeMap::new(),
    };
    group.into_row(location.to_owned(), detail)
}

fn row(
    trace: &Trace,
    context: &Context,
    number: u32,
    step: Step,
    group: Option<Group<Key>>,
) -> Row {
    let kind = context.step_kind(number);
    let phases = step.phases.into_iter();
    let detail = Detail::Step {
        step: Some(number),
        kind,
        is_finished: Some(number < context.finished_steps()),
        peak: Some(step.peak),
        end: Some(step.end),
        growth: step.growth,
        reserved: step.reserved,
        phases: phases.map(|(phase, bytes)| (phase.name(trace).to_owned(), bytes)).collect(),
        categories: step.categories,
    };
    let empty =
        || Group { key: Key::Step(number), members: vec![], bytes: Bytes(0), median: Bytes(0) };
    group.unwrap_or_else(empty).into_row(context.step_name(number), detail)
}

/// Every finished step, and an unfinished one if something was allocated in it.
pub(crate) fn steps(trace: &Trace, context: &Context, device: Device) -> Vec<Step> {
    let finished = context.finished_steps();
    if finished == 0 {
        return Vec::new();
    }
    let mut totals = Totals::at_start(trace, device);
    let mut steps: Vec<Step> = Vec::new();
    for (at, event) in (0_u32..).zip(&trace.events) {
        let number = context.step(at).unwrap_or(0) as usize;
        while steps.len() <= number {
            let end = totals.allocated();
            let reserved = totals.reserved();
            steps.push(Step { peak: end, end, reserved, peak_after: at, ..Step::default() });
        }
        if event.device != device {
            continue;
        }
        totals.apply(trace, event);
        let step = &mut steps[number];
        step.end = totals.allocated();
        step.reserved = totals.reserved();
        if step.end > step.peak {
            (step.peak, step.peak_after) = (step.end, at + 1);
        }
        if let Subject::Alloc(id) = event.subject
            && let Some(phase) = context.phase(trace, id)
        {
            let peak = step.phases.entry(phase).or_default();
            *peak = step.end.max(*peak);
        }
    }
    if context.unfinished_step(trace, Some(device)).is_none() {
        steps.truncate(finished as usize);
    }
    for at in 1..steps.len() {
        steps[at].growth = Some(difference(steps[at].end, steps[at - 1].end));
    }
    let peaks: Vec<u32> = steps.iter().map(|step| step.peak_after).collect();
    for (step, found) in steps.iter_mut().zip(categories_after(trace, context, device, &peaks)) {
        step.categories = found;
    }
    steps
}

#[expect(clippy::cast_possible_wrap, reason = "no device has 2^63 bytes")]
pub(crate) fn difference(later: Bytes, earlier: Bytes) -> i64 {
    (later.0 as i64).wrapping_sub(earlier.0 as i64)
}
