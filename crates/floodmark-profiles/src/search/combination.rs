//! Which changes go together.

use crate::search::change::{Change, EmbeddingGradients, LossChunks};

/// Whether two changes have the same subject.
pub(crate) fn excludes(one: &Change, other: &Change) -> bool {
    if let (Change::Argument { name, .. }, Change::Argument { name: other, .. }) = (one, other) {
        return name == other;
    }
    subjects(one).iter().any(|subject| subjects(other).contains(subject))
}

/// The subject of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Allocator,
    /// How the optimizer updates parameters.
    Update,
    /// When it does, and where its states are then.
    UpdateTime,
    Gradients,
    Graph,
    Loss,
    /// Whether logits are whole: those of a part must be there to be joined.
    Logits,
    Attention,
    KvCache,
    MemoryFormat,
    Embeddings,
    Recomputation,
    Mlp,
    /// How long activations are live, and where: all of a batch, a part of it at a time, or on the host.
    Activations,
    Precision,
    Gpus,
    Compiler,
    /// What is trained, and by which rule.
    Training,
}

fn subjects(change: &Change) -> &'static [Subject] {
    match change {
        Change::Allocator(_) => &[Subject::Allocator],
        Change::Fused | Change::ForeachOff => &[Subject::Update],
        Change::OptimizerInBackward(_) | Change::OffloadOptimizerStates => &[Subject::UpdateTime],
        Change::EightBitStates(_) => &[Subject::Update, Subject::UpdateTime],
        Change::NoGrad => &[Subject::Graph],
        Change::KvCache(_) => &[Subject::KvCache],
        Change::ChannelsLast => &[Subject::MemoryFormat],
        Change::Embeddings(EmbeddingGradients::Sparse) => &[Subject::Embeddings],
        Change::Embeddings(EmbeddingGradients::Frozen) => &[Subject::Embeddings, Subject::Training],
        Change::ChunkedMlp(_) => &[Subject::Mlp],
        // Another optimizer has another way to update, and other states.
        Change::Optimizer(_) => &[Subject::Training, Subject::Update, Subject::UpdateTime],
        Change::Adapters(_) => &[Subject::Training, Subject::Embeddings],
        Change::FreeGradients => &[Subject::Gradients],
        Change::ChunkedLoss(LossChunks::Head | LossChunks::Cce) => {
            &[Subject::Loss, Subject::Logits]
        }
        Change::ChunkedLoss(LossChunks::Rows(_) | LossChunks::Liger) | Change::LogitsToKeep(_) => {
            &[Subject::Loss]
        }
        Change::SdpaAttention => &[Subject::Attention],
        Change::Checkpoint(_) => &[Subject::Recomputation],
        Change::OffloadActivations(_) => &[Subject::Activations],
        Change::MicroBatches(_) => &[Subject::Activations, Subject::Logits],
        Change::Autocast(_) | Change::Bf16Parameters => &[Subject::Precision],
        // Sharded parameters are updated together, and neither their states nor activations are copied.
        Change::Fsdp(_) => &[Subject::Gpus, Subject::UpdateTime, Subject::Activations],
        Change::Compile => &[Subject::Compiler],
        // Only another value of the same argument.
        Change::Argument { .. } => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_about_the_same_thing_exclude_each_other() {
        let excluded = |one: &str, other: &str| {
            excludes(&one.parse::<Change>().unwrap(), &other.parse::<Change>().unwrap())
        };
        assert!(excluded("offload-activations", "offload-activations=async"));
        assert!(excluded("chunked-loss=head", "chunked-loss=8"));
        assert!(excluded("optimizer-states=8bit", "fused"));
        assert!(excluded("optimizer-states=8bit", "offload-optimizer-states"));
        assert!(excluded("optimizer-in-backward", "offload-optimizer-states"));
        assert!(excluded("fsdp=2", "fsdp=4"));
        assert!(excluded("fsdp=2", "offload-activations"));
        assert!(excluded("fsdp=2", "optimizer-in-backward"));
        assert!(excluded("micro-batches=2", "micro-batches=4"));
        assert!(excluded("micro-batches=2", "chunked-loss=head"));
        assert!(!excluded("micro-batches=2", "chunked-loss=8"));
        assert!(excluded("optimizer=adafactor", "adapters=lora"));
        assert!(excluded("optimizer=adafactor", "fused"));
        assert!(!excluded("adapters=lora", "fused"));
        assert!(!excluded("chunked-mlp=4", "checkpoint=all"));
        assert!(!excluded("fused", "offload-optimizer-states"));
        assert!(!excluded("fsdp=2", "checkpoint=all"));
    }
}
