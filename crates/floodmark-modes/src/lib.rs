//! Native modes for torch's functions and operators.
//!
//! torch calls a mode before every call. Ours are native, so that no Python frame of ours is on the stack
//! and the cost is small; `python/floodmark` or `floodmark-fake` decides what to do with a call.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`block_source`]: which allocator reports the blocks of a recording; [`kernel_rules`]: rules of `floodmark-fake` for plugins;
//!    [`own_work`]: our own calls of torch, which the program does not see; [`values`]: arguments and results of an operator.
//! 2. [`functions`]: a mode for torch's Python functions, for a program on a phantom GPU; [`operators`]: a mode for torch's
//!    operators, for a program of fake tensors.
//! 3. [`kernels`]: single operators below autograd, for a program on a phantom GPU.
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
