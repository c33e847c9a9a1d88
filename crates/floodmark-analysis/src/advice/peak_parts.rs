//! What memory is made of at the moments to which a change of the program could move its peak.
//!
//! A change removes a part of memory, such as the activations of blocks. The peak is then at another moment, at which
//! another part is the largest. So for every set of parts, this finds the moment that is the peak once little is left of
//! that set. Often it is one of a dozen.

use std::collections::{BTreeMap, BTreeSet};

use floodmark_allocator::Edits;
use floodmark_trace::{AllocationId, Bytes, Category, Device, EventNumber, PeakPart, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::advice::causes::CauseKind;
use crate::advice::recomputed::checkpointing;
use crate::advice::{PeakCauses, find_causes};
use crate::allocation::context::{Context, Phase};
use crate::moment::at::At;
use crate::moment::moment;
use crate::question_error::QuestionError;

/// How many kinds there are.
const KINDS: usize = PeakPart::ALL.len();
/// The kinds whose sets are considered: the first ones. Parameters and the rest are reduced by few changes.
const REDUCED: usize = 8;
/// How little is left of a part that is reduced: one in this many.
const LEFT: u64 = 10;

/// The memory of one device, by parts, where a change could put the peak.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeakParts {
    /// How many repeated blocks there are; none where none were found.
    pub blocks: Option<u32>,
    /// Whether all parameters whose type is known are in 16 bits.
    pub is_half: bool,
    /// Whether there was a backward pass.
    pub trains: bool,
    /// The moments, each with the bytes of its parts.
    pub moments: Vec<BTreeMap<PeakPart, Bytes>>,
}

/// Finds the moments of a device.
pub(crate) fn peak_parts(trace: &Trace, device: Device) -> Result<PeakParts, QuestionError> {
    let context = Context::new(trace);
    let at = moment(trace, &context, device, At::Peak)?;
    let found = find_causes(trace, &context, &at);
    let moments = moments(&steps(trace, &context, device, &found));
    let blocks = found.blocks.as_ref().and_then(|blocks| u32::try_from(blocks.count).ok());
    Ok(PeakParts { blocks, is_half: is_half(trace), trains: trains(trace, &context), moments })
}

/// Whether there are parameters with known types, and all of them have 16 bits.
fn is_half(trace: &Trace) -> bool {
    let parameters = trace.labels().filter(|label| label.category == Category::Parameter);
    let mut dtypes =
        parameters.map(|label| &*label.dtype).filter(|dtype| !dtype.is_empty()).peekable();
    dtypes.peek().is_some() && dtypes.all(|dtype| matches!(dtype, "bfloat16" | "float16"))
}

/// Whether there was a backward pass.
fn trains(trace: &Trace, context: &Context) -> bool {
    let ids = (0_u32..).map(AllocationId).zip(&trace.allocations);
    ids.into_iter().any(|(id, _)| context.work(id) == Phase::Backward)
}

/// A change of one part after an event; what is freed comes before what is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    event: u32,
    is_more: bool,
    part: PeakPart,
    bytes: u64,
}

fn steps(trace: &Trace, context: &Context, device: Device, found: &PeakCauses) -> Vec<Step> {
    let again: Edits = found
        .blocks
        .as_ref()
        .map(|blocks| checkpointing(trace, context, blocks))
        .unwrap_or_default();
    let causes = found.context(trace, context);
    let mut steps = Vec::new();
    for (id, allocation) in (0_u32..).map(AllocationId).zip(&trace.allocations) {
        if allocation.device != device {
            continue;
        }
        let found = part_of(causes.kind(id));
        let is_kept = found == PeakPart::InnerActivations && !again.contains_key(&id.0);
        let part = if is_kept { PeakPart::BlockOutputs } else { found };
        let bytes = allocation.rounded.0;
        let from = if allocation.before_recording { 0 } else { allocation.made_at };
        let until = allocation.freed_at.map_or(u32::MAX, EventNumber::get);
        let mut add = |event, is_more, part| steps.push(Step { event, is_more, part, bytes });
        add(from, true, part);
        let used = (part == PeakPart::Gradients)
            .then(|| context.next_optimizer_end(from))
            .flatten()
            .filter(|&used| used < until);
        if let Some(used) = used {
            add(used, false, part);
            add(used, true, PeakPart::StaleGradients);
        }
        let last = if used.is_some() { PeakPart::StaleGradients } else { part };
        if until < u32::MAX {
            add(until, false, last);
        }
    }
    steps.sort_unstable();
    steps
}

fn part_of(kind: CauseKind) -> PeakPart {
    match kind {
        CauseKind::Logits => PeakPart::Logits,
        CauseKind::BlockActivations => PeakPart::InnerActivations,
        CauseKind::Activations => PeakPart::Activations,
        CauseKind::Gradients => PeakPart::Gradients,
        CauseKind::OptimizerState => PeakPart::OptimizerStates,
        CauseKind::OptimizerTemporaries => PeakPart::OptimizerTemporaries,
        CauseKind::Parameters => PeakPart::Parameters,
        CauseKind::KvCache => PeakPart::KvCache,
        CauseKind::Temporaries
        | CauseKind::Inputs
        | CauseKind::Buffers
        | CauseKind::Workspaces
        | CauseKind::Communication
        | CauseKind::FailedAllocation
        | CauseKind::Unknown => PeakPart::Rest,
    }
}

type Parts = [u64; KINDS];

/// For every set of parts, the moment with most memory once little is left of them.
fn moments(steps: &[Step]) -> Vec<BTreeMap<PeakPart, Bytes>> {
    let mut best = vec![(0_u64, Parts::default()); 1 << REDUCED];
    let mut now = Parts::default();
    for (at, step) in steps.iter().enumerate() {
        let part = &mut now[step.part as usize];
        *part = if step.is_more { *part + step.bytes } else { part.saturating_sub(step.bytes) };
        // Memory is at its highest before something is freed.
        let is_high = step.is_more && steps.get(at + 1).is_none_or(|next| !next.is_more);
        if is_high {
            consider(&mut best, &now);
        }
    }
    let found: BTreeSet<Parts> = best.into_iter().map(|(_, parts)| parts).collect();
    let named =
        |parts: Parts| PeakPart::ALL.into_iter().zip(parts.map(Bytes)).collect::<BTreeMap<_, _>>();
    found.into_iter().map(named).collect()
}

fn consider(best: &mut [(u64, Parts)], now: &Parts) {
    let all: u64 = now.iter().sum();
    for (set, (most, parts)) in best.iter_mut().enumerate() {
        let reduced: u64 =
            (0..REDUCED).filter(|part| set >> part & 1 == 1).map(|part| now[part]).sum();
        let left = all - reduced + reduced / LEFT;
        if left > *most {
            (*most, *parts) = (left, *now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(event: u32, is_more: bool, part: PeakPart, bytes: u64) -> Step {
        Step { event, is_more, part, bytes }
    }

    #[test]
    fn each_moment_that_a_change_could_make_the_peak_is_found() {
        let steps = [
            step(1, true, PeakPart::Parameters, 10),
            step(2, true, PeakPart::InnerActivations, 100),
            step(3, false, PeakPart::InnerActivations, 100),
            step(4, true, PeakPart::OptimizerTemporaries, 50),
            step(5, false, PeakPart::OptimizerTemporaries, 50),
            step(6, true, PeakPart::Rest, 15),
        ];
        let found = moments(&steps);
        let of = |kind| {
            let mut bytes: Vec<u64> = found.iter().map(|parts| parts[&kind].0).collect();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(of(PeakPart::InnerActivations), [0, 0, 100]);
        assert_eq!(of(PeakPart::OptimizerTemporaries), [0, 0, 50]);
        assert_eq!(of(PeakPart::Rest), [0, 0, 15]);
        assert_eq!(of(PeakPart::Parameters), [10, 10, 10]);
    }
}
