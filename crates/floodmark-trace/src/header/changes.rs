//! Changes that were applied to a running program, and the computation of a step.
//!
//! Both are written by the Python side into the header: an answer about a changed program must say so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change that was requested with `--with`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AppliedChange {
    /// The argument of `--with`: `checkpoint=12`.
    pub change: String,
    /// What it was applied to: `12 of 24 × GPT2Block (transformer.h)`; empty when it was not applied.
    pub target: String,
    /// Why it was not applied; empty when it was.
    pub reason: String,
    /// Whether the program may become slower by it.
    pub slows: bool,
    /// Its effect on the results.
    pub numerics: Numerics,
    /// Plain torch code with the same effect; empty when it was not applied.
    pub patch: String,
    /// How many repeated blocks the model has, where the change counts them.
    pub blocks: Option<u32>,
    /// The bytes that it copied to the host, of all steps.
    pub host_bytes: u64,
}

impl AppliedChange {
    /// Whether it was applied.
    pub fn is_applied(&self) -> bool {
        !self.target.is_empty()
    }
}

/// The effect of a change on the results of a program.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Numerics {
    /// Nothing: every value stays the same.
    #[default]
    Same,
    /// Another order of sums: values differ in their last digits.
    Rounding,
    /// Another precision.
    Changed,
    /// Another training: other parameters are trained, or by another rule.
    Training,
}

/// The counted computation of a program's last step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepCost {
    /// How many backward passes the program made, in all steps.
    pub backward_passes: u64,
    /// Operators of the same kind, summed.
    pub operators: Vec<OperatorCost>,
    /// The processor time that the host takes for a step, in nanoseconds; null where it was not measured.
    pub host_nanos: Option<u64>,
}

/// Operators of one kind, data type and ratio of operations to bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OperatorCost {
    /// Their kind.
    pub kind: OperatorKind,
    /// The data type of their first tensor: `bfloat16`; `tf32` where torch computes products of `float32` in it.
    pub dtype: String,
    /// How many there are.
    pub count: u64,
    /// Their floating-point operations.
    pub flops: u64,
    /// The bytes that they read and write.
    pub bytes: u64,
}

/// The kind of an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperatorKind {
    /// It multiplies matrices.
    Matmul,
    /// It multiplies matrices of 16 bits whose rows do not begin at a multiple of 16 bytes: kernels cannot load whole
    /// vectors.
    UnevenMatmul,
    /// It computes attention in one kernel.
    Attention,
    /// It is a convolution.
    Convolution,
    /// It is a convolution of groups of channels, such as a depthwise one.
    GroupedConvolution,
    /// It copies between host and device.
    HostCopy,
    /// It copies between host and device on a stream of its own, beside the kernels.
    AsyncHostCopy,
    /// It computes each element alone, or copies it.
    Elementwise,
    /// It is a normalization, which passes over its input several times.
    Normalization,
    /// It is bound by memory in another way: a reduction, an index, a copy to another layout.
    #[default]
    Memory,
}
