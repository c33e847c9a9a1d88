//! Where torch asks before it calls: native modes for its functions and its operators.
//!
//! torch lets a mode stand before every call. Ours are native, so that no Python frame of ours lies on the
//! stack and a call loses little; what is decided about a call is decided by `python/floodmark` or
//! by `floodmark-fake`.
//!
//! - [`Functions`]: torch's Python functions, for a program on a phantom GPU.
//! - [`Kernel`]: single operators below autograd, for the same program.
//! - [`OwnWork`]: what these call to compute values, which nothing of the program sees.
//! - [`Operators`]: torch's operators, for a program of fake tensors.
//! - [`BlockSource`]: what reports the blocks of a recording.
//! - `kernel_rules.rs`: rules of `floodmark-fake` that plugins ask.
#![forbid(unsafe_code)]

mod block_source;
mod functions;
mod kernel_rules;
mod kernels;
mod operators;
mod own_work;
mod values;

pub use block_source::{BlockSource, lend_cuda};
pub use functions::{FunctionKind, Functions};
pub use kernel_rules::{
    AttentionKernel, TeFusedAttention, TeLayout, TeNorm, TeQuantizer, cudnn_dropout_state_bytes,
    te_dropout_mask_bytes, te_float8_buffers, te_transposed,
};
pub use kernels::{Kernel, KernelKind};
pub use operators::{OperatorKind, Operators};
pub use own_work::OwnWork;
