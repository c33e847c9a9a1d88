//! The whole recording in a few numbers: for the end of a run, and for `floodmark info`.

use floodmark_trace::{Bytes, Device, Event, Header, Losses, Outcome, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::moment::totals::{Peak, peaks};
use crate::moment::{Moment, peak_moment};

/// The contents of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// Where the recording comes from.
    pub header: Header,
    /// Whether the program finished the file.
    pub is_finished: bool,
    /// How the recording ended.
    pub outcome: Outcome,
    /// How long it took.
    pub seconds: f64,
    /// How many events there are.
    pub events: usize,
    /// How many allocations were seen; those from before the recording are not counted.
    pub allocations: u64,
    /// How many steps ended.
    pub steps: u32,
    /// How many threads of the program have events.
    pub threads: usize,
    /// How many allocations failed.
    pub failed_requests: usize,
    /// Every device on which something was allocated, CPU first.
    pub devices: Vec<DeviceSummary>,
    /// What the recording misses.
    pub losses: Losses,
}

/// A recording's figures of one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceSummary {
    /// Which.
    pub device: Device,
    /// What the driver calls it; empty when not known.
    pub name: String,
    /// Its memory, where known.
    pub total: Option<Bytes>,
    /// How many allocations were seen.
    pub allocations: u64,
    /// Peak of allocated bytes.
    pub peak: Bytes,
    /// When that was.
    pub at: Moment,
    /// Reserved at that moment; null for the CPU.
    pub reserved: Option<Bytes>,
    /// The peak of reserved bytes; null for the CPU.
    pub reserved_peak: Option<Bytes>,
    /// What was allocated at the end.
    pub end: Bytes,
    /// What was allocated when the recording began.
    pub start: Bytes,
    /// The bytes of all allocations since then, those that were freed included.
    pub allocated_total: Bytes,
}

/// Sums up a recording.
pub fn summary(trace: &Trace) -> Summary {
    let context = Context::new(trace);
    let failed = trace.events.iter().filter(|event| matches!(event.subject, Subject::Oom(_)));
    let counts = Counts { threads: threads(trace), failed_requests: failed.count() };
    let peaks = peaks(trace).into_iter();
    let devices = peaks.map(|peak| (peak, peak_moment(trace, &context, &peak)));
    summary_of(trace, &context, counts, devices)
}

/// What is counted over all events.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) threads: usize,
    pub(crate) failed_requests: usize,
}

/// The same, when the counts and the peaks of the devices are known.
pub(crate) fn summary_of(
    trace: &Trace,
    context: &Context,
    counts: Counts,
    devices: impl Iterator<Item = (Peak, Moment)>,
) -> Summary {
    let devices: Vec<_> = devices.map(|(peak, at)| device_summary(trace, &peak, at)).collect();
    Summary {
        floodmark: env!("CARGO_PKG_VERSION"),
        header: trace.header.clone(),
        is_finished: trace.ending.is_some(),
        outcome: trace.outcome(),
        seconds: trace.end().as_seconds(),
        events: trace.events.len(),
        allocations: devices.iter().map(|device| device.allocations).sum(),
        steps: context.finished_steps(),
        threads: counts.threads,
        failed_requests: counts.failed_requests,
        devices,
        losses: trace.losses.clone(),
    }
}

fn device_summary(trace: &Trace, peak: &Peak, at: Moment) -> DeviceSummary {
    let shown = peak.device.to_string();
    let info = trace.header.devices.iter().find(|info| info.device == shown);
    DeviceSummary {
        device: peak.device,
        name: info.map(|info| info.name.clone()).unwrap_or_default(),
        total: info.map(|info| Bytes(info.total_bytes)).filter(|total| total.0 > 0),
        allocations: peak.allocations,
        peak: peak.allocated,
        reserved: at.reserved,
        at,
        reserved_peak: peak.reserved,
        end: peak.end,
        start: peak.start,
        allocated_total: peak.allocated_total,
    }
}

/// Whether the program caused the event: the recorder adds names itself, also on its own thread.
pub(crate) fn is_of_the_program(event: &Event) -> bool {
    !matches!(event.subject, Subject::Label { .. })
}

fn threads(trace: &Trace) -> usize {
    let mut seen = vec![false; usize::from(u16::MAX) + 1];
    for event in &trace.events {
        seen[event.thread.index()] |= is_of_the_program(event);
    }
    seen.into_iter().filter(|&seen| seen).count()
}
