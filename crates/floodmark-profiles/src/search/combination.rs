//! Which changes go together.

use crate::search::change::Change;

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
    Loss,
    Attention,
    Recomputation,
    Activations,
    Precision,
    Gpus,
    Compiler,
}

fn subjects(change: &Change) -> &'static [Subject] {
    match change {
        Change::Allocator(_) => &[Subject::Allocator],
        Change::Fused | Change::ForeachOff => &[Subject::Update],
        Change::OptimizerInBackward(_) | Change::OffloadOptimizerStates => &[Subject::UpdateTime],
        Change::EightBitStates => &[Subject::Update, Subject::UpdateTime],
        Change::FreeGradients => &[Subject::Gradients],
        Change::ChunkedLoss(_) => &[Subject::Loss],
        Change::SdpaAttention => &[Subject::Attention],
        Change::Checkpoint(_) => &[Subject::Recomputation],
        Change::OffloadActivations(_) => &[Subject::Activations],
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
        assert!(!excluded("fused", "offload-optimizer-states"));
        assert!(!excluded("fsdp=2", "checkpoint=all"));
    }
}
