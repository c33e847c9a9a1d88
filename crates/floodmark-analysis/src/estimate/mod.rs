//! Whether a program fits on a GPU, from its recording on a simulated one.
//!
//! A program fits when every request succeeded, and all requests were recorded. Without an allocation on the GPU the answer is unknown: there
//! is nothing to judge. What it needs of a device is the peak of what was allocated from the driver, by torch or by others, and the context.
//! For a device that ran out of memory only a lower bound is known: the reserved bytes when the request failed, plus the segment that torch
//! requested.

pub(crate) mod processes;

use floodmark_trace::{
    AppliedChange, Bytes, Device, Engine, Losses, Phantom, PhantomDevice, PhantomEnd, PhantomRead,
    StepCost, Subject, Trace, UnsupportedCall,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::advice::causes::Cause;
use crate::advice::causes_at_peak;
use crate::advice::peak_parts::PeakParts;
use crate::allocation::context::Context;
use crate::allocator::simulation::{SimulationQuestion, simulation};
use crate::grouping::by::{By, Question};
use crate::grouping::by_step;
use crate::grouping::row::Row;
use crate::json_format::FORMAT;
use crate::moment::Moment;
use crate::moment::at::At;
use crate::moment::summary::{DeviceSummary, summary};
use crate::oom::oom;
use crate::question_error::QuestionError;
use crate::report::{Report, report};

/// How many operator calls an estimate has.
const MOST_OP_CALLS: usize = 20;

/// What a program needs of a simulated GPU, and whether it fits.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// Whether every allocation succeeded; null when that is unknown.
    pub fits: Option<bool>,
    /// Why it is unknown.
    pub unknown: Option<Unknown>,
    /// Which engine simulated the GPU.
    pub engine: Engine,
    /// The name of the GPU profile.
    pub gpu: String,
    /// Whether that profile was compared with the GPU itself.
    pub is_checked: bool,
    /// How the program ended.
    pub ended: PhantomEnd,
    /// The error that ended it; empty without one.
    pub error: String,
    /// Its rank, under a launcher.
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub world_size: Option<u32>,
    /// How many steps ended.
    pub steps: u32,
    /// Whether the last steps had the same peak; null where the program ended by itself, or made too few
    /// steps: the first allocates what the second has from the start.
    pub step_peaks: Option<StepPeaks>,
    /// What the whole program needs, run again with more memory; null where every allocation succeeded, or it was not run again.
    pub whole_run: Option<WholeRun>,
    /// The most that torch had allocated, of all devices.
    pub peak_allocated: Bytes,
    /// The most that torch had reserved, of all devices.
    pub peak_reserved: Bytes,
    /// How many processes allocated on a GPU.
    pub processes: u32,
    /// Every device that was used, for each process.
    pub devices: Vec<DeviceEstimate>,
    /// GPUs that several processes use.
    pub shared: Vec<SharedGpu>,
    /// Assumed values: read back by the program, and not computed.
    pub reads: Vec<PhantomRead>,
    /// Calls that were refused.
    pub unsupported: Vec<UnsupportedCall>,
    /// Changes that were requested with `--with`.
    pub changes: Vec<AppliedChange>,
    /// What a step computes; null where it was not counted.
    pub cost: Option<StepCost>,
    /// The operator calls after which most more was allocated, on the device with the highest peak; null where operators
    /// were not recorded.
    pub op_calls: Option<Report>,
    /// What is assumed or left out.
    pub notes: Vec<String>,
    /// What the recording misses.
    pub losses: Losses,
}

/// Why the answer is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// The program failed.
    Failed,
    /// The recording has no end.
    NoEnd,
    /// The recording misses allocations, or a process of the program.
    Incomplete,
    /// Nothing was allocated on a GPU.
    NothingAllocated,
    /// Processes share a GPU and together may need more than it has.
    SharedGpu,
    /// The program had blocks of fake tensors, which allocate nothing on this GPU.
    FakeTensors,
}

/// How the peaks of the last two steps of a program that was stopped compare.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepPeaks {
    /// They are the same: further steps need no more, if they do the same.
    Equal,
    /// They differ.
    Differ,
    /// That of the last step is the highest of all.
    Grow,
}

/// A program that ran out of memory, run again on simulated GPUs with more of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WholeRun {
    /// What it needs of the device that needs most.
    pub needed: Bytes,
    /// The most that torch had allocated, of all devices.
    pub peak_allocated: Bytes,
    /// The most that torch had reserved, of all devices.
    pub peak_reserved: Bytes,
    /// How many steps ended.
    pub steps: u32,
    /// How the program ended.
    pub ended: PhantomEnd,
    /// Whether its last steps had the same peak.
    pub step_peaks: Option<StepPeaks>,
}

impl WholeRun {
    /// `None` if the need of the run is unknown, as for a program that uses a share of the free
    /// memory.
    pub fn from_estimate(found: &Estimate) -> Option<Self> {
        let takes_share = |device: &DeviceEstimate| device.needed.0 > device.capacity.0 / 2;
        if found.fits != Some(true) || found.devices.iter().any(takes_share) {
            return None;
        }
        Some(Self {
            needed: found.devices.iter().map(|device| device.needed).max()?,
            peak_allocated: found.peak_allocated,
            peak_reserved: found.peak_reserved,
            steps: found.steps,
            ended: found.ended,
            step_peaks: found.step_peaks,
        })
    }
}

/// A process of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its rank, where it has one.
    pub rank: Option<u32>,
}

/// A GPU that several processes use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SharedGpu {
    /// Its number on the machine.
    pub gpu: u32,
    /// How many processes use it.
    pub processes: u32,
    /// The memory they need if all reach their peaks at the same time.
    pub needed: Bytes,
    /// Its memory.
    pub capacity: Bytes,
}

/// What a process needs of one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceEstimate {
    /// The process; null where the program has only one.
    pub process: Option<Process>,
    /// Which, as the process numbers them.
    pub device: Device,
    /// Which GPU of the machine it is.
    pub gpu: u32,
    /// The name that the driver reports.
    pub name: String,
    /// Its memory.
    pub capacity: Bytes,
    /// The peak of torch's allocated bytes.
    pub peak_allocated: Bytes,
    /// The peak of torch's reserved bytes.
    pub peak_reserved: Bytes,
    /// The memory outside torch: the CUDA context, libraries, and what they allocate for the program.
    pub outside_torch: Bytes,
    /// The same by owner, the context first.
    pub owners: Vec<OwnerBytes>,
    /// Reserved by torch and outside torch together, at the time when this is most.
    pub needed: Bytes,
    /// Whether more is needed than `needed`: an allocation failed, and what would have followed is unknown.
    pub is_lower_bound: bool,
    /// The remaining capacity.
    pub headroom: Bytes,
    /// The time of the peak.
    pub at: Moment,
    /// The last allocation that failed.
    pub failed: Option<Moment>,
    /// Live memory at that time, by category.
    pub categories: Vec<Row>,
    /// Live memory at that time, by cause: the largest first.
    pub causes: Vec<Cause>,
    /// The settings of the allocator, of those that were simulated, with which the same requests reserve least; null where
    /// no others reserve less, or none were simulated. They are for the program as it is, where `floodmark plan` asks.
    pub best_settings: Option<String>,
    /// What memory is made of where a change could put the peak; null where `best_settings` were not simulated either.
    pub peak_parts: Option<PeakParts>,
}

/// Memory outside torch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OwnerBytes {
    /// Who holds it: `CUDA context`, `cuBLAS`.
    pub owner: String,
    /// The bytes.
    pub bytes: Bytes,
}

/// Decides whether a program fits.
pub fn estimate(trace: &Trace) -> Result<Estimate, QuestionError> {
    let phantom = trace.header.phantom.as_ref().ok_or(QuestionError::NoPhantom)?;
    let found = summary(trace);
    let used = found.devices.iter().filter(|device| !device.device.is_cpu());
    let devices = used
        .map(|device| one(trace, phantom, device))
        .collect::<Result<Vec<_>, QuestionError>>()?;
    let ran_out = phantom.ended == PhantomEnd::OutOfMemory
        || devices.iter().any(|device| device.failed.is_some());
    let is_whole = !found.losses.may_hide_a_peak();
    let verdict = verdict(phantom.ended, ran_out, is_whole, &devices, &[]);
    let (fits, unknown) = without_fake_tensors(verdict, phantom.has_fake_tensors);
    let highest = |of: fn(&DeviceEstimate) -> Bytes| devices.iter().map(of).max();
    Ok(Estimate {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        fits,
        unknown,
        engine: phantom.engine,
        gpu: phantom.gpu.clone(),
        is_checked: phantom.is_checked,
        ended: phantom.ended,
        error: phantom.error.clone(),
        rank: trace.header.rank,
        world_size: trace.header.world_size,
        steps: found.steps,
        step_peaks: step_peaks(trace, phantom.ended, &devices),
        whole_run: None,
        op_calls: op_calls(trace, &devices)?,
        peak_allocated: highest(|device| device.peak_allocated).unwrap_or_default(),
        peak_reserved: highest(|device| device.peak_reserved).unwrap_or_default(),
        processes: u32::from(!devices.is_empty()),
        devices,
        shared: Vec::new(),
        reads: phantom.reads.clone(),
        unsupported: phantom.unsupported.clone(),
        changes: trace.header.changes.clone(),
        cost: trace.header.cost.clone(),
        notes: phantom.notes.clone(),
        losses: found.losses,
    })
}

/// The operator calls after which most more was allocated, where operators were recorded.
fn op_calls(trace: &Trace, devices: &[DeviceEstimate]) -> Result<Option<Report>, QuestionError> {
    if !trace.header.window.as_ref().is_some_and(|window| window.ops) {
        return Ok(None);
    }
    // The first of equals, not the last.
    let Some(highest) = devices.iter().rev().max_by_key(|device| device.peak_allocated) else {
        return Ok(None);
    };
    let question = Question {
        device: Some(highest.device),
        by: By::OpCall,
        top: Some(MOST_OP_CALLS),
        ..Question::default()
    };
    report(trace, &question).map(Some)
}

/// A program that fits without its fake tensors may not fit with them.
pub(crate) fn without_fake_tensors(
    verdict: (Option<bool>, Option<Unknown>),
    has_fake_tensors: bool,
) -> (Option<bool>, Option<Unknown>) {
    match verdict {
        (Some(true), _) | (None, Some(Unknown::NothingAllocated)) if has_fake_tensors => {
            (None, Some(Unknown::FakeTensors))
        }
        known => known,
    }
}

/// How the last steps compare, on the device where they differ most.
fn step_peaks(trace: &Trace, ended: PhantomEnd, devices: &[DeviceEstimate]) -> Option<StepPeaks> {
    if ended != PhantomEnd::Steps {
        return None;
    }
    let context = Context::new(trace);
    let finished = context.finished_steps() as usize;
    let of = |device: &DeviceEstimate| {
        let steps = by_step::steps(trace, &context, device.device);
        let [earlier @ .., before, last] = steps.get(..finished)? else { return None };
        if last.peak == before.peak && last.reserved <= before.reserved {
            return Some(StepPeaks::Equal);
        }
        let highest = earlier.iter().map(|step| step.peak).max()?.max(before.peak);
        let grows = last.peak > highest || last.reserved > before.reserved;
        Some(if grows { StepPeaks::Grow } else { StepPeaks::Differ })
    };
    devices.iter().filter_map(of).max()
}

/// Whether it fits, or why that is unknown.
pub(crate) fn verdict(
    ended: PhantomEnd,
    ran_out: bool,
    is_whole: bool,
    devices: &[DeviceEstimate],
    shared: &[SharedGpu],
) -> (Option<bool>, Option<Unknown>) {
    let unknown = match ended {
        _ if ran_out => return (Some(false), None),
        PhantomEnd::Failed | PhantomEnd::OutOfMemory => Unknown::Failed,
        PhantomEnd::Unknown => Unknown::NoEnd,
        // The run of a plan: the simulated GPU had more memory than the one that was planned for.
        _ if devices.iter().any(|device| device.needed > device.capacity) => {
            return (Some(false), None);
        }
        _ if !is_whole => Unknown::Incomplete,
        PhantomEnd::Done | PhantomEnd::Steps if devices.is_empty() => Unknown::NothingAllocated,
        PhantomEnd::Done | PhantomEnd::Steps => {
            if shared.iter().all(|gpu| gpu.needed <= gpu.capacity) {
                return (Some(true), None);
            }
            Unknown::SharedGpu
        }
    };
    (None, Some(unknown))
}

fn one(
    trace: &Trace,
    phantom: &Phantom,
    found: &DeviceSummary,
) -> Result<DeviceEstimate, QuestionError> {
    let device = found.device;
    let about = phantom.devices.get(usize::try_from(device.index).unwrap_or(0));
    let about = about.cloned().unwrap_or_default();
    let capacity = Bytes(about.capacity);
    let question = Question {
        device: Some(device),
        by: By::Category,
        at: At::Peak,
        top: None,
        ..Question::default()
    };
    let peak_reserved = found.reserved_peak.unwrap_or_default();
    let owners = owners(&about, peak_reserved);
    let outside = owners.iter().map(|owner| owner.bytes).sum();
    let mut needed = Bytes(about.peak_driver_bytes).max(peak_reserved) + Bytes(about.context);
    let failed = if has_failed(trace, device) {
        let failed = oom(trace, Some(device), Some(0))?;
        let asked = failed.reserved.unwrap_or_default() + failed.segment.unwrap_or_default();
        needed = needed.max(asked + outside);
        Some(failed.at)
    } else {
        None
    };
    Ok(DeviceEstimate {
        process: None,
        device,
        gpu: about.index.unwrap_or_else(|| u32::try_from(device.index).unwrap_or(0)),
        name: found.name.clone(),
        capacity,
        peak_allocated: found.peak,
        peak_reserved,
        outside_torch: outside,
        owners,
        needed,
        is_lower_bound: failed.is_some() || lacks_room_for_a_library(trace, phantom),
        headroom: capacity.saturating_sub(needed),
        at: found.at.clone(),
        failed,
        categories: report(trace, &question)?.rows,
        causes: causes_at_peak(trace, device)?,
        best_settings: None,
        peak_parts: None,
    })
}

/// The memory outside torch, by owner.
fn owners(about: &PhantomDevice, peak_reserved: Bytes) -> Vec<OwnerBytes> {
    let libraries = about.libraries_at_peak.iter();
    let libraries: Vec<_> =
        libraries.map(|held| (held.library.clone(), Bytes(held.bytes))).collect();
    let held: Bytes = libraries.iter().map(|&(_, bytes)| bytes).sum();
    // What a library allocated as the program's own memory, as `cudaMalloc` does.
    let others = Bytes(about.peak_driver_bytes).saturating_sub(peak_reserved + held);
    let context = ("CUDA context".to_owned(), Bytes(about.context));
    let all =
        [context].into_iter().chain(libraries).chain([("other allocations".to_owned(), others)]);
    let all = all.filter(|&(_, bytes)| bytes > Bytes(0));
    all.map(|(owner, bytes)| OwnerBytes { owner, bytes }).collect()
}

/// The settings of the allocator with which the same requests reserve least; none where no others reserve less.
fn best_settings(trace: &Trace, device: Device) -> Option<String> {
    let question =
        SimulationQuestion { device: Some(device), sweeps: true, ..SimulationQuestion::default() };
    let found = simulation(trace, &question).ok().filter(|found| found.is_reproduced)?;
    let best = &found.runs[found.best?];
    let saves = best.peak_reserved < found.recorded.peak_reserved;
    (saves && !best.alloc_conf.is_empty()).then(|| best.alloc_conf.clone())
}

/// Whether the program ran out of memory without a request to torch: a library found no room for itself.
fn lacks_room_for_a_library(trace: &Trace, phantom: &Phantom) -> bool {
    let mut events = trace.events.iter();
    phantom.ended == PhantomEnd::OutOfMemory
        && !events.any(|event| matches!(event.subject, Subject::Oom(_)))
}

fn has_failed(trace: &Trace, device: Device) -> bool {
    let mut failed = trace.events.iter().filter(|event| matches!(event.subject, Subject::Oom(_)));
    failed.any(|event| event.device == device)
}
