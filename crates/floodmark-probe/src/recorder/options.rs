//! The options of a window.

use std::path::PathBuf;

use floodmark_trace::{Header, RecordingOptions};

use crate::files::output::Replace;

/// The source of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSource {
    /// torch reports them.
    Torch,
    /// The engine of fake tensors reports them ([`crate::record_fake_alloc`]); allocations of torch itself are not recorded.
    Fake,
    /// The same, where torch has no device of the fake tensors' type.
    FakeWithoutDevice,
}

/// Which events a window records, and where they are written.
#[derive(Debug, Clone)]
pub struct WindowOptions {
    /// The file; without a file the events stay in memory, and are written to `spill` when they
    /// exceed their share.
    pub path: Option<PathBuf>,
    /// A free name for a file of events that do not fit in memory.
    pub spill: PathBuf,
    /// What may be replaced at that path.
    pub replace: Replace,
    /// Whether host memory is recorded.
    pub cpu: bool,
    /// CUDA devices: a bit for each ordinal.
    pub cuda: u64,
    /// The source of blocks.
    pub source: BlockSource,
    /// How it is recorded.
    pub recording: RecordingOptions,
    /// Where the recording comes from.
    pub header: Header,
    /// The folders of our Python packages: their frames are not part of the program.
    pub own_folders: Vec<String>,
}
