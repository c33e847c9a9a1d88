//! Where torch asks before it calls: native modes for its functions and its operators.
//!
//! torch lets a mode stand before every call. Ours are native, so that no Python frame of ours lies on the
//! stack and a call loses little; what is decided about a call is decided by `python/floodmark` or
//! by `floodmark-fake`.
//!
//! - [`Functions`]: torch's Python functions, for a program on a phantom GPU.
//! - [`Kernel`]: single operators below autograd, for the same program.
//! - [`Operators`]: torch's operators, for a program of fake tensors.
#![forbid(unsafe_code)]

mod functions;
mod kernels;
mod operators;
mod values;

pub use functions::Functions;
pub use kernels::Kernel;
pub use operators::Operators;
