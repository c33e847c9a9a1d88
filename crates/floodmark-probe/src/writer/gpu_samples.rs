//! When the memory of the GPUs is sampled, and which samples a window has.
//!
//! A sample is taken when CUDA is ready, at the end of a step, at a new peak, after a failed allocation and at the end. The
//! writer is a round behind the program, and NVML is asked by another thread: a sample has the time at which it was taken.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use floodmark_trace::{Bytes, Device, GpuMemory};

use crate::gpu_memory::sampler::{Gpus, Sample, Sampler};
use crate::journal::Journal;
use crate::window_state::WindowState;

/// The time between two samples, where no allocation failed.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(250);
/// A sample with the figures of the one before is stored after this time.
const LONGEST_UNCHANGED_MICROS: u64 = 2_000_000;
/// How long the end of a window waits for the last sample.
const LONGEST_LAST: Duration = Duration::from_millis(200);

/// How soon a window wants a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// Nothing has happened since the last one.
    Nothing,
    /// A step ended, there is a new peak, or there was no sample yet.
    #[default]
    Soon,
    /// An allocation failed.
    Now,
}

/// The sampling thread of all windows, started by the first sample that is wanted.
#[derive(Debug, Default)]
pub(crate) struct GpuSampling {
    sampler: Option<Sampler>,
    requested: Option<Instant>,
}

impl GpuSampling {
    /// Requests a sample of each GPU, unless the last one is too recent. Returns whether it was requested.
    pub(crate) fn request(&mut self, gpus: Gpus, wanted: Wanted) -> bool {
        let is_early = self.requested.is_some_and(|last| last.elapsed() < BETWEEN_SAMPLES);
        if gpus.is_empty() || wanted == Wanted::Nothing || is_early && wanted < Wanted::Now {
            return false;
        }
        let is_requested = self.sampler.get_or_insert_with(Sampler::start).request(gpus);
        if is_requested {
            self.requested = Some(Instant::now());
        }
        is_requested
    }

    /// The samples that have arrived since the last call.
    pub(crate) fn take(&mut self) -> Vec<Sample> {
        self.sampler.as_mut().map_or_else(Vec::new, |sampler| sampler.take(Duration::ZERO))
    }

    /// A last sample of each GPU, with those that were under way.
    pub(crate) fn take_last(&mut self, gpus: Gpus) -> Vec<Sample> {
        if gpus.is_empty() {
            return Vec::new();
        }
        let sampler = self.sampler.get_or_insert_with(Sampler::start);
        let mut found = sampler.take(LONGEST_LAST);
        if sampler.request(gpus) {
            found.extend(sampler.take(LONGEST_LAST));
        }
        found
    }
}

/// The samples of one window.
#[derive(Debug, Default)]
pub(crate) struct GpuSamples {
    /// Not written yet.
    pub(crate) waiting: Vec<GpuMemory>,
    /// The last stored one of each GPU.
    last: BTreeMap<Device, GpuMemory>,
    pub(crate) wanted: Wanted,
    peak: Bytes,
}

impl GpuSamples {
    /// Something happened after which a sample is wanted.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        self.wanted = self.wanted.max(wanted);
    }

    /// The peaks of the devices so far.
    pub(crate) fn note_peaks(&mut self, peaks: impl Iterator<Item = (Device, Bytes)>) {
        let peak = peaks.filter(|(device, _)| !device.is_cpu()).map(|(_, bytes)| bytes).sum();
        if peak > self.peak {
            self.peak = peak;
            self.want(Wanted::Soon);
        }
    }

    /// Stores a sample that lies in the window. That of its end is taken right after it.
    pub(crate) fn add(&mut self, journal: &Journal, state: &WindowState, sample: &Sample) {
        let (start, end) = (state.window.start_nanos, state.end_nanos());
        let [asked, answered] = [sample.asked_nanos, sample.answered_nanos]
            .map(|nanos| journal.nanos_of(nanos).min(end));
        if asked < start || !state.window.wants(sample.figures.device) {
            return;
        }
        self.store(GpuMemory {
            asked_micros: (asked - start) / 1000,
            answered_micros: (answered - start) / 1000,
            ..sample.figures.clone()
        });
    }

    fn store(&mut self, sample: GpuMemory) {
        let is_known = self.last.get(&sample.device).is_some_and(|last| {
            let since = sample.answered_micros.saturating_sub(last.answered_micros);
            sample.has_figures_of(last) && since < LONGEST_UNCHANGED_MICROS
        });
        if !is_known {
            self.last.insert(sample.device, sample.clone());
            self.waiting.push(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(micros: u64, used: u64) -> GpuMemory {
        GpuMemory {
            device: Device::cuda(0),
            asked_micros: micros,
            answered_micros: micros,
            total: 100,
            used,
            driver: None,
            processes: None,
        }
    }

    #[test]
    fn a_sample_that_repeats_the_last_one_is_left_out_for_a_while() {
        let mut samples = GpuSamples::default();
        let times = [(0, 5), (1, 5), (2, 6), (3, 5), (1_999_999, 5), (2_000_003, 5)];
        for (micros, used) in times {
            samples.store(sample(micros, used));
        }
        let stored: Vec<_> =
            samples.waiting.iter().map(|one| (one.asked_micros, one.used)).collect();
        assert_eq!(stored, [(0, 5), (2, 6), (3, 5), (2_000_003, 5)]);
    }

    #[test]
    fn a_higher_peak_of_a_gpu_wants_a_sample() {
        let mut samples = GpuSamples { wanted: Wanted::Nothing, ..GpuSamples::default() };
        let mut wanted = |cpu, gpu| {
            samples
                .note_peaks([(Device::CPU, Bytes(cpu)), (Device::cuda(0), Bytes(gpu))].into_iter());
            std::mem::replace(&mut samples.wanted, Wanted::Nothing)
        };
        assert_eq!(wanted(5, 0), Wanted::Nothing);
        assert_eq!(wanted(5, 1), Wanted::Soon);
        assert_eq!(wanted(9, 1), Wanted::Nothing);
    }

    #[test]
    fn a_failed_allocation_does_not_wait() {
        let mut samples = GpuSamples::default();
        samples.want(Wanted::Now);
        samples.want(Wanted::Soon);
        assert_eq!(samples.wanted, Wanted::Now);
        let mut sampling = GpuSampling { sampler: None, requested: Some(Instant::now()) };
        let gpus = || vec![(Device::cuda(0), "0".to_owned())];
        assert!(!sampling.request(gpus(), Wanted::Soon));
        assert!(!sampling.request(Vec::new(), Wanted::Now), "no GPU is known");
        assert!(sampling.request(gpus(), Wanted::Now));
    }
}
