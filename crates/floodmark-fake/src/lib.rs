//! What a program of fake tensors would hold: its storages, on an allocator that is simulated.
//!
//! Fake tensors have shapes and no data, and need no GPU. Whoever stands at torch's operators tells of the
//! storages that come and go; here each gets a block of a simulated caching allocator, and the recorder is
//! told of it as torch would have told it. What the trace then says of lines, modules and phases is the
//! recorder's, as always.
//!
//! - [`Memory`]: which storages live, and their blocks.
//! - [`Call`]: an operator's call, as far as it matters for memory.
//! - [`hidden`]: what kernels take for themselves, which no tensor shows.
//!
//! The crate knows no Python object and no file.

mod call;
pub mod hidden;
mod memory;

pub use call::{Call, DType, Machine, TensorInfo, Value};
pub use memory::{CallFacts, Held, Level, Memory, OutOfMemory};
