//! The steps of a recording: times, peaks, growth, and the lines that grow.

pub(crate) mod leaks;

use floodmark_trace::{Bytes, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::grouping::by_step;
use crate::moment::at::At;
use crate::moment::{check_device, default_device};
use crate::question_error::QuestionError;
use crate::steps::leaks::{Leaks, leaks};

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// Its number, from 0.
    pub number: u32,
    /// When the step before it ended, in seconds; 0 for the first.
    pub from: f64,
    /// When it ended, or the recording did.
    pub to: f64,
    /// Whether it ended.
    pub is_finished: bool,
    /// The peak of allocated bytes in it.
    pub peak: Bytes,
    /// When that was first reached.
    pub peak_seconds: f64,
    /// What was allocated when it ended.
    pub end: Bytes,
    /// How much more that is than at the end of the step before; null for the first.
    pub growth: Option<i64>,
    /// What was reserved when it ended; null for the CPU.
    pub reserved: Option<Bytes>,
    /// The peak of each phase.
    pub phases: Vec<PhasePeak>,
}

/// A phase of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PhasePeak {
    /// Its name.
    pub name: String,
    /// The peak of allocated bytes in it.
    pub peak: Bytes,
}

/// The steps of a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Steps {
    /// The device.
    pub device: Device,
    /// The steps, in order; null where the program had none.
    pub steps: Vec<Step>,
    /// The lines that grow from step to step; null where there are too few steps to tell.
    pub leaks: Option<Leaks>,
    /// Why leaks cannot be found.
    pub leaks_missing: Option<String>,
}

/// Returns the steps of a device.
pub fn steps(
    trace: &Trace,
    context: &Context,
    device: Option<Device>,
) -> Result<Steps, QuestionError> {
    let device = match device {
        Some(device) => device.canonical(),
        None => default_device(trace, At::Peak)?,
    };
    check_device(trace, device)?;
    let leaks = leaks(trace, Some(device), None);
    Ok(Steps {
        device,
        steps: steps_of(trace, context, device),
        leaks_missing: leaks.as_ref().err().map(ToString::to_string),
        leaks: leaks.ok(),
    })
}

fn steps_of(trace: &Trace, context: &Context, device: Device) -> Vec<Step> {
    let seconds = |event: u32| trace.events[event as usize].time.as_seconds();
    let ends = context.step_ends();
    let mut from = 0.0;
    let mut steps = Vec::new();
    for (number, step) in (0_u32..).zip(by_step::steps(trace, context, device)) {
        let end = ends.get(number as usize).map(|&end| seconds(end));
        let to = end.unwrap_or(trace.end().as_seconds());
        let phases = step.phases.into_iter();
        let peak_seconds = step.peak_after.checked_sub(1).map_or(0.0, seconds);
        steps.push(Step {
            number,
            from,
            to,
            is_finished: end.is_some(),
            peak: step.peak,
            peak_seconds: peak_seconds.clamp(from, to),
            end: step.end,
            growth: step.growth,
            reserved: step.reserved,
            phases: phases
                .map(|(phase, peak)| PhasePeak { name: phase.name(trace).to_owned(), peak })
                .collect(),
        });
        from = to;
    }
    steps
}
