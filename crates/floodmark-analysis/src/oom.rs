//! Why an allocation failed, with proof.
//!
//! The memory at that time is replayed block by block. The reason is the first of these that holds:
//!
//! 1. *pending frees*: blocks that the program has freed, and a stream still uses, would have been
//!    enough.
//! 2. *another pool*: all that was free would have been enough, but too little of it was where the request
//!    could use it: in its own pool, on its own stream.
//! 3. *fragmentation*: what was free where the request could use it would have been enough, in one block.
//! 4. *outside torch*: without what others use of the device it would have fit.
//! 5. *capacity*: the program needs more than the device has.
//!
//! A simulation proves the reason: it shows whether the request succeeds under other settings, and
//! with how much more memory.

use floodmark_allocator::{AllocatorConfig, BlockState, Layout, Limit, SegmentView, replay, sizes};
use floodmark_trace::{Bytes, Device, Losses, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::allocator::simulation::{SimulatedProgram, is_last_request, scope};
use crate::grouping::by::{By, Question};
use crate::grouping::row::Row;
use crate::json_format::FORMAT;
use crate::ledger::growth::{OutsideGrowth, outside_growth};
use crate::moment::at::At;
use crate::moment::{Moment, default_device, moment};
use crate::question_error::QuestionError;
use crate::report::{Report, report};

/// Memory that others use of a device is mentioned beyond this: a CUDA context needs less.
const USUAL_OUTSIDE: u64 = 1 << 30;

/// Why an allocation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OomReason {
    /// The program needs more than the device has.
    Capacity,
    /// Enough was free, but not in one block.
    Fragmentation,
    /// Enough was free, but not in the pool and on the stream of the request.
    OtherPool,
    /// Enough was freed, and is still used by a stream.
    PendingFrees,
    /// Memory outside torch takes too much of the device.
    OutsideTorch,
}

/// Whether the failed allocation would have succeeded with a change. What the program requests after it is not known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Proof {
    /// With these settings; those of the recording when there are none.
    pub alloc_conf: String,
    /// With this much more memory.
    pub extra_memory: Bytes,
    /// Whether the allocation would have succeeded.
    pub fits: bool,
}

/// Why an allocation failed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OomReport {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The device.
    pub device: Device,
    /// The time, with the failed allocation.
    pub at: Moment,
    /// Why it failed.
    pub reason: OomReason,
    /// The same as a sentence, with its figures.
    pub why: String,
    /// The segment that torch requested from the driver; null for the CPU.
    pub segment: Option<Bytes>,
    /// The most that torch could reserve, where the recording shows it.
    pub limit: Option<Bytes>,
    /// Whether `set_per_process_memory_fraction` set this limit.
    pub is_own_limit: bool,
    /// The memory of the device, where known.
    pub total: Option<Bytes>,
    /// The free memory of the device, if known.
    pub device_free: Option<Bytes>,
    /// Memory in use outside torch, including the CUDA context, if known.
    pub outside_torch: Option<Bytes>,
    /// How it grew since the first step, if it did and the recording has samples of NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_growth: Option<OutsideGrowth>,
    /// torch's reserved bytes; null for the CPU.
    pub reserved: Option<Bytes>,
    /// What torch could still reserve: up to the limit, or all that was free on the device. Null where the recording shows neither.
    pub unreserved: Option<Bytes>,
    /// torch's allocated bytes.
    pub allocated: Bytes,
    /// Whether the trace has the addresses of blocks. Without them, free blocks are unknown.
    pub is_replayed: bool,
    /// Freed, and still used by a stream.
    pub pending_free: Bytes,
    /// Reserved and free, all together.
    pub free: Bytes,
    /// How many free blocks there are.
    pub free_blocks: u64,
    /// The largest of them.
    pub largest_free: Bytes,
    /// Free in the pool and on the stream of the request.
    pub usable_free: Bytes,
    /// How many blocks these are.
    pub usable_blocks: u64,
    /// The largest of them.
    pub largest_usable: Bytes,
    /// The least memory beyond the limit with which the allocation succeeds; null when that is not known.
    pub needed: Option<Bytes>,
    /// Changes that were simulated.
    pub proofs: Vec<Proof>,
    /// Whether nothing was allocated on the device after it: the recording ends there.
    pub is_last: bool,
    /// A sentence about what the proofs do not cover: later requests of the program.
    pub scope: String,
    /// Live memory, by line.
    pub lines: Vec<Row>,
    /// Live memory, by module.
    pub modules: Vec<Row>,
    /// What the recording misses.
    pub losses: Losses,
}

/// Settings that are tried.
const TRIED: [&str; 3] =
    ["expandable_segments:True", "max_split_size_mb:128", "garbage_collection_threshold:0.8"];

/// Explains the last failed request.
pub fn oom(
    trace: &Trace,
    device: Option<Device>,
    top: Option<usize>,
) -> Result<OomReport, QuestionError> {
    let device = match device {
        Some(device) => device.canonical(),
        None => default_device(trace, At::Oom)?,
    };
    let context = Context::new(trace);
    let at = moment(trace, &context, device, At::Oom)?;
    let rows = |by| -> Result<Vec<Row>, QuestionError> {
        let question =
            Question { device: Some(device), by, at: At::Oom, top, ..Question::default() };
        report(trace, &question).map(|Report { rows, .. }| rows)
    };
    let (lines, modules) = (rows(By::Line)?, rows(By::Module)?);
    let simulated = SimulatedProgram::new(trace, Some(device), None).ok();
    let config = simulated.as_ref().map_or_else(
        || AllocatorConfig::default_of(floodmark_allocator::TorchVersion::CHECKED),
        SimulatedProgram::config,
    );
    let replayed = replay(trace, device, &config, at.after, |_, _| {});
    let request = RequestedBlock::new(trace, &at, &config);
    let is_replayed = simulated.is_some();
    let found = if is_replayed {
        FreeMemory::new(&replayed.layout, &request)
    } else {
        FreeMemory::from_totals(&at)
    };
    let limit = simulated.as_ref().and_then(|simulated| simulated.program.limit);
    let device_free = trace.events.get(at.after as usize).and_then(|event| {
        let Subject::Oom(oom) = event.subject else { return None };
        trace.ooms.get(oom as usize)?.device_free
    });
    let shown = device.to_string();
    let info = trace.header.devices.iter().find(|info| info.device == shown);
    let total = info.map(|info| Bytes(info.total_bytes)).filter(|total| total.0 > 0);
    let held = at.reserved.unwrap_or_default();
    let outside = total.zip(device_free).map(|(total, free)| total.saturating_sub(held + free));
    let needed = simulated
        .as_ref()
        .zip(limit)
        .and_then(|(simulated, limit)| needed(simulated, limit, at.after));
    let proofs = simulated
        .as_ref()
        .zip(limit)
        .map_or_else(Vec::new, |(simulated, limit)| proofs(simulated, limit, needed, at.after));
    let is_last = is_last_request(trace, device, at.after);
    let mut answer = OomReport {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device,
        reason: reason(&found, &request, outside, limit),
        why: String::new(),
        segment: (!device.is_cpu()).then_some(Bytes(request.segment)),
        limit: limit.map(|limit| limit.bytes),
        is_own_limit: limit.is_some_and(|limit| limit.is_fraction) && device_free.is_some(),
        total,
        device_free,
        outside_torch: outside,
        outside_growth: outside_growth(trace, &context, device, at.seconds),
        reserved: at.reserved,
        unreserved: at
            .reserved
            .and_then(|held| limit.map(|limit| limit.bytes.saturating_sub(held)).or(device_free)),
        allocated: at.allocated,
        is_replayed,
        pending_free: Bytes(found.pending),
        free: Bytes(found.free),
        free_blocks: found.blocks,
        largest_free: replayed.layout.largest_free(),
        usable_free: Bytes(found.usable),
        usable_blocks: found.usable_blocks,
        largest_usable: Bytes(found.largest_usable),
        needed,
        proofs,
        is_last,
        scope: scope(is_last).to_owned(),
        lines,
        modules,
        losses: trace.losses.clone(),
        at,
    };
    answer.why = why(&answer);
    Ok(answer)
}

/// The reason as a sentence.
fn why(found: &OomReport) -> String {
    let OomReport { allocated, free, usable_free, largest_usable, pending_free, .. } = found;
    let request = found.at.request.as_ref().map_or(Bytes(0), |request| request.bytes);
    match found.reason {
        OomReason::Capacity if found.device.is_cpu() => {
            format!("capacity. {allocated} are allocated; the system refused {request} more")
        }
        OomReason::Capacity => {
            let parts = parts_of_capacity(found);
            let unused = found.free + found.unreserved.unwrap_or_default();
            let in_one = if unused >= request { " in one block" } else { "" };
            format!("capacity. {parts}; {request} were requested{in_one}")
        }
        OomReason::Fragmentation if !found.is_replayed => {
            format!(
                "fragmentation. {free} are reserved and free, but no free block has the requested {request}"
            )
        }
        OomReason::Fragmentation => format!(
            "fragmentation. {usable_free} are free in the request's pool and stream, but the largest free block has \
             {largest_usable}; {request} were requested"
        ),
        OomReason::OtherPool if *usable_free == Bytes(0) => format!(
            "other pool. {free} are free, but none of them in the request's pool and stream"
        ),
        OomReason::OtherPool => format!(
            "other pool. {free} are free, but only {usable_free} of them in the request's pool and stream"
        ),
        OomReason::PendingFrees => {
            format!("pending frees. The program freed {pending_free} that a stream still uses")
        }
        OomReason::OutsideTorch => format!(
            "memory outside torch. {} of the device are used by the CUDA context, libraries or other processes",
            found.outside_torch.unwrap_or_default()
        ),
    }
}

/// `Of the 2.000 GiB that torch could reserve, 1.750 GiB are allocated, …`: the parts add up to what torch could reserve.
fn parts_of_capacity(found: &OomReport) -> String {
    let mut parts = vec![format!("{} are allocated", found.allocated)];
    let mut push = |bytes: Option<Bytes>, what: &str| {
        let bytes = bytes.filter(|&bytes| bytes > Bytes(0));
        parts.extend(bytes.map(|bytes| format!("{bytes} {what}")));
    };
    push(Some(found.pending_free), "pending free");
    let blocks = match (found.is_replayed, found.free_blocks) {
        (false, _) | (true, 0 | 1) => String::new(),
        (true, _) => format!(" in blocks of at most {}", found.largest_free),
    };
    push(Some(found.free), &format!("free in torch's segments{blocks}"));
    push(found.unreserved, "not reserved");
    let last = parts.pop().unwrap_or_default();
    let parts = if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) };
    let Some((reserved, unreserved)) = found.reserved.zip(found.unreserved) else { return parts };
    let outside = found.outside_torch.filter(|_| !found.is_own_limit);
    let outside =
        outside.map_or_else(String::new, |bytes| format!("; {bytes} are used outside torch"));
    format!("Of the {} that torch could reserve, {parts}{outside}", reserved + unreserved)
}

/// The block that the failed request needed: its rounded size, segment size, stream and pool.
struct RequestedBlock {
    size: u64,
    segment: u64,
    is_small: bool,
    stream: u64,
    pool: bool,
}

impl RequestedBlock {
    fn new(trace: &Trace, at: &Moment, config: &AllocatorConfig) -> Self {
        let bytes = at.request.as_ref().map_or(0, |request| request.bytes.0);
        let size = sizes::round(bytes, config);
        // The stream of a failed request is not recorded: most likely that of the one before.
        let past = &trace.events[..(at.after as usize).min(trace.events.len())];
        let mut past = past.iter().rev().filter(|event| event.device == at.device);
        let last = past.find_map(|event| trace.allocations.get(event.subject.allocated()?.index()));
        let stream = last.and_then(|last| trace.text(last.stream.into()));
        Self {
            size,
            segment: sizes::segment_for(size, config),
            is_small: sizes::is_small(size),
            stream: stream.and_then(floodmark_allocator::stream_handle).unwrap_or(0),
            pool: last.is_some_and(|last| last.pool.0 != 0),
        }
    }

    fn can_use(&self, segment: &SegmentView) -> bool {
        segment.is_small == self.is_small
            && segment.stream == self.stream
            && (segment.pool != 0) == self.pool
    }
}

/// Free memory when the allocation failed.
#[derive(Debug, Default)]
struct FreeMemory {
    pending: u64,
    free: u64,
    blocks: u64,
    usable: u64,
    usable_blocks: u64,
    largest_usable: u64,
}

impl FreeMemory {
    /// Without segments: what is reserved and not active is free, at unknown addresses.
    fn from_totals(at: &Moment) -> Self {
        let active = at.active.unwrap_or(at.allocated);
        let free = at.reserved.map_or(0, |reserved| reserved.saturating_sub(active).0);
        let pending = active.saturating_sub(at.allocated).0;
        Self { pending, free, usable: free, ..Self::default() }
    }

    fn new(layout: &Layout, request: &RequestedBlock) -> Self {
        let mut found = Self::default();
        for segment in &layout.segments {
            let can_use = request.can_use(segment);
            for block in &segment.blocks {
                let bytes = block.bytes.0;
                match block.state {
                    BlockState::Pending => found.pending += bytes,
                    BlockState::Free => {
                        found.free += bytes;
                        found.blocks += 1;
                        if can_use {
                            found.usable += bytes;
                            found.usable_blocks += 1;
                            found.largest_usable = found.largest_usable.max(bytes);
                        }
                    }
                    BlockState::Allocated | BlockState::Unmapped => {}
                }
            }
        }
        found
    }
}

fn reason(
    found: &FreeMemory,
    request: &RequestedBlock,
    outside: Option<Bytes>,
    limit: Option<Limit>,
) -> OomReason {
    let size = request.size;
    if found.pending >= size {
        return OomReason::PendingFrees;
    }
    if found.usable < size && found.free >= size {
        return OomReason::OtherPool;
    }
    if found.usable >= size {
        return OomReason::Fragmentation;
    }
    let by_device = limit.is_none_or(|limit| !limit.is_fraction);
    let unusual = outside.map_or(0, |outside| outside.0.saturating_sub(USUAL_OUTSIDE));
    if by_device && unusual >= request.segment {
        return OomReason::OutsideTorch;
    }
    OomReason::Capacity
}

fn fits(simulated: &SimulatedProgram, config: AllocatorConfig, limit: Limit, event: u32) -> bool {
    simulated.run(&simulated.program, config, Some(limit)).met.contains(&event)
}

/// The least additional memory with which the request succeeds, in steps of 2 MiB.
fn needed(simulated: &SimulatedProgram, limit: Limit, event: u32) -> Option<Bytes> {
    let more =
        |units: u64| Limit { bytes: limit.bytes + Bytes(units * sizes::ROUND_LARGE), ..limit };
    let mut enough = 1;
    while !fits(simulated, simulated.config(), more(enough), event) {
        enough *= 2;
        if enough > 1 << 24 {
            return None;
        }
    }
    let mut short = enough / 2;
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if fits(simulated, simulated.config(), more(middle), event) {
            enough = middle;
        } else {
            short = middle;
        }
    }
    Some(Bytes(enough * sizes::ROUND_LARGE))
}

fn proofs(
    simulated: &SimulatedProgram,
    limit: Limit,
    needed: Option<Bytes>,
    event: u32,
) -> Vec<Proof> {
    let own = simulated.config();
    let mut proofs = Vec::new();
    for conf in TRIED {
        let Ok(config) = AllocatorConfig::parse(conf, simulated.version) else { continue };
        if config != own {
            let fits = fits(simulated, config, limit, event);
            proofs.push(Proof { alloc_conf: conf.to_owned(), extra_memory: Bytes(0), fits });
        }
    }
    proofs.extend(needed.map(|extra_memory| Proof {
        alloc_conf: own.text().to_owned(),
        extra_memory,
        fits: true,
    }));
    proofs
}
