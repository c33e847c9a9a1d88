//! Memory that was live from long before the peak until long after it.
//!
//! A trace does not record when memory is used, only when it is allocated and freed. *Idle* is therefore
//! judged by lifetime alone: allocated at least a twentieth of the recording before the peak, and freed
//! at least as long after it or never. Lines are ranked by bytes times the part of the recording for
//! which they are live; their category shows whether they could be moved to the host meanwhile.

use floodmark_trace::{Allocation, AllocationId, Bytes, Category, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::allocation::location::{Line, Lines, marked};
use crate::allocation::use_times::freed;
use crate::grouping::live_groups::{Group, Live};
use crate::moment::at::At;
use crate::moment::{Moment, default_device, moment};
use crate::question_error::QuestionError;

/// The least distance of the peak from both ends of a lifetime, as a part of the recording: one in
/// this many.
const LONG: u64 = 20;

/// The idle memory of a line, of one category.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IdleLine {
    /// How much.
    pub bytes: Bytes,
    /// The part of the recording for which it is live, averaged over the bytes: 1 is all of it.
    pub fraction: f64,
    /// How many allocations.
    pub count: u64,
    /// Their category.
    #[schemars(with = "Category")]
    pub category: &'static str,
    /// The line, in words.
    pub location: String,
    /// Which allocations.
    #[serde(skip)]
    pub allocations: Vec<AllocationId>,
}

/// Memory that is live from long before the peak until long after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Idle {
    /// The device.
    pub device: Device,
    /// The peak.
    pub at: Moment,
    /// How much of what is allocated at the peak is idle.
    pub bytes: Bytes,
    /// The lines, the one with most bytes for the longest time first.
    pub rows: Vec<IdleLine>,
}

/// Finds what is idle at the peak of a device.
pub fn idle(trace: &Trace, device: Option<Device>) -> Result<Idle, QuestionError> {
    let device = match device {
        Some(device) => device.canonical(),
        None => default_device(trace, At::Peak)?,
    };
    let context = Context::new(trace);
    let at = moment(trace, &context, device, At::Peak)?;
    let mut live = Live::at(trace, &at);
    let times = Times::new(trace, &at);
    live.allocations.retain(|&id| times.is_idle(&trace.allocations[id.index()]));
    let mut lines = Lines::new(trace, false);
    let groups =
        live.group_by(|id, allocation| (lines.line_of(allocation), category(trace, &context, id)));
    let mut rows: Vec<IdleLine> =
        groups.into_iter().map(|group| row(&live, &times, &lines, group)).collect();
    rows.sort_by(|one, other| {
        let weights = weight(other).total_cmp(&weight(one));
        weights.then_with(|| (&one.location, one.category).cmp(&(&other.location, other.category)))
    });
    Ok(Idle { device, at, bytes: rows.iter().map(|row| row.bytes).sum(), rows })
}

#[expect(clippy::cast_precision_loss, reason = "it only ranks")]
fn weight(row: &IdleLine) -> f64 {
    row.bytes.0 as f64 * row.fraction
}

fn row(
    live: &Live<'_>,
    times: &Times<'_>,
    lines: &Lines<'_>,
    group: Group<(Line, Category)>,
) -> IdleLine {
    let (made_by, category) = group.key;
    let location = match lines.frame(made_by) {
        Some(frame) => marked(frame.to_string(), made_by.is_backward()),
        None => made_by.location(live.trace),
    };
    let lived = group.members.iter().fold(0_u128, |lived, &id| {
        let allocation = live.get(id);
        let own = u128::from(allocation.rounded.0) * u128::from(times.lived(allocation));
        lived.saturating_add(own)
    });
    let all = u128::from(group.bytes.0) * u128::from(times.end);
    IdleLine {
        bytes: group.bytes,
        fraction: ratio(lived, all),
        count: group.members.len() as u64,
        category: category.name(),
        location,
        allocations: group.members,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio has a few digits")]
fn ratio(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// When allocations began and ended, in microseconds.
struct Times<'a> {
    trace: &'a Trace,
    peak: u64,
    end: u64,
}

impl<'a> Times<'a> {
    fn new(trace: &'a Trace, peak: &Moment) -> Self {
        let last = peak.after.checked_sub(1);
        let mut times = Self { trace, peak: 0, end: trace.end().0 };
        times.peak = last.map_or(0, |event| times.at(event));
        times
    }

    fn at(&self, event: u32) -> u64 {
        self.trace.events.get(event as usize).map_or(self.end, |event| event.time.0)
    }

    fn made(&self, allocation: &Allocation) -> u64 {
        if allocation.before_recording { 0 } else { self.at(allocation.made_at) }
    }

    fn lived(&self, allocation: &Allocation) -> u64 {
        let freed = freed(allocation).map_or(self.end, |event| self.at(event));
        freed.saturating_sub(self.made(allocation))
    }

    fn is_idle(&self, allocation: &Allocation) -> bool {
        let long = self.end / LONG;
        let is_old = self.made(allocation).saturating_add(long) <= self.peak;
        let stays =
            freed(allocation).is_none_or(|event| self.at(event) >= self.peak.saturating_add(long));
        is_old && stays
    }
}
