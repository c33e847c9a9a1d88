//! The background of a picture over time: steps, phases, and markers.

use floodmark_trace::{Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::index::TraceIndex;
use crate::moment::check_device;
use crate::question_error::QuestionError;
use crate::timeline::curve::{Marker, MarkerKind, Stretch, markers, stretches};

/// How many there are of each at most: more than a picture has columns, and not more than a page can hold.
const MOST: usize = 6000;

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StepSpan {
    /// Its number.
    pub number: u32,
    /// When it began, in seconds: when the one before it ended.
    pub from: f64,
    /// When it ended, or the recording did.
    pub to: f64,
    /// Whether it ended. The last one does not where the program failed in it, or the recording stopped.
    pub is_finished: bool,
}

/// The background of a picture over time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bands {
    /// What the program did.
    pub stretches: Vec<Stretch>,
    /// Phases that the user named, marks and failed requests.
    pub markers: Vec<Marker>,
    /// The steps.
    pub steps: Vec<StepSpan>,
    /// How many of all these were left out: the shortest stretches and steps, and the last marks.
    pub skipped: usize,
}

/// The background of a picture over time of a device.
pub fn bands(trace: &Trace, index: &TraceIndex, device: Device) -> Result<Bands, QuestionError> {
    let device = device.canonical();
    check_device(trace, device)?;
    let mut stretches = stretches(trace, &index.context, device);
    let mut markers = markers(trace, &index.context, device);
    markers.retain(|marker| marker.kind != MarkerKind::Step);
    let mut steps = steps(trace, index, device);
    let all = stretches.len() + markers.len() + steps.len();
    keep_longest(&mut stretches, |one| one.to - one.from);
    keep_longest(&mut steps, |one| one.to - one.from);
    // Failed allocations are kept first.
    keep_longest(&mut markers, |one| if one.kind == MarkerKind::Oom { 1.0 } else { 0.0 });
    let skipped = all - stretches.len() - markers.len() - steps.len();
    Ok(Bands { stretches, markers, steps, skipped })
}

fn steps(trace: &Trace, index: &TraceIndex, device: Device) -> Vec<StepSpan> {
    let mut from = 0.0;
    let ends = (0_u32..).zip(index.context.step_ends());
    let span = |(number, &end): (u32, &u32)| {
        let to = trace.events[end as usize].time.as_seconds();
        let span = StepSpan { number, from, to, is_finished: true };
        from = to;
        span
    };
    let mut steps: Vec<StepSpan> = ends.map(span).collect();
    let unfinished = index.context.unfinished_step(trace, Some(device));
    steps.extend(unfinished.map(|number| StepSpan {
        number,
        from,
        to: trace.end().as_seconds(),
        is_finished: false,
    }));
    steps
}

/// Keeps at most this many; the order stays, and the first of equals is kept.
fn keep_longest<T>(all: &mut Vec<T>, length: impl Fn(&T) -> f64) {
    if all.len() <= MOST {
        return;
    }
    let mut order: Vec<(f64, usize)> = all.iter().map(length).zip(0..).collect();
    order.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut kept = vec![false; all.len()];
    for &(_, at) in &order[..MOST] {
        kept[at] = true;
    }
    let mut kept = kept.into_iter();
    all.retain(|_| kept.next() == Some(true));
}
