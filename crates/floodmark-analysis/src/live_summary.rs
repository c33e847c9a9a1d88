//! The current memory of a running program.
//!
//! "Now" is the last event of the trace, which in a growing file is a moment ago. [`history`] has the earlier
//! levels of a device, in a chosen number of intervals.

use std::collections::BTreeMap;

use floodmark_allocator::Program;
use floodmark_trace::{Bytes, Category, Device, Losses, Micros, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::grouping::by_category;
use crate::grouping::live_groups::Live;
use crate::grouping::row::Detail;
use crate::moment::at::At;
use crate::moment::category_levels::CategoryLevels;
use crate::moment::totals::{Peak, Totals, peaks};
use crate::moment::{Moment, moment, set_phase_and_module};
use crate::time_axis::Axis;

/// The seconds over which events per second are counted.
const RATE_SECONDS: f64 = 5.0;

/// All devices, now.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LiveSummary {
    /// The rank, where there are ranks.
    pub rank: Option<u32>,
    /// Whether the program finished the file.
    pub is_finished: bool,
    /// When now is: since the recording began.
    pub seconds: f64,
    /// How many events there are.
    pub events: usize,
    /// How many there were a second, in the last five seconds.
    pub events_per_second: f64,
    /// How many steps ended.
    pub steps: u32,
    /// Every device on which something was allocated, CPU first.
    pub devices: Vec<LiveDevice>,
    /// What the recording misses.
    pub losses: Losses,
}

/// One device, now.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LiveDevice {
    /// Which.
    pub device: Device,
    /// What the driver calls it; empty when not known.
    pub name: String,
    /// Its memory, where known.
    pub total: Option<Bytes>,
    /// What was in use on the GPU, by all processes, when NVML was last asked; left out where it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Bytes>,
    /// Now: the totals, the step, what the program does.
    pub now: Moment,
    /// torch's total of allocated bytes.
    pub allocated: Bytes,
    /// torch's total of active bytes; null for the CPU.
    pub active: Option<Bytes>,
    /// torch's total of reserved bytes; null for the CPU.
    pub reserved: Option<Bytes>,
    /// Peak of allocated bytes.
    pub peak: Bytes,
    /// The peak of reserved bytes; null for the CPU.
    pub reserved_peak: Option<Bytes>,
    /// The peak of allocated bytes in the last finished step, where one did.
    pub last_step_peak: Option<Bytes>,
    /// How many allocations failed.
    pub failed_requests: u64,
    /// How often the allocator freed cached memory to make room; null for the CPU.
    pub retries: Option<u32>,
    /// What is allocated, by category.
    pub categories: BTreeMap<&'static str, Bytes>,
}

/// Summarizes all devices.
pub fn live_summary(trace: &Trace) -> LiveSummary {
    let context = Context::new(trace);
    let devices = peaks(trace);
    let devices = devices.iter().filter_map(|peak| live_device(trace, &context, peak));
    LiveSummary {
        rank: trace.header.rank,
        is_finished: trace.ending.is_some(),
        seconds: trace.end().as_seconds(),
        events: trace.events.len(),
        events_per_second: events_per_second(trace),
        steps: context.finished_steps(),
        devices: devices.collect(),
        losses: trace.losses.clone(),
    }
}

fn live_device(trace: &Trace, context: &Context, peak: &Peak) -> Option<LiveDevice> {
    let device = peak.device;
    // A device that has a peak has an end.
    let mut now = moment(trace, context, device, At::End).ok()?;
    set_phase_and_module(trace, context, &mut now);
    let shown = device.to_string();
    let info = trace.header.devices.iter().find(|info| info.device == shown);
    let mut categories = BTreeMap::new();
    for row in by_category::rows(&Live::at(trace, &now), context) {
        if let Detail::Category { category, .. } = row.detail {
            *categories.entry(category).or_default() += row.bytes;
        }
    }
    let failed = |subject: &Subject| matches!(subject, Subject::Oom(_));
    let events = trace.events.iter().filter(|event| event.device == device);
    Some(LiveDevice {
        device,
        name: info.map(|info| info.name.clone()).unwrap_or_default(),
        total: info.map(|info| Bytes(info.total_bytes)).filter(|total| total.0 > 0),
        used: last_used(trace, device),
        allocated: now.allocated,
        active: now.active,
        reserved: now.reserved,
        peak: peak.allocated,
        reserved_peak: peak.reserved,
        last_step_peak: last_step_peak(trace, context, device),
        failed_requests: events.filter(|event| failed(&event.subject)).count() as u64,
        retries: (!device.is_cpu()).then(|| Program::new(trace, device).retries),
        categories,
        now,
    })
}

/// What the last sample of a GPU says is in use.
fn last_used(trace: &Trace, device: Device) -> Option<Bytes> {
    let last = trace.gpu_memory.iter().rfind(|sample| sample.device == device)?;
    Some(Bytes(last.used))
}

/// The peak of allocated bytes in the last finished step, what it began with included.
fn last_step_peak(trace: &Trace, context: &Context, device: Device) -> Option<Bytes> {
    let ends = context.step_ends();
    let end = *ends.last()?;
    let before = ends.len().checked_sub(2).map(|before| ends[before]);
    let mut totals = Totals::at_start(trace, device);
    let mut peak = totals.allocated();
    for (at, event) in (0..=end).zip(&trace.events) {
        totals.apply(trace, event);
        let is_in_it = before.is_none_or(|before| at > before);
        peak = if is_in_it { peak.max(totals.allocated()) } else { totals.allocated() };
    }
    Some(peak)
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
fn events_per_second(trace: &Trace) -> f64 {
    let end = trace.events.last().map_or(0.0, |event| event.time.as_seconds());
    let from = (end - RATE_SECONDS).max(0.0);
    let before = trace.events.partition_point(|event| event.time.as_seconds() < from);
    let seconds = end - from;
    if seconds > 0.0 { (trace.events.len() - before) as f64 / seconds } else { 0.0 }
}

/// The peak of allocated bytes in each of `pieces` equal intervals of a window, in seconds, including the level
/// at its beginning.
pub fn history(trace: &Trace, device: Device, from: f64, to: f64, pieces: usize) -> Vec<Bytes> {
    // Of each piece with events, the highest and the last.
    let mut found: Vec<Option<(Bytes, Bytes)>> = vec![None; pieces];
    let axis = Axis::of_window(from, to);
    let mut totals = Totals::at_start(trace, device);
    let mut at_start = totals.allocated();
    for event in &trace.events {
        let before = totals.allocated();
        totals.apply(trace, event);
        let now = totals.allocated();
        match piece_of(event.time, &axis, pieces) {
            Piece::Before => at_start = now,
            Piece::At(piece) => {
                let highest = found[piece].map_or(before, |(highest, _)| highest);
                found[piece] = Some((highest.max(now), now));
            }
            Piece::After => break,
        }
    }
    let mut last = at_start;
    let carried = |piece: Option<(Bytes, Bytes)>| {
        let (highest, end) = piece.unwrap_or((last, last));
        last = end;
        highest
    };
    found.into_iter().map(carried).collect()
}

/// The allocated bytes of each category on a device, in the order of [`Category::ALL`].
pub type CategoryBytes = [Bytes; Category::ALL.len()];

/// The allocated bytes of each category at the peak of each of `pieces` equal intervals of an axis, as in
/// [`history`].
pub fn history_by_category(
    trace: &Trace,
    context: &Context,
    device: Device,
    axis: &Axis,
    pieces: usize,
) -> Vec<CategoryBytes> {
    let mut levels = CategoryLevels::at_start(trace, context);
    let read = |levels: &CategoryLevels<'_>| -> CategoryBytes {
        std::array::from_fn(|at| levels.level(device, Category::ALL[at]))
    };
    let mut now = read(&levels);
    let sum = |held: &CategoryBytes| held.iter().map(|bytes| bytes.0).sum::<u64>();
    let (mut at_start, mut found) = (now, vec![None; pieces]);
    for event in &trace.events {
        let before = now;
        if levels.apply(event).is_some() && event.device == device {
            now = read(&levels);
        }
        match piece_of(event.time, axis, pieces) {
            Piece::Before => at_start = now,
            Piece::At(piece) => {
                let highest = found[piece].map_or(before, |(highest, _)| highest);
                found[piece] = Some((if sum(&now) > sum(&highest) { now } else { highest }, now));
            }
            Piece::After => break,
        }
    }
    let mut last = at_start;
    let carried = |piece: Option<(CategoryBytes, CategoryBytes)>| {
        let (highest, end) = piece.unwrap_or((last, last));
        last = end;
        highest
    };
    found.into_iter().map(carried).collect()
}

enum Piece {
    Before,
    At(usize),
    After,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a piece is a number of columns in a picture"
)]
fn piece_of(time: Micros, axis: &Axis, pieces: usize) -> Piece {
    let seconds = time.as_seconds();
    if axis.knots.first().is_some_and(|first| seconds < first.seconds) {
        return Piece::Before;
    }
    let Some(position) = axis.position_at(seconds).filter(|_| pieces > 0) else {
        return Piece::After;
    };
    let share = if axis.length > 0.0 { position / axis.length } else { 0.0 };
    Piece::At(((share * pieces as f64) as usize).min(pieces - 1))
}
