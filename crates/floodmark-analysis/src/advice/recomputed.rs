//! Activation checkpointing, as a change to the requests of a program.
//!
//! A checkpointed block frees what autograd would have saved when its forward ends, and allocates it again when the
//! backward pass reaches it. Its output stays: the next block needs it as its input.

use std::collections::BTreeMap;

use floodmark_allocator::{Edit, Edits};
use floodmark_trace::{AllocationId, Category, EventNumber, Trace};

use crate::advice::repeated_blocks::RepeatedBlocks;
use crate::allocation::category::category;
use crate::allocation::context::{Context, Phase};

/// A tensor below this part of the largest one of its block is not its output but a statistic beside it.
const SMALL_PART: u64 = 20;

/// One run of a block: forward pass, and number of the block.
type Run = (Option<u32>, u32);

/// The allocations of a run of a block.
#[derive(Debug, Default)]
struct BlockRun {
    /// The last event of its forward.
    end: u32,
    activations: Vec<AllocationId>,
}

/// The requests with every block checkpointed.
pub(crate) fn checkpointing(trace: &Trace, context: &Context, blocks: &RepeatedBlocks) -> Edits {
    let mut runs: BTreeMap<Run, BlockRun> = BTreeMap::new();
    for (id, allocation) in (0_u32..).map(AllocationId).zip(&trace.allocations) {
        let Some(block) = blocks.block_of(id) else { continue };
        if context.work(id) != Phase::Forward {
            continue;
        }
        let pass = context.next_backward(allocation.made_at);
        let run = runs.entry((pass, block)).or_default();
        run.end = run.end.max(allocation.made_at);
        if category(trace, context, id) == Category::Activation {
            run.activations.push(id);
        }
    }
    let mut edits = Edits::new();
    for run in runs.values() {
        let output = output(trace, &run.activations);
        let inner = || run.activations.iter().filter(|&&id| Some(id) != output);
        let freed =
            |id: &AllocationId| trace.allocations[id.index()].freed_at.map(EventNumber::get);
        let again_before = inner().filter_map(freed).min();
        if again_before.is_some_and(|again| again <= run.end) {
            continue;
        }
        edits.extend(inner().map(|id| (id.0, Edit::Gap { freed_after: run.end, again_before })));
    }
    edits
}

/// The last tensor of a block that is not small relative to its largest.
fn output(trace: &Trace, activations: &[AllocationId]) -> Option<AllocationId> {
    let bytes = |id: &AllocationId| trace.allocations[id.index()].rounded.0;
    let largest = activations.iter().map(bytes).max()?;
    activations.iter().copied().rfind(|id| bytes(id) >= largest / SMALL_PART)
}
