//! Wasted memory over the whole recording, at evenly spaced times.

use floodmark_trace::{Bytes, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocator::fragmentation::{Fragmentation, SampleTime, sampled};
use crate::allocator::simulation::SimulatedProgram;
use crate::moment::check_device;
use crate::question_error::QuestionError;

/// The number of times in a picture.
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
    let times = evenly_spaced(trace, device);
    let seconds = |at: &SampleTime| trace.events[at.event as usize].time.as_seconds();
    let found = sampled(trace, device, &simulated.config(), largest_request, &times);
    let points = found
        .into_iter()
        .map(|(at, now)| FragmentationPoint { seconds: seconds(at), now })
        .collect();
    Ok(FragmentationCurve { largest_request, points })
}

/// The last event of the device in each of this many equal intervals.
fn evenly_spaced(trace: &Trace, device: Device) -> Vec<SampleTime> {
    let end = trace.end().0.max(1);
    let mut times: Vec<(u64, SampleTime)> = Vec::new();
    for (at, event) in (0_u32..).zip(&trace.events).filter(|(_, event)| event.device == device) {
        let stretch = event.time.0 * u64::from(MOMENTS) / end;
        let here = SampleTime { event: at, last: at, step: None };
        match times.last_mut() {
            Some((last, kept)) if *last == stretch => *kept = here,
            _ => times.push((stretch, here)),
        }
    }
    times.into_iter().map(|(_, times)| times).collect()
}
