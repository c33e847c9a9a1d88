//! Reserved memory that is wasted: three numbers, never one.
//!
//! - *rounding*: inside blocks, beyond the requested bytes.
//! - *split*: free blocks of segments that are partly in use, which cannot go back to the driver.
//! - *unusable*: free blocks that are smaller than the largest request of the recording, be it one that failed.
//!
//! In addition, the ratio that other tools show: the part of reserved bytes that is not allocated.

use floodmark_allocator::{AllocatorConfig, BlockState, Layout, Now, replay};
use floodmark_trace::{Bytes, Device, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;

/// The most times that are sampled.
const MOST_MOMENTS: usize = 200;

/// Wasted memory at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Fragmentation {
    /// Inside blocks, beyond the requested bytes.
    pub rounding: Bytes,
    /// Free blocks of segments that are partly in use.
    pub split: Bytes,
    /// Free blocks that are smaller than the largest request.
    pub unusable: Bytes,
    /// All free bytes.
    pub free: Bytes,
    /// How many free blocks there are.
    pub free_blocks: u64,
    /// The largest of them.
    pub largest_free: Bytes,
    /// Reserved bytes.
    pub reserved: Bytes,
    /// The part of reserved bytes that is not allocated.
    pub ratio: f64,
}

/// Wasted memory when a step ended; without steps, at some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FragmentationAt {
    /// The step that ended.
    pub step: Option<u32>,
    /// Seconds since the recording began.
    pub seconds: f64,
    /// The numbers.
    #[serde(flatten)]
    pub now: Fragmentation,
}

/// Wasted memory at the time of a report, and over time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FragmentationReport {
    /// The largest request of the recording, failed ones included.
    pub largest_request: Bytes,
    /// At the time of the report.
    pub at: Fragmentation,
    /// When each step ended.
    pub over_time: Vec<FragmentationAt>,
}

pub(crate) fn fragmentation(
    trace: &Trace,
    context: &Context,
    device: Device,
    config: &AllocatorConfig,
    after: u32,
) -> (FragmentationReport, Layout) {
    let largest = largest_request(trace, device);
    let layout = replay(trace, device, config, after, |_, _| {}).layout;
    let moments = moments(trace, context, device);
    let found = sampled(trace, device, config, largest, &moments).into_iter();
    let over_time = found.map(|(moment, now)| {
        let seconds = trace.events[moment.event as usize].time.as_seconds();
        FragmentationAt { step: moment.step, seconds, now }
    });
    let report = FragmentationReport {
        largest_request: largest,
        at: fragmentation_of(&layout, largest),
        over_time: over_time.collect(),
    };
    (report, layout)
}

/// The largest request on a device, those that failed included.
pub(crate) fn largest_request(trace: &Trace, device: Device) -> Bytes {
    let made = trace.allocations.iter().filter(|made| made.device == device);
    let made = made.map(|made| made.requested).max();
    let failed = trace.events.iter().filter(|event| event.device == device);
    let failed = failed.filter_map(|event| {
        let Subject::Oom(oom) = event.subject else { return None };
        Some(trace.ooms.get(oom as usize)?.requested)
    });
    made.max(failed.max()).unwrap_or_default()
}

/// A time at which the numbers are sampled.
#[derive(Debug)]
pub(crate) struct SampleTime {
    pub(crate) event: u32,
    /// The last event up to it that changes something on the device.
    pub(crate) last: u32,
    pub(crate) step: Option<u32>,
}

/// The numbers at each of these moments, which are in the order of time.
pub(crate) fn sampled<'w>(
    trace: &Trace,
    device: Device,
    config: &AllocatorConfig,
    largest_request: Bytes,
    moments: &'w [SampleTime],
) -> Vec<(&'w SampleTime, Fragmentation)> {
    let mut times = moments.iter().peekable();
    let mut found = Vec::new();
    replay(trace, device, config, u32::MAX, |at, now| {
        while let Some(moment) = times.next_if(|moment| moment.last <= at) {
            found.push((moment, of_now(&now, largest_request)));
        }
    });
    found
}

/// The ends of steps, or some times; a limited number, and none before the first allocation.
fn moments(trace: &Trace, context: &Context, device: Device) -> Vec<SampleTime> {
    let ends: Vec<(u32, Option<u32>)> =
        (0_u32..).zip(context.step_ends()).map(|(step, &end)| (end, Some(step))).collect();
    let events = trace.events.len();
    let all = if ends.is_empty() {
        let event = |part: usize| u32::try_from(events * part / 20).unwrap_or(u32::MAX);
        (1..20).map(|part| (event(part), None)).filter(|_| events > 20).collect()
    } else {
        ends
    };
    let every = all.len().div_ceil(MOST_MOMENTS).max(1);
    let mut events = (0_u32..).zip(&trace.events).peekable();
    let mut last = None;
    let mut times = Vec::new();
    for (event, step) in all.into_iter().step_by(every) {
        while let Some((at, seen)) = events.next_if(|(at, _)| *at <= event) {
            last = if seen.device == device { Some(at) } else { last };
        }
        times.extend(last.map(|last| SampleTime { event, last, step }));
    }
    times
}

fn of_now(now: &Now<'_>, largest_request: Bytes) -> Fragmentation {
    let stats = now.stats();
    let current = |stat: floodmark_allocator::PoolStat| Bytes(stat.all.current);
    let mut found = Fragmentation {
        rounding: current(stats.active_bytes).saturating_sub(current(stats.requested_bytes)),
        split: current(stats.inactive_split_bytes),
        reserved: current(stats.reserved_bytes),
        ..Fragmentation::default()
    };
    add_free(&mut found, now.free(), largest_request);
    let allocated = current(stats.allocated_bytes);
    found.ratio = ratio(allocated, found.reserved);
    found
}

/// The numbers of a layout.
pub(crate) fn fragmentation_of(layout: &Layout, largest_request: Bytes) -> Fragmentation {
    let mut found = Fragmentation::default();
    let mut allocated = Bytes(0);
    for segment in &layout.segments {
        found.reserved += segment.bytes;
        let is_used = segment.blocks.iter().any(|block| block.state != BlockState::Free);
        for block in &segment.blocks {
            match block.state {
                BlockState::Free if is_used && !segment.is_expandable => found.split += block.bytes,
                BlockState::Free | BlockState::Unmapped => {}
                BlockState::Allocated | BlockState::Pending => {
                    found.rounding += block.bytes.saturating_sub(block.requested);
                }
            }
            if block.state == BlockState::Allocated {
                allocated += block.bytes;
            }
        }
    }
    add_free(&mut found, layout.free(), largest_request);
    found.ratio = ratio(allocated, found.reserved);
    found
}

fn add_free(found: &mut Fragmentation, free: impl Iterator<Item = Bytes>, largest_request: Bytes) {
    for bytes in free {
        found.free += bytes;
        found.free_blocks += 1;
        found.largest_free = found.largest_free.max(bytes);
        if bytes < largest_request {
            found.unusable += bytes;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio has a few digits")]
fn ratio(allocated: Bytes, reserved: Bytes) -> f64 {
    if reserved.0 == 0 { 0.0 } else { 1.0 - allocated.0 as f64 / reserved.0 as f64 }
}
