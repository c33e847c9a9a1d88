//! What a recording on a phantom GPU rests on.
//!
//! Such a recording has the real host code of every operator and no result of any: the header says so,
//! and says which answers of the phantom were not certain.

use serde::{Deserialize, Serialize};

/// A GPU that was not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phantom {
    /// How it was played.
    pub engine: Engine,
    /// Which card was played: the name of its profile.
    pub gpu: String,
    /// Whether that profile was compared with the card itself.
    pub is_checked: bool,
    /// How the program ended.
    pub ended: PhantomEnd,
    /// What it died of, in its own words; empty when it did not.
    pub error: String,
    /// The devices.
    pub devices: Vec<PhantomDevice>,
    /// Values that the program read back and that the phantom could not know.
    pub reads: Vec<PhantomRead>,
    /// Calls that the phantom refused.
    pub unsupported: Vec<UnsupportedCall>,
    /// What is assumed or left out, one sentence each.
    pub notes: Vec<String>,
}

/// How a GPU that is not there is played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// torch's own host code and allocator, on a library that answers for CUDA's.
    #[default]
    Phantom,
    /// Fake tensors, which have shapes and no data, on a simulated allocator.
    Fake,
}

/// How a program on a phantom ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhantomEnd {
    /// It still runs, or was killed.
    #[default]
    Unknown,
    /// It came to its end.
    Done,
    /// It was stopped after as many steps as were asked for.
    Steps,
    /// A request for memory could not be met, and it died of that.
    OutOfMemory,
    /// It died of something else.
    Failed,
}

/// A device of a phantom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhantomDevice {
    /// Which GPU of the machine it is, where the process sees only some of them.
    pub index: Option<u32>,
    /// Its memory.
    pub capacity: u64,
    /// What the context and the libraries take of it.
    pub context: u64,
    /// The most that was taken from the driver, by torch and by others, without the context.
    pub peak_driver_bytes: u64,
}

/// A value that was read back and was not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhantomRead {
    /// The line that read.
    pub file: String,
    /// Its number.
    pub line: u32,
    /// The function that it is in.
    pub function: String,
    /// How often.
    pub count: u64,
    /// What made the value.
    pub op: String,
    /// What was answered.
    pub answered: String,
    /// Why it was not known.
    pub why: String,
}

/// A call that was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnsupportedCall {
    /// Whose function it is: `cudnn`.
    pub library: String,
    /// The function.
    pub name: String,
    /// How often it was called.
    pub count: u64,
}
