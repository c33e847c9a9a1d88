//! Logits, and what a loss over a vocabulary allocates beside them.
//!
//! The functions of cross entropy are on the stack of what they allocate. The largest of these tensors has the size
//! of the logits in the precision of the loss; tensors of that size, of its half or double, before and after it and
//! in its backward pass are copies, casts and gradients of it.

use floodmark_allocator::{Edit, Edits};
use floodmark_trace::{AllocationId, Bytes, Category, Device, StackId, Trace};
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
/// In this many parts a loss is computed when it is chunked.
pub(crate) const CHUNKS: u64 = 8;
/// Sizes may differ by so many percent: labels are shifted by one token.
const TOLERANCE_PERCENT: u64 = 3;
/// Loss tensors below this part of the peak are not worth a change.
const LEAST_PART: u64 = 50;

/// The tensors of a loss over a vocabulary.
#[derive(Debug, Clone)]
pub(crate) struct Logits {
    /// The size of the largest one.
    pub(crate) largest: Bytes,
    /// All of them, in all steps.
    pub(crate) allocations: Vec<AllocationId>,
}

impl Logits {
    /// Finds them, where they are large beside the peak.
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
        let largest = ids()
            .filter(|(_, allocation)| stacks.is_loss(allocation.stack))
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
        Some(Self { largest, allocations })
    }

    /// What computing the loss in parts does to the requests.
    pub(crate) fn chunked(&self, trace: &Trace) -> Edits {
        let part = |id: &AllocationId| {
            let bytes = trace.allocations[id.index()].requested.0 / CHUNKS;
            (id.0, Edit::Resize { bytes: bytes.max(1) })
        };
        self.allocations.iter().map(part).collect()
    }
}

/// Whether a tensor has the size of the logits, in the same, half or double precision.
fn is_size_of(bytes: u64, logits: u64) -> bool {
    [logits / 2, logits, logits.saturating_mul(2)]
        .into_iter()
        .any(|size| bytes.abs_diff(size) <= size / 100 * TOLERANCE_PERCENT)
}

/// Whether a stack has the function of a loss, each asked once.
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
