//! The caching allocator: replays recorded events, simulates other settings.
//!
//! `PyTorch`'s rules decide which requests share a pool, how requests are rounded, which free block is used, when it is
//! split, and when memory is allocated from the driver and freed. Where versions of `PyTorch` differ, the version is a
//! parameter.
//!
//! - [`Program`]: what a program requested, which does not depend on the allocator's settings.
//! - [`simulate()`]: the same requests under any [`AllocatorConfig`] and [`Limit`]; [`Online`]: one request at a time.
//! - [`replay()`]: what the recorded events did, block by block; [`complete()`] computes the sizes of blocks where a
//!   recording has only requested bytes; [`ReplayIndex`] finds the memory at any time without a replay from the start.
//! - [`Statistics`]: the figures of `torch.cuda.memory_stats()`, from a simulation or a replay.
//!
//! The crate knows no reports and opens no path.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. `version`: a version of `PyTorch`; `stats`: the figures of `memory_stats()`; `program`: the requests of a trace.
//! 2. `config`: `PYTORCH_CUDA_ALLOC_CONF`; `heap`: blocks, split and merged; `edit`: the requests after a change.
//! 3. [`sizes`]: how requests are rounded, and the size of their segments; `layout`: the blocks of a device at a time.
//! 4. `replay`: what happened; `simulate`: what would have happened.

mod config;
mod edit;
mod heap;
mod layout;
mod program;
pub mod replay;
pub mod simulate;
pub mod sizes;
mod stats;
mod version;

pub use config::{AllocatorConfig, ConfigError};
pub use edit::{Edit, Edits};
pub use heap::BlockState;
pub use layout::{BlockView, Layout, SegmentView};
pub use program::{Limit, Program, Request, stream_handle};
pub use replay::{Now, Replay, ReplayIndex, complete, replay};
pub use simulate::{Failure, Observer, Online, Placed, Run, Settings, simulate};
pub use stats::{PoolStat, Stat, Statistics};
pub use version::TorchVersion;
