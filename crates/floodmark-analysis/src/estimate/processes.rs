//! Whether a program of several processes fits: one answer from a trace of each.
//!
//! Each process has a simulated machine of its own, so what two of them need of one GPU is added up. That is
//! an upper bound: their peaks need not be at the same time.

use std::collections::BTreeMap;

use floodmark_trace::{
    AppliedChange, Bytes, Losses, PhantomEnd, PhantomRead, StepCost, Trace, UnsupportedCall,
};

use serde::Deserialize;

use crate::advice::peak_parts::peak_parts;
use crate::estimate::{
    DeviceEstimate, Estimate, Process, SharedGpu, Unknown, WholeRun, best_settings, estimate,
    verdict, without_fake_tensors,
};
use crate::question_error::QuestionError;

/// How a program's process ended.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProgramEnd {
    /// How.
    pub ended: PhantomEnd,
    /// The error that it failed with; empty if it did not fail.
    pub error: String,
    /// Whether a process that may have used a GPU lacks a complete trace.
    pub misses_process: bool,
    /// Whether the cost of a step was asked for, as a plan does.
    pub is_for_plan: bool,
    /// What a step costs, measured after the recording had ended.
    pub cost: Option<StepCost>,
    /// Sentences for the answer.
    pub notes: Vec<String>,
    /// The same program on GPUs with more memory, where it was run again.
    #[serde(skip)]
    pub whole_run: Option<WholeRun>,
}

/// Decides whether a program fits. The first trace is that of the process that was started, whose `end` counts
/// for the program where its trace has none.
pub fn estimate_processes(traces: &[&Trace], end: &ProgramEnd) -> Result<Estimate, QuestionError> {
    let mut found = Vec::new();
    for trace in traces {
        let header = &trace.header;
        found.push((Process { pid: header.pid, rank: header.rank }, estimate(trace)?));
    }
    let is_fake = |one: &(Process, Estimate)| one.1.unknown == Some(Unknown::FakeTensors);
    let has_fake_tensors = found.iter().any(is_fake);
    let mut rest = found.into_iter();
    let (first, mut whole) = rest.next().ok_or(QuestionError::NoPhantom)?;
    if whole.ended == PhantomEnd::Unknown {
        whole.ended = end.ended;
        whole.error.clone_from(&end.error);
    }
    if whole.cost.is_none() {
        whole.cost.clone_from(&end.cost);
    }
    // A plan tries the settings on the program as it is, and asks what its peak is made of.
    if let (true, true, Some(trace)) = (end.is_for_plan, whole.changes.is_empty(), traces.first()) {
        for device in &mut whole.devices {
            device.best_settings = best_settings(trace, device.device);
            device.peak_parts = peak_parts(trace, device.device).ok();
        }
    }
    let mut processes = vec![first];
    let mut devices = vec![std::mem::take(&mut whole.devices)];
    for (process, other) in rest {
        processes.push(process);
        devices.push(join(&mut whole, other));
    }
    whole.processes = count(devices.iter().filter(|devices| !devices.is_empty()).count());
    if whole.processes > 1 {
        for (process, devices) in processes.iter().zip(&mut devices) {
            for device in devices {
                device.process = Some(process.clone());
            }
        }
        whole.rank = None;
    }
    whole.devices = devices.into_iter().flatten().collect();
    let ran_out = whole.ended == PhantomEnd::OutOfMemory
        || whole.devices.iter().any(|device| device.failed.is_some());
    if ran_out && whole.ended == PhantomEnd::Failed {
        whole.ended = PhantomEnd::OutOfMemory;
    }
    whole.shared = shared(&whole.devices);
    let is_whole = !end.misses_process && !whole.losses.may_hide_a_peak();
    let verdict = verdict(whole.ended, ran_out, is_whole, &whole.devices, &whole.shared);
    (whole.fits, whole.unknown) = without_fake_tensors(verdict, has_fake_tensors);
    whole.whole_run = end.whole_run.clone().filter(|_| whole.fits == Some(false));
    whole.notes.extend(end.notes.iter().cloned());
    Ok(whole)
}

/// Adds what another process found; its devices come back.
fn join(whole: &mut Estimate, other: Estimate) -> Vec<DeviceEstimate> {
    if other.ended == PhantomEnd::Steps && whole.ended == PhantomEnd::Done {
        whole.ended = PhantomEnd::Steps;
    }
    whole.steps = whole.steps.max(other.steps);
    whole.step_peaks = whole.step_peaks.max(other.step_peaks);
    if other.peak_allocated > whole.peak_allocated {
        whole.op_calls = other.op_calls;
    }
    whole.peak_allocated = whole.peak_allocated.max(other.peak_allocated);
    whole.peak_reserved = whole.peak_reserved.max(other.peak_reserved);
    whole.rank = whole.rank.or(other.rank);
    whole.world_size = whole.world_size.or(other.world_size);
    if !whole.changes.iter().any(AppliedChange::is_applied) && !other.changes.is_empty() {
        whole.changes = other.changes;
    }
    whole.cost = whole.cost.take().or(other.cost);
    for read in other.reads {
        match whole.reads.iter_mut().find(|known| is_same(known, &read)) {
            Some(known) => known.count += read.count,
            None => whole.reads.push(read),
        }
    }
    for call in other.unsupported {
        let is_same = |known: &&mut UnsupportedCall| {
            (&known.library, &known.name) == (&call.library, &call.name)
        };
        match whole.unsupported.iter_mut().find(is_same) {
            Some(known) => known.count += call.count,
            None => whole.unsupported.push(call),
        }
    }
    add_new(&mut whole.notes, other.notes);
    let Losses(losses) = other.losses;
    add_new(&mut whole.losses.0, losses);
    other.devices
}

/// Whether two processes read the same value on the same line.
fn is_same(known: &PhantomRead, read: &PhantomRead) -> bool {
    PhantomRead { count: read.count, ..known.clone() } == *read
}

fn add_new<T: PartialEq>(to: &mut Vec<T>, from: Vec<T>) {
    for one in from {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

/// The GPUs that more than one process uses.
fn shared(devices: &[DeviceEstimate]) -> Vec<SharedGpu> {
    let mut by_gpu: BTreeMap<u32, SharedGpu> = BTreeMap::new();
    for device in devices {
        let none = SharedGpu {
            gpu: device.gpu,
            processes: 0,
            needed: Bytes(0),
            capacity: device.capacity,
        };
        let gpu = by_gpu.entry(device.gpu).or_insert(none);
        gpu.processes += 1;
        gpu.needed += device.needed;
    }
    by_gpu.into_values().filter(|gpu| gpu.processes > 1).collect()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
