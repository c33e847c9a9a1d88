//! Advice: changes, with the bytes that each saves.
//!
//! First what fills the peak ([`causes`]), then changes. Every figure is computed. A change of the allocator's
//! settings is simulated; a change of the program is made to its requests ([`Edits`]) and these are simulated.
//! Without a caching allocator, the remaining events are summed again. Each figure states its assumptions.

pub(crate) mod avoidable;
pub(crate) mod causes;
pub(crate) mod idle;
mod logits;
pub(crate) mod peak_parts;
mod recomputed;
mod repeated_blocks;
mod sharding;

use floodmark_allocator::{Edit, Edits};
use floodmark_trace::{AllocationId, Bytes, Category, Device, Losses, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::advice::avoidable::{is_optimizer_temporary, optimizer_temporaries, stale_gradients};
use crate::advice::causes::{Cause, CauseContext, CauseKind};
use crate::advice::idle::idle;
use crate::advice::logits::{CHUNKS, Logits};
use crate::advice::recomputed::checkpointing;
use crate::advice::repeated_blocks::RepeatedBlocks;
use crate::advice::sharding::Sharding;
use crate::allocation::context::Context;
use crate::allocator::simulation::{SimulatedProgram, SimulationQuestion, simulation};
use crate::grouping::live_groups::Live;
use crate::json_format::FORMAT;
use crate::moment::at::At;
use crate::moment::totals::{peak_after, peaks};
use crate::moment::{Moment, check_device, default_device, moment};
use crate::question_error::QuestionError;
use crate::steps::leaks::leaks;

/// The most idle lines, and the most leaks, in an answer.
const MOST_LINES: usize = 3;
/// A change that saves less than one part in this many is left out.
const LEAST_PART: u64 = 200;

/// The subject of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdviceKind {
    /// Other allocator settings.
    AllocatorSettings,
    /// Lines that grow from step to step.
    Leak,
    /// What is idle at the peak.
    Idle,
    /// Gradients that are not read again.
    StaleGradients,
    /// Temporaries of an optimizer.
    OptimizerTemporaries,
    /// Activations that could be computed again in the backward pass.
    Checkpointing,
    /// Logits and loss, which could be computed in parts.
    Logits,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// Its subject.
    pub kind: AdviceKind,
    /// The finding.
    pub finding: String,
    /// What to do.
    pub change: String,
    /// The assumptions about the changed program; empty if there are none.
    pub assumes: &'static str,
    /// By how much the peak of allocated bytes falls.
    pub saves_allocated: Bytes,
    /// By how much the peak of reserved bytes falls; null without a caching allocator.
    pub saves_reserved: Option<Bytes>,
    /// The peak of allocated bytes with the change.
    pub peak_allocated: Bytes,
    /// The peak of reserved bytes with the change.
    pub peak_reserved: Option<Bytes>,
}

/// Advice for a program, with the bytes that each change saves.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AdviceReport {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The device.
    pub device: Device,
    /// The peak of allocated bytes; after a failed allocation, the peak that its success would
    /// give.
    pub peak_allocated: Bytes,
    /// The peak of reserved bytes, in the same way; null without a caching allocator.
    pub peak_reserved: Option<Bytes>,
    /// How many allocations failed in the recording.
    pub failed_requests: usize,
    /// Whether the simulation agrees with the recording; null when nothing could be simulated.
    pub is_reproduced: Option<bool>,
    /// The causes of live memory at the failed allocation, or else at the peak: the largest first.
    pub causes: Vec<Cause>,
    /// Checks without a finding, and checks that were not possible.
    pub notes: Vec<String>,
    /// What to change, the largest saving first.
    pub advice: Vec<Advice>,
    /// What the recording misses.
    pub losses: Losses,
}

/// Finds changes that save memory.
pub fn advise(trace: &Trace, device: Option<Device>) -> Result<AdviceReport, QuestionError> {
    let device = match device {
        Some(device) => device.canonical(),
        None => default_device(trace, At::Peak)?,
    };
    check_device(trace, device)?;
    let context = Context::new(trace);
    let mut adviser = Adviser::new(trace, device, &context);
    adviser.settings();
    adviser.leaks();
    adviser.idle();
    adviser.avoidable(&context)?;
    let causes = adviser.activations_and_loss(&context)?;
    let failed = |event: &&floodmark_trace::Event| {
        event.device == device && matches!(event.subject, floodmark_trace::Subject::Oom(_))
    };
    let failed_requests = trace.events.iter().filter(failed).count();
    if failed_requests > 0 {
        adviser.notes.push(
            "the recording ends at the failed allocation, or goes on without it: the rest of the run may need more"
                .to_owned(),
        );
    }
    let Adviser { peak, simulated, is_reproduced, mut advice, notes, .. } = adviser;
    advice.sort_by_key(|one| {
        std::cmp::Reverse(one.saves_allocated.max(one.saves_reserved.unwrap_or_default()))
    });
    Ok(AdviceReport {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device,
        peak_allocated: peak.0,
        peak_reserved: simulated.is_some().then_some(peak.1),
        failed_requests,
        is_reproduced,
        causes,
        notes,
        advice,
        losses: trace.losses.clone(),
    })
}

struct Adviser<'a> {
    trace: &'a Trace,
    device: Device,
    simulated: Option<SimulatedProgram>,
    /// The simulated peaks of the recording: allocated and reserved.
    peak: (Bytes, Bytes),
    is_reproduced: Option<bool>,
    advice: Vec<Advice>,
    notes: Vec<String>,
}

impl<'a> Adviser<'a> {
    fn new(trace: &'a Trace, device: Device, context: &Context) -> Self {
        let mut adviser = Self {
            trace,
            device,
            simulated: SimulatedProgram::new(trace, Some(device), None).ok(),
            peak: (Bytes(0), Bytes(0)),
            is_reproduced: None,
            advice: Vec::new(),
            notes: Vec::new(),
        };
        let recorded = peaks(trace).into_iter().find(|peak| peak.device == device);
        adviser.peak.0 = recorded.map_or(Bytes(0), |peak| peak.allocated);
        if let Some(simulated) = &adviser.simulated {
            let recorded = simulated.recorded(trace, context);
            adviser.is_reproduced = Some(simulated.reproduces(&recorded));
            adviser.peak = adviser.peak_with(&Edits::new());
        }
        adviser
    }

    /// The peaks after a change to the program.
    fn peak_with(&self, edits: &Edits) -> (Bytes, Bytes) {
        let Some(simulated) = &self.simulated else {
            return (peak_after(self.trace, self.device, edits), Bytes(0));
        };
        let stats = simulated.run(&simulated.program.edited(edits), simulated.config(), None).stats;
        (Bytes(stats.allocated_bytes.all.peak), Bytes(stats.reserved_bytes.all.peak))
    }

    fn is_worth_it(&self, saved: (Bytes, Bytes)) -> bool {
        saved.0.0 > self.peak.0.0 / LEAST_PART || saved.1.0 > self.peak.1.0.max(1) / LEAST_PART
    }

    /// Adds an advice if it saves something.
    fn add(
        &mut self,
        kind: AdviceKind,
        finding: String,
        (change, assumes): (&str, &'static str),
        after: (Bytes, Bytes),
    ) -> bool {
        let saved = (self.peak.0.saturating_sub(after.0), self.peak.1.saturating_sub(after.1));
        if !self.is_worth_it(saved) {
            return false;
        }
        let has_reserved = self.simulated.is_some();
        self.advice.push(Advice {
            kind,
            finding,
            change: change.to_owned(),
            assumes,
            saves_allocated: saved.0,
            saves_reserved: has_reserved.then_some(saved.1),
            peak_allocated: after.0,
            peak_reserved: has_reserved.then_some(after.1),
        });
        true
    }

    fn without(
        &mut self,
        kind: AdviceKind,
        finding: String,
        change: &str,
        ids: &[AllocationId],
    ) -> bool {
        let left_out = ids.iter().map(|id| (id.0, Edit::LeaveOut)).collect();
        let after = self.peak_with(&left_out);
        self.add(kind, finding, (change, ""), after)
    }

    fn settings(&mut self) {
        let question = SimulationQuestion {
            device: Some(self.device),
            sweeps: true,
            ..SimulationQuestion::default()
        };
        let Ok(found) = simulation(self.trace, &question) else {
            let device = self.device;
            self.notes
                .push(format!("{device} has no caching allocator whose settings could be changed"));
            return;
        };
        let Some(best) = found.best.map(|at| &found.runs[at]) else {
            self.notes.push(
                "none of the allocator settings that were tried avoids the failure".to_owned(),
            );
            return;
        };
        let after = (best.peak_allocated, best.peak_reserved);
        let conf = &best.alloc_conf;
        let change = if conf.is_empty() {
            "unset PYTORCH_CUDA_ALLOC_CONF".to_owned()
        } else {
            format!("export PYTORCH_CUDA_ALLOC_CONF={conf}")
        };
        let cure =
            if found.recorded.oom.is_some() { ", and the failed request succeeds" } else { "" };
        let waste = self.peak.1.saturating_sub(self.peak.0);
        let finding = format!(
            "{waste} more are reserved than allocated at the peak; other settings need less{cure}"
        );
        if !self.add(AdviceKind::AllocatorSettings, finding, (&change, ""), after) {
            self.notes
                .push("none of the allocator settings that were tried saves memory".to_owned());
        }
    }

    fn leaks(&mut self) {
        let Ok(found) = leaks(self.trace, Some(self.device), Some(MOST_LINES)) else {
            self.notes.push("too few steps to look for leaks".to_owned());
            return;
        };
        if found.rows.is_empty() {
            self.notes.push("no line grows from step to step".to_owned());
        }
        for leak in found.rows {
            let finding = format!(
                "{} keeps {} more per step since step {}",
                leak.location, leak.bytes_per_step, leak.since
            );
            let may_have_a_graph = [Category::Activation, Category::Unknown]
                .map(Category::name)
                .contains(&leak.category);
            let change = if may_have_a_graph {
                "don't keep tensors attached to the graph: keep `.item()` or `.detach()` of them"
            } else {
                "remove it from the list, dict or attribute that keeps it from step to step, or keep \
                 a copy on the CPU"
            };
            self.without(AdviceKind::Leak, finding, change, &leak.allocations);
        }
    }

    fn idle(&mut self) {
        let Ok(found) = idle(self.trace, Some(self.device)) else { return };
        let sharding = Sharding::from_stacks(self.trace);
        self.notes.extend(sharding.map(|sharding| {
            let words = sharding.words();
            format!(
                "the program already shards its model ({words}): all figures are those of this rank"
            )
        }));
        let mut listed = 0;
        for line in found.rows {
            // Excludes memory that the model uses in every step.
            let stays =
                [Category::Parameter, Category::Gradient, Category::Buffer, Category::Workspace];
            if listed == MOST_LINES || stays.iter().any(|category| category.name() == line.category)
            {
                continue;
            }
            let is_unknown = line.category == Category::Unknown.name();
            let what = if is_unknown { String::new() } else { format!(" ({})", line.category) };
            let finding = format!(
                "{} retains {}{what} through the peak: allocated long before it, freed long after or never",
                line.location, line.bytes
            );
            let change = if line.category == Category::OptimizerState.name() {
                less_optimizer_state(self.device, sharding, line.bytes)
            } else {
                free_or_recompute(self.device, is_unknown).to_owned()
            };
            if self.without(AdviceKind::Idle, finding, &change, &line.allocations) {
                listed += 1;
            }
        }
    }

    fn avoidable(&mut self, context: &Context) -> Result<(), QuestionError> {
        let at = moment(self.trace, context, self.device, At::Peak)?;
        let gradients = stale_gradients(self.trace, context, &at);
        if gradients.count > 0 {
            let finding = format!(
                "{} of gradients are live at the peak, used already and not yet computed again",
                gradients.bytes
            );
            let change =
                "call `optimizer.zero_grad(set_to_none=True)` right after `optimizer.step()`";
            let ids = &gradients.allocations;
            self.without(AdviceKind::StaleGradients, finding, change, ids);
        }
        let temporaries = optimizer_temporaries(self.trace, context, &at);
        if temporaries.count > 0 {
            let finding = format!(
                "the optimizer's step has {} of temporaries at the peak",
                temporaries.bytes
            );
            let change =
                "use `fused=True` (no temporaries) or `foreach=False` (one parameter at a time)";
            let ids = all_optimizer_temporaries(self.trace, context, self.device);
            self.without(AdviceKind::OptimizerTemporaries, finding, change, &ids);
        }
        Ok(())
    }

    /// The causes of the peak; and checkpointing and a chunked loss, if they save something.
    fn activations_and_loss(&mut self, context: &Context) -> Result<Vec<Cause>, QuestionError> {
        let at = failed_or_peak(self.trace, context, self.device)?;
        let PeakCauses { causes, blocks, logits } = find_causes(self.trace, context, &at);
        if let Some(blocks) = &blocks {
            self.checkpointing(context, blocks, &causes);
        }
        if let Some(logits) = &logits {
            self.chunked_loss(logits, &causes);
        }
        Ok(causes)
    }

    fn checkpointing(&mut self, context: &Context, blocks: &RepeatedBlocks, causes: &[Cause]) {
        let Some(cause) = cause_of(causes, CauseKind::BlockActivations) else { return };
        let finding = format!("{}: {} live", cause.name, cause.bytes);
        let change = "checkpoint each block: `torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)`, in \
                      transformers `model.gradient_checkpointing_enable()`; costs one more forward of these blocks";
        let assumes = "the last large tensor of a block is its output and stays; everything else is freed after its \
                       forward and allocated again when the backward pass reaches the block";
        let after = self.peak_with(&checkpointing(self.trace, context, blocks));
        self.add(AdviceKind::Checkpointing, finding, (change, assumes), after);
    }

    fn chunked_loss(&mut self, logits: &Logits, causes: &[Cause]) {
        let Some(cause) = cause_of(causes, CauseKind::Logits) else { return };
        let finding = format!("{}, {} live", cause.name, cause.bytes);
        let change = "compute the last linear layer and the loss in parts of the tokens, each checkpointed, so that the \
                      logits are never whole";
        const { assert!(CHUNKS == 8, "the sentence below says so") };
        let assumes = "8 parts, one at a time, so that each of these tensors is an eighth";
        let after = self.peak_with(&logits.chunked(self.trace));
        self.add(AdviceKind::Logits, finding, (change, assumes), after);
    }
}

/// The causes of live memory at a time, and the facts behind them.
struct PeakCauses {
    causes: Vec<Cause>,
    blocks: Option<RepeatedBlocks>,
    logits: Option<Logits>,
}

impl PeakCauses {
    fn context<'a>(&'a self, trace: &'a Trace, context: &'a Context) -> CauseContext<'a> {
        let (blocks, logits) = (self.blocks.as_ref(), self.logits.as_ref());
        CauseContext { trace, context, blocks, logits }
    }
}

fn find_causes(trace: &Trace, context: &Context, at: &Moment) -> PeakCauses {
    let live = Live::at(trace, at).allocations;
    let blocks = RepeatedBlocks::find(trace, context, at.device, &live);
    let logits = Logits::find(trace, context, at.device, blocks.as_ref(), at.allocated);
    let parts = CauseContext { trace, context, blocks: blocks.as_ref(), logits: logits.as_ref() };
    PeakCauses { causes: parts.causes_at(at), blocks, logits }
}

/// The causes of a device's live memory at its peak, the largest first.
pub(crate) fn causes_at_peak(trace: &Trace, device: Device) -> Result<Vec<Cause>, QuestionError> {
    let context = Context::new(trace);
    let at = moment(trace, &context, device, At::Peak)?;
    Ok(find_causes(trace, &context, &at).causes)
}

fn cause_of(causes: &[Cause], kind: CauseKind) -> Option<&Cause> {
    causes.iter().find(|cause| cause.kind == kind)
}

/// The last failed allocation of a device, or its peak where none failed.
fn failed_or_peak(
    trace: &Trace,
    context: &Context,
    device: Device,
) -> Result<Moment, QuestionError> {
    moment(trace, context, device, At::Oom).or_else(|_| moment(trace, context, device, At::Peak))
}

/// In every step: otherwise the peak would only move to another step.
fn all_optimizer_temporaries(
    trace: &Trace,
    context: &Context,
    device: Device,
) -> Vec<AllocationId> {
    let ids = (0_u32..).map(AllocationId).zip(&trace.allocations);
    let ids = ids.filter(|(_, made)| made.device == device && made.freed_at.is_some());
    ids.map(|(id, _)| id).filter(|&id| is_optimizer_temporary(trace, context, id)).collect()
}

/// How to reduce idle memory. On the CPU it is in host memory already.
fn free_or_recompute(device: Device, is_unknown: bool) -> &'static str {
    match (device.is_cpu(), is_unknown) {
        (false, true) => {
            "if nothing uses it around the peak, free it before, move it to host memory, or recompute it"
        }
        (false, false) => {
            "move it to host memory, free it before the peak, or recompute it afterwards"
        }
        (true, true) => "if nothing uses it around the peak, free it before, or recompute it",
        (true, false) => "free it before the peak, or recompute it afterwards",
    }
}

/// How to reduce optimizer state, without changes that the program has already.
fn less_optimizer_state(device: Device, sharding: Option<Sharding>, bytes: Bytes) -> String {
    let less = "use an optimizer with less state";
    let (done, more) = match sharding {
        None => (String::new(), "shard it"),
        Some(sharding) => {
            (format!("it is sharded already ({}): ", sharding.words()), "shard it over more ranks")
        }
    };
    if device.is_cpu() {
        return format!("{done}{less}, or {more}");
    }
    format!(
        "{done}{less}, {more}, or offload it to host memory, which copies {bytes} there and back in every step"
    )
}
