//! Memory at a moment: replay what happened, simulate what would have.
//!
//! `PyTorch`'s caching allocator, from its rules: which requests share a pool, how they are rounded,
//! which free block is taken, when it is cut, when memory is allocated from the driver and freed. The
//! version of `PyTorch` is a parameter where versions differ.
//!
//! - [`Program`]: what a program requested, which does not depend on the allocator's settings.
//! - [`simulate()`]: the same requests under any [`AllocatorConfig`] and [`Limit`].
//! - [`Online`]: the same, one request at a time.
//! - [`replay()`]: what the recorded events did, block by block; [`complete()`] takes the sizes of blocks
//!   from it where a recording has only requested bytes.
//! - [`ReplayIndex`]: the same for any moment, without following all that was before it.
//! - [`Statistics`]: the figures of `torch.cuda.memory_stats()`, from either.
//!
//! Reports and files are not part of this crate.

mod config;
mod driver;
mod edit;
mod free_set;
mod heap;
mod layout;
mod program;
pub mod replay;
mod replay_index;
pub mod simulate;
pub mod sizes;
mod stats;
mod version;

pub use config::{AllocatorConfig, ConfigError};
pub use edit::{Edit, Edits};
pub use heap::BlockState;
pub use layout::{BlockView, Layout, SegmentView};
pub use program::{Limit, Program, Request, stream_handle};
pub use replay::{Now, Replay, complete, replay};
pub use replay_index::ReplayIndex;
pub use simulate::{Failure, Observer, Online, Placed, Run, Settings, simulate};
pub use stats::{PoolStat, Stat, Statistics};
pub use version::TorchVersion;
