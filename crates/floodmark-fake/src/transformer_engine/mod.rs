//! The allocations of Transformer Engine's compiled kernels.
//!
//! Its layers are Python, and run as they are. Its kernels cannot run on tensors without data: the plugin
//! makes their results, with the shapes, buffers and workspaces that are computed here. The figures come from the
//! compiled package, version 2.20, on an H200 (`fixtures/transformer_engine`, `bench/results/transformer-engine.md`).
//!
//! - [`Quantizer`]: which kernels cast by themselves, and the buffers of a tensor in FP8.
//! - [`Norm`]: the workspace of a norm's backward pass.
//! - [`Layout`], [`FusedAttention`]: fused attention.

mod attention;
mod norms;
mod quantizers;

pub use attention::{Buffer, Format, FusedAttention, Layout, Packing, UnknownLayout};
pub use norms::Norm;
pub use quantizers::{Float8Buffers, Quantizer, transposed};

/// The bytes of a dropout mask: one bit for each element.
pub fn dropout_mask_bytes(elements: u64) -> u64 {
    elements / 8
}
