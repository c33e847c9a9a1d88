//! Whether the memory outside torch grew while the program ran.
//!
//! CUDA loads its libraries and kernels in the first step, so growth is what comes after it.

use floodmark_trace::{Bytes, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use super::samples::{TimedSample, timed_samples};
use crate::allocation::context::Context;
use crate::moment::events_until;

/// Growth below this is usual: kernels that are loaded late, a library's workspace.
const LEAST_GROWTH: Bytes = Bytes(64 << 20);

/// The growth of the memory outside torch, after the first step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OutsideGrowth {
    /// How much more was in use outside torch than after the first step.
    pub bytes: Bytes,
    /// The part of it in the recorded process; null where NVML does not say it.
    pub own_bytes: Option<i64>,
    /// The step in which it began.
    pub step: u32,
    /// When it began, in seconds since the recording began.
    pub seconds: f64,
}

/// The growth until a time; `None` where there is none worth a word, no steps, or no samples that show it.
pub(crate) fn outside_growth(
    trace: &Trace,
    context: &Context,
    device: Device,
    until_seconds: f64,
) -> Option<OutsideGrowth> {
    let first_end = *context.step_ends().first()?;
    let after_first = trace.events[first_end as usize].time.as_seconds();
    let samples = timed_samples(trace, device);
    let watched: Vec<&TimedSample<'_>> =
        samples.iter().filter(|sample| !sample.is_torn && sample.seconds >= after_first).collect();
    // The sample of a time is taken right after it.
    let last = watched.iter().position(|sample| sample.seconds >= until_seconds);
    let watched = &watched[..last.map_or(watched.len(), |last| last + 1)];
    let (first, last) = (watched.first()?, watched.last()?);
    let outside =
        |sample: &TimedSample<'_>| Bytes(sample.figures.used).saturating_sub(sample.of_torch());
    let bytes = outside(last).saturating_sub(outside(first));
    if bytes < LEAST_GROWTH {
        return None;
    }
    // It began after the last sample without a tenth of it.
    let little = outside(first) + Bytes(bytes.0 / 10);
    let began = watched.iter().rfind(|sample| outside(sample) <= little)?;
    let own = |sample: &TimedSample<'_>| {
        let (own, _) = sample.processes(trace.header.pid);
        own.and_then(|own| i64::try_from(own.saturating_sub(sample.of_torch()).0).ok())
    };
    Some(OutsideGrowth {
        bytes,
        own_bytes: own(last).zip(own(first)).map(|(now, then)| now - then),
        step: context.step(events_until(trace, began.seconds))?,
        seconds: began.seconds,
    })
}
