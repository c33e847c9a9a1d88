//! The levels of a device over time: allocated, active and reserved, with markers.
//!
//! [`levels`] has every event, [`levels_at_steps`] the ends of steps, and [`curve`] as many points as a picture
//! has room for: where several events fall on one point of time, the lowest and the highest stay.

use floodmark_trace::{Device, Losses, ProgramEvent, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::{Context, Phase};
use crate::moment::at::At;
use crate::moment::levels::{Levels, Thinned, levels, points};
use crate::moment::{chosen_device, moment, oom_phase};
use crate::question_error::QuestionError;

/// A part of the recording with one phase.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Stretch {
    /// `forward`, `backward` or `optimizer`.
    pub name: &'static str,
    /// When it began, in seconds.
    pub from: f64,
    /// When the next thing began.
    pub to: f64,
}

/// The kind of a marker: the end of a step, the beginning of a phase, a mark, a failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkerKind {
    /// A step ended.
    Step,
    /// A phase that the user named began.
    Phase,
    /// The user marked the moment.
    Mark,
    /// An allocation on this device failed.
    Oom,
}

/// A moment with a name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Marker {
    /// When.
    pub seconds: f64,
    /// What it was.
    pub kind: MarkerKind,
    /// Its name, to be shown.
    pub name: String,
}

/// The levels of a device over time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// The device.
    pub device: Device,
    /// How long the recording is.
    pub seconds: f64,
    /// The highest point.
    pub peak: Levels,
    /// The points of the curve, in order.
    pub points: Vec<Levels>,
    /// What the program did.
    pub stretches: Vec<Stretch>,
    /// The markers.
    pub markers: Vec<Marker>,
    /// What the recording misses.
    pub losses: Losses,
}

/// The levels of a device at the end of every step.
pub fn levels_at_steps(
    trace: &Trace,
    device: Option<Device>,
) -> Result<Vec<Levels>, QuestionError> {
    let device = chosen_device(trace, device)?;
    let context = Context::new(trace);
    let mut ends = context.step_ends().iter().peekable();
    let mut is_end = |at: &usize| ends.next_if(|&&end| end as usize == *at).is_some();
    Ok(levels(trace, device).filter(|(at, _)| is_end(at)).map(|(_, levels)| levels).collect())
}

/// The levels of a device over time, in about `most` points.
pub fn curve(trace: &Trace, device: Option<Device>, most: usize) -> Result<Curve, QuestionError> {
    let device = chosen_device(trace, device)?;
    let context = Context::new(trace);
    let end = trace.end().as_seconds();
    let mut way = Thinned::new(end, most);
    for point in points(trace, device) {
        way.push(point.seconds, point);
    }
    let peak = moment(trace, &context, device, At::Peak)?;
    Ok(Curve {
        device,
        seconds: end,
        peak: Levels {
            seconds: peak.seconds,
            allocated: peak.allocated,
            active: peak.active,
            reserved: peak.reserved,
        },
        points: way.finish(),
        stretches: stretches(trace, &context, device),
        markers: markers(trace, &context, device),
        losses: trace.losses.clone(),
    })
}

/// The phases of the program on a device, from its allocations. Those outside do not interrupt a
/// phase.
pub(crate) fn stretches(trace: &Trace, context: &Context, device: Device) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut is_open = false;
    let mut ends = context.step_ends().iter().peekable();
    for (at, event) in (0_u32..).zip(&trace.events) {
        let now = event.time.as_seconds();
        if ends.next_if(|&&end| end == at).is_some() {
            end_last(&mut found, &mut is_open, now);
        }
        if event.device != device {
            continue;
        }
        let phase = if let Subject::Alloc(id) = event.subject
            && !trace.allocations[id.index()].before_recording
        {
            context.work(id)
        } else if let Subject::Oom(oom) = event.subject {
            // The program may end here: only the failed request shows its last phase.
            oom_phase(trace, &trace.ooms[oom as usize]).unwrap_or(Phase::Outside)
        } else {
            continue;
        };
        let name = match phase {
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Optimizer => "optimizer",
            Phase::Named(_) | Phase::Outside => continue,
        };
        if is_open && found.last().is_some_and(|last| last.name == name) {
            continue;
        }
        end_last(&mut found, &mut is_open, now);
        found.push(Stretch { name, from: now, to: now });
        is_open = true;
    }
    end_last(&mut found, &mut is_open, trace.end().as_seconds());
    found
}

fn end_last(found: &mut [Stretch], is_open: &mut bool, now: f64) {
    if let Some(last) = found.last_mut().filter(|_| *is_open) {
        last.to = now;
    }
    *is_open = false;
}

pub(crate) fn markers(trace: &Trace, context: &Context, device: Device) -> Vec<Marker> {
    let mut ends = (0_u32..).zip(context.step_ends()).peekable();
    let mut found = Vec::new();
    for (at, event) in (0_u32..).zip(&trace.events) {
        let seconds = event.time.as_seconds();
        if let Some((step, _)) = ends.next_if(|(_, end)| **end == at) {
            let name = context.step_name(step);
            found.push(Marker { seconds, kind: MarkerKind::Step, name });
        }
        let named = |text| trace.text(text).unwrap_or("?").to_owned();
        let (kind, name) = match event.subject.program_event() {
            Some(ProgramEvent::PhaseBegin(text)) => (MarkerKind::Phase, named(text)),
            Some(ProgramEvent::Mark(text)) => (MarkerKind::Mark, named(text)),
            None if event.device == device && matches!(event.subject, Subject::Oom(_)) => {
                (MarkerKind::Oom, "out of memory".to_owned())
            }
            // `step_ends` has the steps; the rest has no marker.
            Some(
                ProgramEvent::Step(_)
                | ProgramEvent::PhaseEnd(_)
                | ProgramEvent::OptimizerBegin
                | ProgramEvent::OptimizerEnd,
            )
            | None => continue,
        };
        found.push(Marker { seconds, kind, name });
    }
    found
}
