//! The allocation at a point of the stacked picture: for a click on it.
//!
//! A column shows the time of its span at which most was allocated. The question names the level on which the
//! picture was drawn, and the answer is for that time; without a level the time itself is meant.
//! Within a band allocations lie in the order of their allocation, the oldest at the bottom, and below
//! them what was live before the recording and has no event.

use floodmark_trace::{AllocationId, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::index::moment_index::MomentIndex;
use crate::moment::events_until;
use crate::question_error::QuestionError;
use crate::timeline::TimelineIndex;

/// A point of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PicturePoint {
    /// When, in seconds.
    pub seconds: f64,
    /// How high.
    pub bytes: u64,
    /// On which level the picture was drawn, where it was.
    pub level: Option<u32>,
}

/// The allocation at a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hit {
    /// The allocation; null above the stack, and for bytes of no recorded allocation.
    pub allocation: Option<u32>,
    /// The band; null above the stack.
    pub group: Option<usize>,
}

/// The allocation at a point of a stack of bands. Both indexes must be of this trace and of one device.
pub fn hit(
    trace: &Trace,
    timeline: &TimelineIndex,
    moments: &MomentIndex,
    point: PicturePoint,
) -> Result<Hit, QuestionError> {
    let after = moment_of(trace, timeline, point)?;
    let mut below = 0_u64;
    for (group, bytes) in timeline.groups_after(trace, after).into_iter().enumerate() {
        if point.bytes < below.saturating_add(bytes.0) {
            let mut live = moments.live(trace, after);
            live.retain(|&id| timeline.group_of(id) == group);
            let is_unseen_here = timeline.group_of_unseen() == group;
            let unseen = if is_unseen_here { moments.totals(trace, after).unseen().0 } else { 0 };
            let allocation = find(trace, &live, point.bytes - below, unseen);
            return Ok(Hit { allocation, group: Some(group) });
        }
        below = below.saturating_add(bytes.0);
    }
    Ok(Hit::default())
}

/// The allocation at a point of a stack of allocations without bands; the band is that of the timeline.
pub fn hit_allocation(
    trace: &Trace,
    timeline: &TimelineIndex,
    moments: &MomentIndex,
    point: PicturePoint,
) -> Result<Hit, QuestionError> {
    let after = moment_of(trace, timeline, point)?;
    let totals = moments.totals(trace, after);
    if point.bytes >= totals.allocated().0 {
        return Ok(Hit::default());
    }
    let live = moments.live(trace, after);
    let allocation = find(trace, &live, point.bytes, totals.unseen().0);
    let group = allocation
        .map_or_else(|| timeline.group_of_unseen(), |id| timeline.group_of(AllocationId(id)));
    Ok(Hit { allocation, group: Some(group) })
}

fn moment_of(
    trace: &Trace,
    timeline: &TimelineIndex,
    point: PicturePoint,
) -> Result<u32, QuestionError> {
    match point.level {
        Some(level) => timeline.highest_around(trace, level, point.seconds),
        None => Ok(events_until(trace, point.seconds)),
    }
}

/// The allocation at a height of a stack that begins with `unseen` bytes.
fn find(trace: &Trace, live: &[AllocationId], height: u64, unseen: u64) -> Option<u32> {
    let mut below = unseen;
    if height < below {
        return None;
    }
    live.iter().copied().find_map(|id| {
        below = below.saturating_add(trace.allocations[id.index()].rounded.0);
        (height < below).then_some(id.0)
    })
}
