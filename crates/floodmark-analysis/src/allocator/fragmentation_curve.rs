//! Wasted memory over the whole recording, at evenly spaced times.

use floodmark_trace::{Bytes, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocator::fragmentation::{Fragmentation, Wanted, sampled};
use crate::allocator::simulation::SimulatedProgram;
use crate::moment::check_device;
use crate::question_error::QuestionError;

/// As many times as a picture has room for.
const MOMENTS: u32 = 400;

/// Wasted memory at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FragmentationPoint {
    /// Seconds since the recording began.
    pub seconds: f64,
    /// The numbers.
    #[serde(flatten)]
    pub now: Fragmentation,
}

/// Wasted memory over the whole recording.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FragmentationCurve {
    /// The largest request of the recording: free blocks that are smaller are unusable for it.
    pub largest_request: Bytes,
    /// In the order of time.
    pub points: Vec<FragmentationPoint>,
}

/// Wasted memory over time.
pub fn fragmentation_curve(
    trace: &Trace,
    device: Device,
) -> Result<FragmentationCurve, QuestionError> {
    let device = device.canonical();
    check_device(trace, device)?;
    let simulated =
        SimulatedProgram::new(trace, Some(device), None).map_err(|_| QuestionError::NoSegments)?;
    let here = trace.allocations.iter().filter(|made| made.device == device);
    let largest_request = here.map(|made| made.requested).max().unwrap_or_default();
    let wanted = evenly_spaced(trace, device);
    let seconds = |at: &Wanted| trace.events[at.event as usize].time.as_seconds();
    let found = sampled(trace, device, &simulated.config(), largest_request, &wanted);
    let points = found
        .into_iter()
        .map(|(at, now)| FragmentationPoint { seconds: seconds(at), now })
        .collect();
    Ok(FragmentationCurve { largest_request, points })
}

/// The last event of the device in each of as many equal stretches of time.
fn evenly_spaced(trace: &Trace, device: Device) -> Vec<Wanted> {
    let end = trace.end().0.max(1);
    let mut wanted: Vec<(u64, Wanted)> = Vec::new();
    for (at, event) in (0_u32..).zip(&trace.events).filter(|(_, event)| event.device == device) {
        let stretch = event.time.0 * u64::from(MOMENTS) / end;
        let here = Wanted { event: at, last: at, step: None };
        match wanted.last_mut() {
            Some((last, kept)) if *last == stretch => *kept = here,
            _ => wanted.push((stretch, here)),
        }
    }
    wanted.into_iter().map(|(_, wanted)| wanted).collect()
}
