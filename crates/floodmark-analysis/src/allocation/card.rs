//! One allocation: its category, its location, its lifetime, and its partner.
//!
//! The partner of a forward allocation was allocated by the backward pass of the same operator in the same step,
//! and vice versa: both have the stack of the forward operator.

use floodmark_trace::{Allocation, AllocationId, Bytes, Category, Device, StackId, Trace};
use floodmark_trace::{TextId, stack_flags};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::allocation::framework::{FrameChoice, ShownFrames};
use crate::allocation::location::{Frame, allocation_location, frame};
use crate::allocation::tensor_module::TensorModules;
use crate::allocation::use_times::{freed, last_use_seconds, saved_seconds};
use crate::question_error::QuestionError;

/// An operator that runs in a loop has many partners; the nearest in time are listed.
const MOST_PARTNERS: usize = 8;

/// The facts about one allocation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationCard {
    /// Its number in the trace.
    pub id: u32,
    /// Its device.
    pub device: Device,
    /// The size of its block.
    pub bytes: Bytes,
    /// The requested bytes.
    pub requested: Bytes,
    /// Its address, as hexadecimal digits after `0x`: too large for a number of JavaScript.
    pub address: String,
    /// The stream, where known.
    pub stream: Option<String>,
    /// The pool, where known.
    pub pool: Option<String>,
    /// Its category.
    #[schemars(with = "Category")]
    pub category: &'static str,
    /// The phase of the program.
    pub phase: Option<String>,
    /// The step that allocated it, where there are steps.
    pub step: Option<u32>,
    /// The module that it belongs to.
    pub module: Option<String>,
    /// The operator, where recorded.
    pub op: Option<String>,
    /// The name of its tensor, where known.
    pub name: Option<String>,
    /// The shape of its tensor, where known.
    pub shape: Option<String>,
    /// The dtype of its tensor, where known.
    pub dtype: Option<String>,
    /// The line that allocated it, in words.
    pub location: String,
    /// The stack that allocated it, innermost frame first; for backward, that of the forward operator.
    pub frames: Vec<CardFrame>,
    /// Whether the backward pass allocated it.
    pub backward: bool,
    /// When it was allocated, in seconds since the recording began; 0 for one from before the recording.
    pub allocated_seconds: f64,
    /// When autograd first saved it for the backward pass; null where it did not.
    pub saved_seconds: Option<f64>,
    /// When the backward pass last read what autograd had saved of it: its last use that is known.
    pub last_use_seconds: Option<f64>,
    /// When it was freed; null while it is live.
    pub freed_seconds: Option<f64>,
    /// Whether it was live when the recording began.
    pub before_recording: bool,
    /// Allocations of the same operator in the other direction.
    pub partner: Option<Partner>,
}

/// The allocations of an operator in the other direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Partner {
    /// The direction: `forward` or `backward`.
    pub kind: PartnerKind,
    /// The allocations, nearest in time first.
    pub ids: Vec<u32>,
    /// The stack of the nearest one, innermost frame first.
    pub frames: Vec<CardFrame>,
}

/// One frame of the stack of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CardFrame {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The function.
    pub function: String,
    /// Whether a stack without frames of frameworks leaves it out: torch, installed packages, Python's own library.
    pub is_folded: bool,
}

/// A direction of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartnerKind {
    /// It was allocated in the forward pass.
    Forward,
    /// It was made in the backward pass.
    Backward,
}

/// Collects the facts about an allocation.
pub fn allocation_card(
    trace: &Trace,
    context: &Context,
    id: AllocationId,
) -> Result<AllocationCard, QuestionError> {
    let missing =
        QuestionError::NoSuchAllocation { id: id.0, allocations: trace.allocations.len() };
    let allocation = trace.allocations.get(id.index()).ok_or(missing)?;
    let label = trace.label(allocation.label);
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    let text = |text: TextId| trace.text(text).map(str::to_owned);
    let seconds = |event: u32| trace.events.get(event as usize).map(|e| e.time.as_seconds());
    let is_new = !allocation.before_recording;
    Ok(AllocationCard {
        id: id.0,
        device: allocation.device,
        bytes: allocation.rounded,
        requested: allocation.requested,
        address: format!("{:#x}", allocation.addr.0),
        stream: text(allocation.stream.into()),
        pool: text(allocation.pool.into()),
        category: category(trace, context, id).name(),
        phase: context.phase(trace, id).map(|phase| phase.name(trace).to_owned()),
        step: if is_new { context.step(allocation.made_at) } else { None },
        module: TensorModules::new(trace).module_of(allocation).map(str::to_owned),
        op: text(allocation.op),
        name: label.and_then(|label| known(&label.name)),
        shape: label.and_then(|label| known(&label.shape)),
        dtype: label.and_then(|label| known(&label.dtype)),
        location: allocation_location(trace, allocation),
        frames: frames(trace, allocation.stack),
        backward: allocation.backward,
        allocated_seconds: if is_new { seconds(allocation.made_at).unwrap_or(0.0) } else { 0.0 },
        saved_seconds: saved_seconds(trace, id),
        last_use_seconds: last_use_seconds(trace, id),
        freed_seconds: freed(allocation).and_then(seconds),
        before_recording: allocation.before_recording,
        partner: partner(trace, context, allocation),
    })
}

fn frames(trace: &Trace, stack: StackId) -> Vec<CardFrame> {
    let shown = ShownFrames::new(trace, FrameChoice::Program).frames(stack);
    let shown: Vec<StackId> = shown.into_iter().map(|(node, _)| node).collect();
    let card_frame = |node| {
        let Frame { file, line, function } = frame(trace, node)?;
        Some(CardFrame { file, line, function, is_folded: !shown.contains(&node) })
    };
    trace.python_frames(stack).filter_map(|(node, _)| card_frame(node)).collect()
}

/// The stack of the forward operator: frames that ran in its backward pass are not part of it.
fn forward_stack(trace: &Trace, stack: StackId) -> StackId {
    let mut frames = trace.frames(stack);
    let forward = frames.find(|(_, node)| node.flags & stack_flags::BACKWARD == 0);
    forward.map_or(StackId(0), |(node, _)| node)
}

fn partner(trace: &Trace, context: &Context, of: &Allocation) -> Option<Partner> {
    let stack = forward_stack(trace, of.stack);
    if of.before_recording || stack == StackId(0) {
        return None;
    }
    let step = context.step(of.made_at);
    let is_partner = |other: &Allocation| {
        other.backward != of.backward
            && other.device == of.device
            && !other.before_recording
            && (other.made_at < of.made_at) == of.backward
            && forward_stack(trace, other.stack) == stack
            && context.step(other.made_at) == step
    };
    let mut ids: Vec<u32> = (0_u32..)
        .zip(&trace.allocations)
        .filter(|(_, other)| is_partner(other))
        .map(|(id, _)| id)
        .collect();
    if of.backward {
        ids.reverse();
    }
    ids.truncate(MOST_PARTNERS);
    let nearest = &trace.allocations[*ids.first()? as usize];
    let kind = if of.backward { PartnerKind::Forward } else { PartnerKind::Backward };
    Some(Partner { kind, frames: frames(trace, nearest.stack), ids })
}
