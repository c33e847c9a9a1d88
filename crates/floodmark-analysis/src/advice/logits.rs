//! Logits, and the other tensors of a loss over a vocabulary.
//!
//! Cross-entropy functions are on the stacks of their allocations. Other losses, such as those of preference
//! optimization, start from the output of a linear layer behind the blocks whose size is a multiple of the vocabulary's.
//! The largest of these tensors has the size of the logits in the precision of the loss; tensors of that size, of its
//! half or double, before and after it and in its backward pass are copies, casts and gradients of it.

use std::collections::BTreeSet;

use floodmark_allocator::{Edit, Edits};
use floodmark_trace::{Allocation, AllocationId, Bytes, Category, Device, StackId, Trace};
use hashbrown::HashMap;

use crate::advice::repeated_blocks::RepeatedBlocks;
use crate::allocation::category::category;
use crate::allocation::context::{Context, Phase};

/// Functions of torch and of libraries that compute a loss over classes.
const LOSS_FUNCTIONS: [&str; 7] = [
    "cross_entropy",
    "cross_entropy_loss",
    "fixed_cross_entropy",
    "log_softmax",
    "nll_loss",
    "ForCausalLMLoss",
    "ForMaskedLMLoss",
];
/// The least rows of a vocabulary matrix, which also has at least twice as many rows as columns.
const LEAST_VOCABULARY: u64 = 8000;
/// The number of chunks of a chunked loss.
pub(crate) const CHUNKS: u64 = 8;
/// The percentage by which sizes may differ: labels are shifted by one token.
const TOLERANCE_PERCENT: u64 = 3;
/// Loss tensors below this part of the peak get no advice.
const LEAST_PART: u64 = 50;

/// The tensors of a loss over a vocabulary.
#[derive(Debug, Clone)]
pub(crate) struct Logits {
    /// All of them, in all steps.
    pub(crate) allocations: Vec<AllocationId>,
}

impl Logits {
    /// Finds them, if they are large relative to the peak.
    pub(crate) fn find(
        trace: &Trace,
        context: &Context,
        device: Device,
        blocks: Option<&RepeatedBlocks>,
        peak: Bytes,
    ) -> Option<Self> {
        let mut stacks = LossStacks { trace, known: HashMap::new() };
        let ids = || {
            let all = (0_u32..).map(AllocationId).zip(&trace.allocations);
            all.filter(|(_, allocation)| allocation.device == device)
        };
        let head = blocks.map(|blocks| Head { trace, blocks, vocabularies: vocabularies(trace) });
        let is_output = |id, allocation| {
            let is_forward = context.work(id) == Phase::Forward;
            is_forward && head.as_ref().is_some_and(|head| head.is_output(id, allocation))
        };
        let largest = ids()
            .filter(|&(id, allocation)| {
                stacks.is_loss(allocation.stack) || is_output(id, allocation)
            })
            .map(|(_, allocation)| allocation.requested)
            .max()?;
        if largest.0 < peak.0 / LEAST_PART {
            return None;
        }
        let is_member = |id: AllocationId, requested: Bytes| {
            is_size_of(requested.0, largest.0)
                && matches!(context.work(id), Phase::Forward | Phase::Backward)
                && blocks.is_none_or(|blocks| blocks.block_of(id).is_none())
                && matches!(
                    category(trace, context, id),
                    Category::Activation | Category::Temporary | Category::Unknown
                )
        };
        let allocations = ids()
            .filter(|&(id, allocation)| is_member(id, allocation.requested))
            .map(|(id, _)| id)
            .collect();
        Some(Self { allocations })
    }

    /// The requests with a chunked loss.
    pub(crate) fn chunked(&self, trace: &Trace) -> Edits {
        let part = |id: &AllocationId| {
            let bytes = trace.allocations[id.index()].requested.0 / CHUNKS;
            (id.0, Edit::Resize { bytes: bytes.max(1) })
        };
        self.allocations.iter().map(part).collect()
    }
}

/// The row counts of parameters as large as a vocabulary.
fn vocabularies(trace: &Trace) -> BTreeSet<u64> {
    let parameters = trace.labels().filter(|label| label.category == Category::Parameter);
    let rows = parameters.filter_map(|label| {
        let (rows, columns) = label.shape.trim_matches(['(', ')']).split_once(',')?;
        Some((rows.trim().parse::<u64>().ok()?, columns.trim().parse::<u64>().ok()?))
    });
    rows.filter(|&(rows, columns)| rows >= LEAST_VOCABULARY && rows / 2 >= columns)
        .map(|(rows, _)| rows)
        .collect()
}

/// The last layer of a language model.
struct Head<'a> {
    trace: &'a Trace,
    blocks: &'a RepeatedBlocks,
    vocabularies: BTreeSet<u64>,
}

impl Head<'_> {
    /// Whether an allocation has the size of logits, in 16 or 32 bits, and was made by a linear layer outside the blocks.
    fn is_output(&self, id: AllocationId, allocation: &Allocation) -> bool {
        let is_multiple = |rows: &u64| allocation.requested.0.is_multiple_of(rows * 2);
        self.vocabularies.iter().any(is_multiple)
            && self.trace.module_class(allocation.stack) == Some("Linear")
            && self.blocks.block_of(id).is_none()
    }
}

/// Whether a tensor has the size of the logits, in the same, half or double precision.
fn is_size_of(bytes: u64, logits: u64) -> bool {
    [logits / 2, logits, logits.saturating_mul(2)]
        .into_iter()
        .any(|size| bytes.abs_diff(size) <= size / 100 * TOLERANCE_PERCENT)
}

/// Whether a stack has the function of a loss; cached for each function.
struct LossStacks<'a> {
    trace: &'a Trace,
    known: HashMap<StackId, bool>,
}

impl LossStacks<'_> {
    fn is_loss(&mut self, stack: StackId) -> bool {
        let trace = self.trace;
        *self.known.entry(stack).or_insert_with(|| {
            trace.frames(stack).any(|(_, frame)| {
                let name = trace.code(frame.code).and_then(|code| code.name.rsplit('.').next());
                name.is_some_and(|name| LOSS_FUNCTIONS.contains(&name))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_double_precision_and_a_shift_are_the_same_tensor() {
        let logits = 1 << 30;
        for bytes in [logits, logits / 2, logits * 2, logits / 512 * 511] {
            assert!(is_size_of(bytes, logits), "{bytes}");
        }
        for bytes in [logits / 4, logits / 3, logits * 3] {
            assert!(!is_size_of(bytes, logits), "{bytes}");
        }
    }
}
