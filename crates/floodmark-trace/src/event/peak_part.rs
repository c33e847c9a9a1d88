//! The parts of a peak that changes of a program reduce.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of memory that changes of a program reduce.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PeakPart {
    /// Logits, and the loss's other tensors.
    Logits,
    /// Activations of repeated blocks that checkpointing would compute again.
    InnerActivations,
    /// Activations of repeated blocks that checkpointing keeps: their outputs.
    BlockOutputs,
    /// Other activations.
    Activations,
    /// Gradients that are not used yet.
    Gradients,
    /// Gradients that the optimizer has used.
    StaleGradients,
    /// States of optimizers.
    OptimizerStates,
    /// Temporaries of an optimizer's `step`.
    OptimizerTemporaries,
    /// Parameters.
    Parameters,
    /// Keys and values of earlier tokens.
    KvCache,
    /// Everything else.
    Rest,
}

impl PeakPart {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Logits,
        Self::InnerActivations,
        Self::BlockOutputs,
        Self::Activations,
        Self::Gradients,
        Self::StaleGradients,
        Self::OptimizerStates,
        Self::OptimizerTemporaries,
        Self::Parameters,
        Self::KvCache,
        Self::Rest,
    ];
}
