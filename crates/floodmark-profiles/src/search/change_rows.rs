//! What each change probably does: how much it leaves of each part of memory, and what it costs.
//!
//! The figures are those of usual programs, and only say what is worth a run. A new change needs one row.

use floodmark_trace::PeakPart as Part;

use crate::search::change::{
    AdapterKind, Adapters, Change, Checkpointed, EmbeddingGradients, HostCopies, KvCache,
    LeanOptimizer, LossChunks, Paging, StatesIn,
};
use crate::search::plan_need::Cost;

/// What is left of some parts.
type Leaves = &'static [(Part, f64)];

/// What a change probably does.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// What it leaves of each part; all of the others.
    pub(crate) leaves: Leaves,
    /// The blocks that it computes again.
    pub(crate) recomputes: Option<Checkpointed>,
    /// What it leaves of the memory that the allocator wastes.
    pub(crate) wastes: f64,
    /// How long a step takes, as a multiple of an unchanged one, without copies.
    pub(crate) time: f64,
    /// What it copies to the host and back in each step.
    pub(crate) copies: &'static [Part],
    /// What it costs beside time.
    pub(crate) cost: Cost,
}

pub(crate) const ACTIVATIONS: &[Part] =
    &[Part::InnerActivations, Part::BlockOutputs, Part::Activations];

/// A row of this cost.
const fn row_of(cost: Cost, leaves: Leaves, time: f64) -> Row {
    Row { leaves, recomputes: None, wastes: 1.0, time, copies: &[], cost }
}

/// A change without a cost.
const fn free(leaves: Leaves, time: f64) -> Row {
    row_of(Cost::Nothing, leaves, time)
}

/// A change that costs time.
const fn slow(leaves: Leaves, time: f64) -> Row {
    row_of(Cost::Time, leaves, time)
}

/// A change that copies these parts to the host and back.
const fn copying(copies: &'static [Part], leaves: Leaves, time: f64) -> Row {
    Row { copies, ..slow(leaves, time) }
}

/// What a change probably costs.
pub(crate) fn usual_cost(change: &Change) -> Cost {
    row(change, 0).cost
}

/// The row of a change. `position` is that of an argument's value among its values.
pub(crate) fn row(change: &Change, position: u32) -> Row {
    match change {
        Change::Allocator(_) => Row { wastes: 0.2, ..free(&[], 1.0) },
        Change::Fused => free(&[(Part::OptimizerTemporaries, 0.0)], 0.98),
        Change::FreeGradients => free(&[(Part::StaleGradients, 0.0)], 1.0),
        Change::NoGrad => free(&WITHOUT_A_GRAPH, 0.98),
        Change::LogitsToKeep(_) => free(&[(Part::Logits, 0.05)], 0.98),
        Change::KvCache(cache) => of_cache(*cache),
        Change::ChannelsLast => free(&[(Part::Rest, 0.9)], 1.0),
        Change::ChunkedLoss(LossChunks::Head | LossChunks::Liger | LossChunks::Cce) => {
            free(&[(Part::Logits, 0.15)], 1.02)
        }
        Change::ChunkedLoss(LossChunks::Rows(_)) => free(&[(Part::Logits, 0.75)], 1.02),
        Change::SdpaAttention => free(&[(Part::InnerActivations, 0.7)], 1.0),
        Change::Compile => free(&[(Part::InnerActivations, 0.8)], 0.9),
        Change::Embeddings(gradients) => of_embeddings(*gradients),
        Change::ForeachOff => slow(&[(Part::OptimizerTemporaries, 0.1)], 1.1),
        Change::Checkpoint(all) => Row { recomputes: Some(*all), ..slow(&[], 1.0) },
        // MLPs have about half of what a block keeps; they are computed once more.
        Change::ChunkedMlp(_) => slow(&[(Part::InnerActivations, 0.5)], 1.15),
        // Each part of a batch is computed once more in the backward pass.
        Change::MicroBatches(parts) => slow(joined_of(*parts), 1.33),
        Change::OptimizerInBackward(StatesIn::Gpu) => slow(&UPDATED_AT_ONCE, 1.1),
        Change::OptimizerInBackward(StatesIn::Host) => {
            copying(&[Part::OptimizerStates], &UPDATED_FROM_THE_HOST, 1.2)
        }
        Change::OffloadOptimizerStates => {
            let leaves = &[(Part::OptimizerTemporaries, 0.1), (Part::OptimizerStates, 0.05)];
            copying(&[Part::OptimizerStates], leaves, 1.2)
        }
        Change::OffloadActivations(HostCopies::InOrder) => copying(ACTIVATIONS, &OFFLOADED, 1.1),
        Change::OffloadActivations(HostCopies::Async) => copying(ACTIVATIONS, &OFFLOADED, 1.05),
        Change::Fsdp(_) => row_of(Cost::Gpus, &[], 1.2),
        Change::Autocast(_) => row_of(Cost::Results, &AUTOCAST, 0.7),
        Change::Bf16Parameters => row_of(Cost::Results, &HALVED, 0.7),
        Change::EightBitStates(Paging::Off) => {
            row_of(Cost::Results, &[(Part::OptimizerStates, 0.3)], 1.0)
        }
        // What is moved to the host depends on what else needs the GPU.
        Change::EightBitStates(Paging::On) => {
            row_of(Cost::Results, &[(Part::OptimizerStates, 0.05)], 1.2)
        }
        Change::Optimizer(LeanOptimizer::Adafactor) => {
            let leaves = &[(Part::OptimizerStates, 0.02), (Part::OptimizerTemporaries, 0.5)];
            row_of(Cost::Training, leaves, 1.05)
        }
        Change::Optimizer(LeanOptimizer::Muon) => {
            row_of(Cost::Training, &[(Part::OptimizerStates, 0.6)], 1.1)
        }
        Change::Adapters(adapters) => of_adapters(*adapters),
        // Only the program knows what it does; mostly it splits the batch.
        Change::Argument { .. } => {
            slow(split_in(2 << position.min(2)), 1.0 + 0.1 * f64::from(position + 1))
        }
    }
}

fn of_cache(cache: KvCache) -> Row {
    match cache {
        // Where it grows by concatenation, the old and the new one are live together.
        KvCache::Static => free(&[(Part::KvCache, 0.7)], 1.0),
        KvCache::Offloaded => copying(&[Part::KvCache], &[(Part::KvCache, 0.1)], 1.2),
        KvCache::Quantized => row_of(Cost::Results, &[(Part::KvCache, 0.3)], 1.2),
    }
}

fn of_embeddings(gradients: EmbeddingGradients) -> Row {
    match gradients {
        EmbeddingGradients::Sparse => {
            free(&[(Part::Gradients, 0.9), (Part::StaleGradients, 0.9)], 1.0)
        }
        EmbeddingGradients::Frozen => row_of(Cost::Training, &WITH_FROZEN_EMBEDDINGS, 1.0),
    }
}

fn of_adapters(adapters: Adapters) -> Row {
    match adapters.kind {
        AdapterKind::Lora => row_of(Cost::Training, &ADAPTED, 1.0),
        AdapterKind::Dora => row_of(Cost::Training, &ADAPTED, 1.2),
        AdapterKind::Qlora => row_of(Cost::Training, &ADAPTED_IN_4_BITS, 1.2),
    }
}

/// What parts of a batch leave, of which one is computed at a time.
fn split_in(parts: u32) -> Leaves {
    match parts {
        0..=2 => &SPLIT_IN_2,
        3 | 4 => &SPLIT_IN_4,
        _ => &SPLIT_IN_8,
    }
}

/// What parts of a batch leave whose results are joined: the logits are whole, but not what the loss makes of them.
fn joined_of(parts: u32) -> Leaves {
    match parts {
        0..=2 => &JOINED_OF_2,
        3 | 4 => &JOINED_OF_4,
        _ => &JOINED_OF_8,
    }
}

const fn split(left: f64, logits: f64) -> [(Part, f64); 4] {
    [
        (Part::InnerActivations, left),
        (Part::BlockOutputs, left),
        (Part::Activations, left),
        (Part::Logits, logits),
    ]
}
const SPLIT_IN_2: [(Part, f64); 4] = split(0.5, 0.5);
const SPLIT_IN_4: [(Part, f64); 4] = split(0.25, 0.25);
const SPLIT_IN_8: [(Part, f64); 4] = split(0.125, 0.125);
const JOINED_OF_2: [(Part, f64); 4] = split(0.5, 0.67);
const JOINED_OF_4: [(Part, f64); 4] = split(0.25, 0.67);
const JOINED_OF_8: [(Part, f64); 4] = split(0.125, 0.67);

const WITHOUT_A_GRAPH: [(Part, f64); 3] =
    [(Part::InnerActivations, 0.1), (Part::BlockOutputs, 0.1), (Part::Activations, 0.1)];

const OFFLOADED: [(Part, f64); 3] =
    [(Part::InnerActivations, 0.1), (Part::BlockOutputs, 0.1), (Part::Activations, 0.2)];

const UPDATED_AT_ONCE: [(Part, f64); 3] =
    [(Part::Gradients, 0.15), (Part::StaleGradients, 0.0), (Part::OptimizerTemporaries, 0.1)];

const UPDATED_FROM_THE_HOST: [(Part, f64); 4] = [
    (Part::Gradients, 0.15),
    (Part::StaleGradients, 0.0),
    (Part::OptimizerTemporaries, 0.1),
    (Part::OptimizerStates, 0.1),
];

const AUTOCAST: [(Part, f64); 4] = [
    (Part::InnerActivations, 0.6),
    (Part::BlockOutputs, 0.8),
    (Part::Activations, 0.8),
    (Part::Logits, 0.8),
];

const HALVED: [(Part, f64); 9] = [
    (Part::InnerActivations, 0.5),
    (Part::BlockOutputs, 0.5),
    (Part::Activations, 0.5),
    (Part::Logits, 0.6),
    (Part::Gradients, 0.5),
    (Part::StaleGradients, 0.5),
    (Part::OptimizerStates, 0.5),
    (Part::OptimizerTemporaries, 0.5),
    (Part::Parameters, 0.5),
];

/// What is left of all that trained parameters need beside themselves.
const fn trained(left: f64) -> [(Part, f64); 4] {
    [
        (Part::Gradients, left),
        (Part::StaleGradients, left),
        (Part::OptimizerStates, left),
        (Part::OptimizerTemporaries, left),
    ]
}
const WITH_FROZEN_EMBEDDINGS: [(Part, f64); 4] = trained(0.9);
const ADAPTED: [(Part, f64); 4] = trained(0.03);

const ADAPTED_IN_4_BITS: [(Part, f64); 5] = {
    let [gradients, stale, states, temporaries] = ADAPTED;
    [gradients, stale, states, temporaries, (Part::Parameters, 0.35)]
};
