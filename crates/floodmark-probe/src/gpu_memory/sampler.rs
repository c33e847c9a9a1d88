//! A thread that asks NVML: the first call may take seconds where no driver is loaded, and the writer must not wait.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use floodmark_trace::{Device, GpuMemory};

use super::nvml::{DeviceHandle, Nvml};
use crate::clock::monotonic_nanos;
use crate::own_threads;

/// The GPUs to ask about: torch's number and the UUID of each.
pub(crate) type Gpus = Vec<(Device, String)>;

/// What NVML said about a GPU.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// The times of the system's clock before and after the calls.
    pub(crate) asked_nanos: u64,
    pub(crate) answered_nanos: u64,
    /// The figures, without their times.
    pub(crate) figures: GpuMemory,
}

/// The thread, from the side that wants samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// `None` once the thread is gone: there is no NVML.
    requests: Option<Sender<Gpus>>,
    answers: Receiver<Vec<Sample>>,
    is_waiting: bool,
}

impl Sampler {
    /// Starts the thread. It ends by itself where there is no NVML, and when this is dropped.
    pub(crate) fn start() -> Self {
        let (requests, asked) = channel::<Gpus>();
        let (answer, answers) = channel();
        let thread = own_threads::spawn("floodmark-nvml", move || {
            let Some(nvml) = Nvml::load() else { return };
            let mut handles = BTreeMap::new();
            for gpus in asked {
                if answer.send(samples(&nvml, &mut handles, gpus)).is_err() {
                    return;
                }
            }
        });
        Self { requests: thread.is_ok().then_some(requests), answers, is_waiting: false }
    }

    /// Requests a sample of each GPU, unless one is under way. Returns whether it was requested.
    pub(crate) fn request(&mut self, gpus: Gpus) -> bool {
        if self.is_waiting {
            return false;
        }
        let is_sent = self.requests.as_ref().is_some_and(|requests| requests.send(gpus).is_ok());
        if !is_sent {
            self.requests = None;
        }
        self.is_waiting = is_sent;
        is_sent
    }

    /// The samples that have arrived; waits for those under way, at most `patience`.
    pub(crate) fn take(&mut self, patience: Duration) -> Vec<Sample> {
        let until = Instant::now() + patience;
        let mut found = Vec::new();
        while self.is_waiting {
            let Ok(samples) = self.answers.recv_timeout(until.duration_since(Instant::now()))
            else {
                break;
            };
            found.extend(samples);
            self.is_waiting = false;
        }
        found
    }
}

type Handles = BTreeMap<String, Option<DeviceHandle>>;

fn samples(nvml: &Nvml, handles: &mut Handles, gpus: Gpus) -> Vec<Sample> {
    let mut sample = |(device, uuid): (Device, String)| {
        let handle = handles.entry(uuid).or_insert_with_key(|uuid| nvml.device(uuid));
        sample_of(nvml, device, (*handle)?)
    };
    gpus.into_iter().filter_map(&mut sample).collect()
}

/// Memory and processes are two calls. Where something changed between them, they are asked once more.
fn sample_of(nvml: &Nvml, device: Device, handle: DeviceHandle) -> Option<Sample> {
    let ask = || {
        let asked_nanos = monotonic_nanos();
        let memory = nvml.memory(handle)?;
        let processes = nvml.processes(handle);
        let is_steady = nvml.memory(handle) == Some(memory);
        let figures = GpuMemory {
            device,
            asked_micros: 0,
            answered_micros: 0,
            total: memory.total,
            used: memory.used,
            driver: memory.driver,
            processes,
        };
        Some((is_steady, Sample { asked_nanos, answered_nanos: monotonic_nanos(), figures }))
    };
    let (is_steady, first) = ask()?;
    if is_steady { Some(first) } else { ask().map(|(_, again)| again) }
}
