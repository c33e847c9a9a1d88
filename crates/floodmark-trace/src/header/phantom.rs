//! How a recording of a simulated GPU was made.
//!
//! Such a recording comes from the real host code of every operator, without computed values. The header
//! states this, and lists the assumed values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A simulated GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Phantom {
    /// The engine that simulated it.
    pub engine: Engine,
    /// The name of its GPU profile.
    pub gpu: String,
    /// Whether estimates with that profile were compared with a real GPU.
    pub is_checked: bool,
    /// How the program ended.
    pub ended: PhantomEnd,
    /// The error that ended it; empty when there was none.
    pub error: String,
    /// The devices.
    pub devices: Vec<PhantomDevice>,
    /// Values that the program read back and that were assumed, not computed.
    pub reads: Vec<PhantomRead>,
    /// Calls that the phantom refused.
    pub unsupported: Vec<UnsupportedCall>,
    /// What is assumed or left out, one sentence each.
    pub notes: Vec<String>,
    /// Whether the program had blocks of fake tensors, which allocate nothing here.
    pub has_fake_tensors: bool,
}

/// The engine that simulates a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// torch's own host code and allocator, on a library in place of CUDA's.
    #[default]
    Phantom,
    /// Fake tensors, which have shapes and no data, on a simulated allocator.
    Fake,
}

impl Engine {
    /// `phantom` or `fake`, as on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phantom => "phantom",
            Self::Fake => "fake",
        }
    }
}

/// How a program on a simulated GPU ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhantomEnd {
    /// It still runs, or was killed.
    #[default]
    Unknown,
    /// It ended by itself.
    Done,
    /// It was stopped after the requested number of steps.
    Steps,
    /// It ended with an out-of-memory error.
    OutOfMemory,
    /// It ended with another error.
    Failed,
}

/// A simulated device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PhantomDevice {
    /// Which GPU of the machine it is, where the process sees only some of them.
    pub index: Option<u32>,
    /// Its memory in bytes.
    pub capacity: u64,
    /// The CUDA context.
    pub context: u64,
    /// The peak of memory allocated from the driver, by torch and by others, without the CUDA context.
    pub peak_driver_bytes: u64,
    /// What CUDA's libraries held then. Empty in files of versions that counted them as a part of the context.
    pub libraries_at_peak: Vec<LibraryBytes>,
}

/// The device memory of a library of CUDA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LibraryBytes {
    /// Which: `cuBLAS`.
    pub library: String,
    /// The bytes.
    pub bytes: u64,
}

/// A value that was read back and was assumed, not computed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PhantomRead {
    /// The file of the line that read it.
    pub file: String,
    /// The number of that line.
    pub line: u32,
    /// The function of that line.
    pub function: String,
    /// How often it was read.
    pub count: u64,
    /// The operator that computed the value.
    pub op: String,
    /// The assumed value.
    #[serde(alias = "answered")]
    pub assumed: String,
    /// Why it was not computed.
    #[serde(alias = "why")]
    pub reason: String,
}

/// A call that was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnsupportedCall {
    /// The library: `cudnn`.
    pub library: String,
    /// The function.
    pub name: String,
    /// How often it was called.
    pub count: u64,
}
