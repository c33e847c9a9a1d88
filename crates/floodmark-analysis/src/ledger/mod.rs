//! All memory of a GPU by owner, at a time: what torch allocates and caches, this process outside torch, other processes.
//!
//! The rows add up to the bytes in use that NVML gave. torch's rows are exact at every time, and NVML was asked at some
//! times only: what lies outside torch is that of the nearest sample. Where torch had other reserved bytes then, the
//! bytes in use change by the difference, and a note says so.

pub(crate) mod growth;
mod owners;
mod samples;

use floodmark_trace::{Bytes, Category, Device, Losses, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::json_format::FORMAT;
use crate::ledger::owners::{Owners, owners};
use crate::ledger::samples::{TimedSample, timed_samples};
use crate::moment::at::At;
use crate::moment::category_levels::categories_after;
use crate::moment::{Moment, chosen_device, device_of_last_oom, moment};
use crate::question_error::QuestionError;

/// Whose memory a row of a ledger is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerOwner {
    /// Blocks that torch has allocated, of one category.
    TorchAllocated,
    /// What torch has reserved and not allocated.
    TorchCached,
    /// The recorded process, outside torch's allocator: CUDA context, libraries, kernels, other allocators.
    OutsideTorch,
    /// Another process.
    OtherProcess,
    /// What is left of the bytes in use.
    Unexplained,
}

/// The memory of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LedgerRow {
    /// Whose memory it is.
    pub owner: LedgerOwner,
    /// Its bytes. Only what is unexplained can be negative: then the other rows overlap.
    pub bytes: i64,
    /// The category; for what torch has allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Category>")]
    pub category: Option<&'static str>,
    /// The number of the process; for another process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command of the process; for another process that the recorded one could see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The memory of a GPU at one sample.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LedgerPoint {
    /// When NVML was asked, in seconds since the recording began.
    pub seconds: f64,
    /// What was in use, by all processes.
    pub used: Bytes,
    /// torch's reserved bytes; null where the trace does not have them.
    pub reserved: Option<Bytes>,
    /// The recorded process, outside torch's allocator; null where NVML does not say it.
    pub outside_torch: Option<Bytes>,
    /// All other processes that NVML names; null where it lists none.
    pub other_processes: Option<Bytes>,
}

/// All memory of a GPU by owner.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ledger {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The GPU, as torch numbers it.
    pub device: Device,
    /// The time.
    pub at: Moment,
    /// When NVML was asked, in seconds since the recording began: the sample nearest to the time.
    pub sampled_seconds: f64,
    /// What was in use then.
    pub sampled_used: Bytes,
    /// All memory of the GPU.
    pub total: Bytes,
    /// What was in use at the time, by all processes: the sum of the rows. It is what NVML said, changed by as much as torch's
    /// reserved bytes have changed since.
    pub used: Bytes,
    /// What was not in use.
    pub free: Bytes,
    /// What the driver keeps for itself, beside the bytes in use; null where NVML counts it in them.
    pub driver: Option<Bytes>,
    /// torch's allocated bytes.
    pub allocated: Bytes,
    /// torch's reserved bytes; null where the trace does not have them.
    pub reserved: Option<Bytes>,
    /// The owners: torch by category, what it caches, this process outside torch, other processes, what is unexplained.
    pub rows: Vec<LedgerRow>,
    /// What is unknown or approximate, and why, one sentence each.
    pub notes: Vec<String>,
    /// Every sample.
    pub over_time: Vec<LedgerPoint>,
    /// What the recording misses.
    pub losses: Losses,
}

/// Answers whose memory is in use on a GPU.
pub fn ledger(trace: &Trace, device: Option<Device>, at: At) -> Result<Ledger, QuestionError> {
    let device = match (device, at) {
        (None, At::Oom) => device_of_last_oom(trace)?,
        _ => chosen_device(trace, device)?,
    };
    let samples = timed_samples(trace, device);
    let context = Context::new(trace);
    let now = moment(trace, &context, device, at)?;
    let nearest = nearest(&samples, now.seconds).ok_or(QuestionError::NoGpuSamples { device })?;
    let categories = categories_after(trace, &context, device, &[now.after]);
    let categories = categories.into_iter().next().unwrap_or_default();
    let Owners { used, rows, notes } = owners(trace, nearest, &now, categories);
    let figures = nearest.figures;
    let (total, driver) = (Bytes(figures.total), figures.driver.map(Bytes));
    Ok(Ledger {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device,
        sampled_seconds: nearest.seconds,
        sampled_used: Bytes(figures.used),
        total,
        used,
        free: total.saturating_sub(used).saturating_sub(driver.unwrap_or_default()),
        driver,
        allocated: now.allocated,
        reserved: now.reserved,
        at: now,
        rows,
        notes,
        over_time: samples.iter().map(|sample| point(trace, sample)).collect(),
        losses: trace.losses.clone(),
    })
}

/// The sample that counts for a time.
fn nearest<'a>(samples: &'a [TimedSample<'a>], seconds: f64) -> Option<&'a TimedSample<'a>> {
    let distance = |sample: &TimedSample<'_>| (sample.seconds - seconds).abs();
    samples.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)))
}

fn point(trace: &Trace, sample: &TimedSample<'_>) -> LedgerPoint {
    let (own, others) = sample.processes(trace.header.pid);
    LedgerPoint {
        seconds: sample.seconds,
        used: Bytes(sample.figures.used),
        reserved: sample.reserved,
        outside_torch: own.map(|own| own.saturating_sub(sample.of_torch())),
        other_processes: others,
    }
}
