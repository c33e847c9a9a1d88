//! The samples of a GPU, with torch's totals at their times.

use floodmark_trace::{Bytes, Device, GpuMemory, Micros, Trace};

use crate::moment::totals::Totals;

/// A sample, and what torch had then.
#[derive(Debug)]
pub(super) struct TimedSample<'a> {
    pub(super) figures: &'a GpuMemory,
    /// When NVML was asked.
    pub(super) seconds: f64,
    pub(super) allocated: Bytes,
    /// torch's reserved bytes, where the trace has them.
    pub(super) reserved: Option<Bytes>,
    /// The reserved bytes were others when NVML had answered.
    pub(super) is_torn: bool,
}

impl TimedSample<'_> {
    /// What torch had then: reserved bytes, or allocated ones where nothing else is known.
    pub(super) fn of_torch(&self) -> Bytes {
        self.reserved.unwrap_or(self.allocated)
    }

    /// The bytes of the recorded process, and of all other processes; `None` where NVML does not say them.
    pub(super) fn processes(&self, own_pid: u32) -> (Option<Bytes>, Option<Bytes>) {
        let Some(processes) = &self.figures.processes else { return (None, None) };
        let own = processes.iter().find(|process| process.pid == own_pid);
        let others = processes.iter().filter(|process| process.pid != own_pid);
        let others = others.filter_map(|process| process.bytes).fold(0, u64::saturating_add);
        (own.and_then(|own| own.bytes).map(Bytes), own.map(|_| Bytes(others)))
    }
}

/// The samples of a device in the order of time: one pass over the events.
pub(super) fn timed_samples(trace: &Trace, device: Device) -> Vec<TimedSample<'_>> {
    let mut samples: Vec<&GpuMemory> =
        trace.gpu_memory.iter().filter(|sample| sample.device == device).collect();
    samples.sort_by_key(|sample| sample.asked_micros);
    let mut totals = Totals::at_start(trace, device);
    let mut done = 0;
    let mut advance = |micros: u64| {
        let until = trace.events.partition_point(|event| event.time <= Micros(micros)).max(done);
        totals.apply_until(trace, done, until);
        done = until;
        (totals.allocated(), totals.reserved())
    };
    let timed = samples.into_iter().map(|figures| {
        let (allocated, reserved) = advance(figures.asked_micros);
        let (_, reserved_later) = advance(figures.answered_micros);
        TimedSample {
            figures,
            seconds: Micros(figures.asked_micros).as_seconds(),
            allocated,
            reserved,
            is_torn: reserved != reserved_later,
        }
    });
    timed.collect()
}
