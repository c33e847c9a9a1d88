//! The allocations of a program of fake tensors: its storages, on a simulated allocator.
//!
//! Fake tensors have shapes and no data, and need no GPU. The caller watches torch's operators
//! and reports new and freed storages; here each gets a block of a simulated caching allocator, and the
//! recorder gets the same events as from torch. Lines, modules and phases come from the recorder, as always.
//!
//! Python objects and files are not part of this crate.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`call`]: an operator's call, with the facts that determine memory.
//! 2. [`attention_kernel`]: the attention kernel that torch chooses on a GPU; [`hidden`]: what kernels allocate for themselves,
//!    which no tensor shows; [`libraries`]: what CUDA's libraries hold outside torch.
//! 3. [`memory`]: which storages are live, and their blocks; [`transformer_engine`]: what the kernels of Transformer Engine
//!    allocate.

mod attention_kernel;
mod call;
pub mod hidden;
mod libraries;
mod memory;
pub mod transformer_engine;

pub use attention_kernel::{AttentionCall, AttentionKernel};
pub use call::{Call, DType, Machine, TensorInfo, Value};
pub use memory::{CallFacts, CallMemory, Level, Memory, OutOfMemory, takes_memory};
