//! The recorder as hooks see it: the state that they share, and the state of each thread.
//!
//! From the bottom up: [`options`], `wanted`, `name_table`, [`freed_blocks`]; [`recording`], which all hooks share;
//! [`window_change`]; `thread_journal`; `local`, the state of a thread; [`thread`], which gives each thread its state;
//! [`names`].

pub(crate) mod freed_blocks;
mod local;
mod name_table;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod recording;
pub(crate) mod thread;
mod thread_journal;
mod wanted;
pub(crate) mod window_change;

pub(crate) use local::{Local, RunningOp};
pub(crate) use name_table::TextNumber;
pub use options::{BlockSource, WindowOptions};
pub(crate) use recording::Recording;
pub(crate) use thread::with_recording;
pub(crate) use wanted::Sources;
pub use wanted::lend_cuda;
