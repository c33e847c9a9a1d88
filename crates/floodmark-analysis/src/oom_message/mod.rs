//! Explains torch's out-of-memory messages, without a trace.
//!
//! [`explain_oom`] reads a text: a pasted message, or a log with messages in it. [`OomLogReader`] reads a text of any
//! length. `log_reader.rs` finds the messages, `figures.rs` reads their figures, `reason.rs` derives the reason,
//! `remedies.rs` chooses what to try first.

mod figures;
mod log_reader;
mod reason;
mod remedies;

use floodmark_trace::{Bytes, Device, Hint};
use schemars::JsonSchema;
use serde::Serialize;

pub use log_reader::OomLogReader;

use crate::allocation::location::Frame;

/// Why an allocation failed, as far as a message shows it. The names are those of `oom` for a
/// trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OomMessageReason {
    /// The program needs more than the device has.
    Capacity,
    /// Enough was reserved and free, but not in one block.
    Fragmentation,
    /// Enough was free, but in private pools, such as those of CUDA graphs.
    OtherPool,
    /// Other processes, or libraries outside torch, take too much of the device.
    OutsideTorch,
    /// A limit below the memory of the device is reached.
    Limit,
    /// The driver refused, although enough was free on the device.
    Refused,
    /// The request is so large that a size in the program must be wrong.
    HugeRequest,
    /// An allocation outside torch's allocator failed: of the CUDA driver, or of a library such as cuBLAS or NCCL.
    Library,
    /// Memory of the host ran out, not that of a device.
    HostMemory,
    /// The message lacks the figures that would show it.
    Unknown,
}

impl OomMessageReason {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Fragmentation => "fragmentation",
            Self::OtherPool => "other pool",
            Self::OutsideTorch => "memory outside torch",
            Self::Limit => "limit",
            Self::Refused => "refused by the driver",
            Self::HugeRequest => "huge request",
            Self::Library => "library",
            Self::HostMemory => "host memory",
            Self::Unknown => "unknown",
        }
    }
}

/// Which allocator wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OomSource {
    /// torch's caching allocator, for CUDA, HIP or XPU.
    CachingAllocator,
    /// torch with `backend:cudaMallocAsync`.
    AsyncAllocator,
    /// torch's allocator for Metal.
    Mps,
    /// torch's allocator of host memory.
    CpuAllocator,
    /// An array of `NumPy`.
    Numpy,
    /// Shared memory of the workers of a `DataLoader`.
    SharedMemory,
    /// The kernel of the system, which ended the process.
    Kernel,
    /// The CUDA or HIP driver or runtime.
    Driver,
    /// cuBLAS.
    Cublas,
    /// cuDNN.
    Cudnn,
    /// Another library of CUDA.
    OtherLibrary,
    /// NCCL.
    Nccl,
    /// Triton.
    Triton,
}

impl OomSource {
    /// Its name in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::CachingAllocator => "torch's caching allocator",
            Self::AsyncAllocator => "cudaMallocAsync",
            Self::Mps => "torch's MPS allocator",
            Self::CpuAllocator => "torch's CPU allocator",
            Self::Numpy => "NumPy",
            Self::SharedMemory => "the shared memory of DataLoader workers",
            Self::Kernel => "the kernel",
            Self::Driver => "the CUDA driver",
            Self::Cublas => "cuBLAS",
            Self::Cudnn => "cuDNN",
            Self::OtherLibrary => "a CUDA library",
            Self::Nccl => "NCCL",
            Self::Triton => "Triton",
        }
    }
}

/// Memory that a process has on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessMemory {
    /// The number of the process, as the message has it.
    pub process: u64,
    /// The memory that it has in use.
    pub bytes: Bytes,
}

/// Something to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OomRemedy {
    /// What to do.
    pub change: String,
    /// The setting, the command or the code; null where there is none.
    pub code: Option<String>,
}

/// One out-of-memory message. Figures are those of the message, rounded as it prints them; null where it has none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OomMessage {
    /// Which allocator wrote it.
    pub source: OomSource,
    /// Why the allocation failed.
    pub reason: OomMessageReason,
    /// The evidence for the reason.
    pub finding: String,
    /// Facts beside the reason.
    pub notes: Vec<String>,
    /// The figures without which the reason is unknown.
    pub missing: Vec<&'static str>,
    /// What to try, the first thing first.
    pub remedies: Vec<OomRemedy>,
    /// The line of the text on which the message begins, from 1.
    pub line: u64,
    /// How many times the same message is in the text.
    pub count: u64,
    /// The rank that wrote it, where the line begins with one.
    pub rank: Option<u32>,
    /// The innermost frame outside torch of the traceback above the message.
    pub frame: Option<Frame>,
    /// The device.
    pub device: Option<Device>,
    /// The requested bytes: for large requests those of the segment that torch requested from the driver.
    pub requested: Option<Bytes>,
    /// The memory of the device.
    pub total: Option<Bytes>,
    /// What was free on the device.
    pub device_free: Option<Bytes>,
    /// The most that torch may reserve.
    pub limit: Option<Bytes>,
    /// torch's reserved bytes.
    pub reserved: Option<Bytes>,
    /// torch's allocated bytes.
    pub allocated: Option<Bytes>,
    /// Reserved and free.
    pub free: Option<Bytes>,
    /// Free in private pools, such as those of CUDA graphs.
    pub private_pools: Option<Bytes>,
    /// What is in use outside torch, the CUDA context included.
    pub outside_torch: Option<Bytes>,
    /// What this process has in use, the CUDA context included.
    pub this_process: Option<Bytes>,
    /// What other processes have in use.
    pub other_processes: Vec<ProcessMemory>,
}

/// The explained out-of-memory messages of a text.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OomMessages {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// How many lines the text has.
    pub lines: u64,
    /// The message that is most likely the cause of the others: its place in `messages`.
    pub cause: usize,
    /// The messages, in the order of the text, each once.
    pub messages: Vec<OomMessage>,
    /// How many different messages were left out, after the first ones.
    pub left_out: u64,
}

impl OomMessages {
    /// The message that is most likely the cause of the others.
    pub fn cause(&self) -> Option<&OomMessage> {
        self.messages.get(self.cause)
    }
}

/// The text has no out-of-memory message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no out-of-memory message of torch in {lines} line{}", if *.lines == 1 { "" } else { "s" })]
pub struct NoOomMessage {
    /// How many lines were read.
    pub lines: u64,
}

impl Hint for NoOomMessage {
    fn hint(&self) -> Option<&'static str> {
        Some("paste the whole message, from `CUDA out of memory` on")
    }
}

/// Explains the out-of-memory messages in a text.
pub fn explain_oom(text: &str) -> Result<OomMessages, NoOomMessage> {
    let mut reader = OomLogReader::new();
    reader.push(text.as_bytes());
    reader.finish()
}
