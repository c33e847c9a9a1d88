//! What NVML said about the memory of the GPUs while the program ran.
//!
//! torch knows the memory of its own allocator. NVML knows all of a GPU: the CUDA context, libraries, other processes.

use serde::{Deserialize, Serialize};

use super::named_text::{decode_named_text, encode_named_text};
use crate::event::Device;
use crate::limits::Budget;

/// The name in the frames: where the figures come from.
const SOURCE: &str = "nvml";
/// The longest text of one frame.
const MOST_TEXT_BYTES: usize = 1 << 20;

/// A process that uses a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Its number, as NVML gives it. In a container it may be a number of the machine.
    pub pid: u32,
    /// Its memory on the GPU; `None` where NVML does not say it.
    pub bytes: Option<u64>,
    /// Its command, from `/proc`; `None` where the recorded process cannot see it.
    pub name: Option<String>,
}

/// The memory of one GPU at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMemory {
    /// The GPU, as torch numbers it.
    pub device: Device,
    /// When NVML was asked, in microseconds since the recording began.
    pub asked_micros: u64,
    /// When it had answered.
    pub answered_micros: u64,
    /// All memory of the GPU.
    pub total: u64,
    /// What is in use, by all processes.
    pub used: u64,
    /// What the driver keeps for itself, beside `used`; `None` where NVML counts it in `used`.
    pub driver: Option<u64>,
    /// The processes that use the GPU; `None` where NVML does not list them.
    pub processes: Option<Vec<GpuProcess>>,
}

impl GpuMemory {
    /// Whether another sample has the same figures, at another time.
    #[must_use]
    pub fn has_figures_of(&self, other: &Self) -> bool {
        let (asked_micros, answered_micros) = (self.asked_micros, self.answered_micros);
        *self == Self { asked_micros, answered_micros, ..other.clone() }
    }

    /// The payload of a frame.
    pub(crate) fn encode(samples: &[Self]) -> std::io::Result<Vec<u8>> {
        encode_named_text(SOURCE, &serde_json::to_string(samples)?)
    }

    /// Reads a frame; `None` if its payload is malformed or too long. What is not from NVML is left out: a newer build
    /// wrote it.
    pub(crate) fn decode(payload: &[u8], budget: &mut Budget) -> Option<Vec<Self>> {
        let (source, text) = decode_named_text(payload, MOST_TEXT_BYTES, budget)?;
        if source != SOURCE {
            return Some(Vec::new());
        }
        serde_json::from_str(&text).ok()
    }
}
