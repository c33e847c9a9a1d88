//! The rows of steps, for all formats: the report by step, with the levels at the end of each step.

use std::collections::BTreeMap;

use floodmark_analysis::{By, Detail, Question, QuestionError, levels_at_steps, report};
use floodmark_trace::{Bytes, Device, Trace};

/// One step of one device.
pub(crate) struct StepRow {
    pub(crate) step: u32,
    /// The time of its end; `None` if the last step did not end.
    pub(crate) ended_seconds: Option<f64>,
    pub(crate) peak: Option<Bytes>,
    /// The levels at its end.
    pub(crate) allocated: Option<Bytes>,
    pub(crate) active: Option<Bytes>,
    pub(crate) reserved: Option<Bytes>,
    pub(crate) growth: Option<i64>,
    /// The peak of each phase.
    pub(crate) phases: BTreeMap<String, Bytes>,
    /// The peak by category.
    pub(crate) categories: BTreeMap<&'static str, Bytes>,
}

/// All steps of a device, in order.
pub(crate) fn step_rows(trace: &Trace, device: Device) -> Result<Vec<StepRow>, QuestionError> {
    let question = Question { device: Some(device), by: By::Step, ..Question::default() };
    let ends = levels_at_steps(trace, Some(device))?;
    let rows = report(trace, &question)?.rows.into_iter().filter_map(|row| {
        let Detail::Step {
            step: Some(step), peak, end, growth, reserved, phases, categories, ..
        } = row.detail
        else {
            return None;
        };
        let ended = ends.get(step as usize);
        Some(StepRow {
            step,
            ended_seconds: ended.map(|levels| levels.seconds),
            peak,
            allocated: end,
            active: ended.and_then(|levels| levels.active),
            reserved: ended.and_then(|levels| levels.reserved).or(reserved),
            growth,
            phases,
            categories,
        })
    });
    Ok(rows.collect())
}
