//! Facts about the program and the machine: the first frame of a file, as JSON.
//!
//! A header may be written again when more is known (CUDA is initialised late); the last one counts.

mod changes;
mod phantom;
mod window;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use changes::{AppliedChange, Numerics, OperatorCost, OperatorKind, StepCost};
pub use phantom::{
    Engine, LibraryBytes, Phantom, PhantomDevice, PhantomEnd, PhantomRead, UnsupportedCall,
};
pub use window::Window;

/// A device that was visible to the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceInfo {
    /// `cuda:0`.
    pub device: String,
    /// Its name in the driver.
    pub name: String,
    /// Its memory.
    pub total_bytes: u64,
    /// `9.0`.
    pub compute_capability: String,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Its UUID, which NVML knows too; left out where torch does not give it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
}

/// Where a recording comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Header {
    /// The version of floodmark that wrote the file.
    pub floodmark: String,
    /// Joins the file to its journal.
    pub session: String,
    /// When the recording began, in microseconds since 1970.
    pub started_unix_micros: u64,
    /// The traced process.
    pub pid: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// The machine's name.
    pub host: String,
    /// Its rank, under a launcher.
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub world_size: Option<u32>,
    /// Its rank on this machine.
    pub local_rank: Option<u32>,
    /// `3.12.3`.
    pub python: String,
    /// `2.11.0+cu130`; empty while torch is not imported.
    pub torch: String,
    /// The CUDA version that torch was built with.
    pub cuda: String,
    /// The driver's version.
    pub driver: String,
    /// `native`, `cudaMallocAsync`, or a pluggable one.
    pub allocator_backend: String,
    /// `PYTORCH_CUDA_ALLOC_CONF`, as the program saw it.
    pub allocator_conf: String,
    /// The devices.
    pub devices: Vec<DeviceInfo>,
    /// What was recorded beyond events: `stacks`, `ops`, ….
    pub recorded: Vec<String>,
    /// What could not be recorded, one sentence each.
    pub not_recorded: Vec<String>,
    /// Whether blocks from before the recording are in it.
    #[serde(alias = "has_base")]
    pub has_initial_blocks: bool,
    /// Which events of the recorder are in it; left out when all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The simulated GPU, where the recording is an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phantom: Option<Phantom>,
    /// Changes that were applied to the program while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<AppliedChange>,
    /// What a step computes, where it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<StepCost>,
}

impl Header {
    /// Whether the trace comes from a torch snapshot: no recorder of ours wrote it.
    pub fn is_snapshot(&self) -> bool {
        self.floodmark.is_empty()
    }

    /// Gives every simulated GPU this memory, instead of what it had while the program ran.
    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        let Some(phantom) = &mut self.phantom else { return };
        for device in &mut phantom.devices {
            device.capacity = bytes;
        }
        for device in &mut self.devices {
            device.total_bytes = bytes;
        }
    }
}

/// How a recording ended: the last frame of a finished file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ending {
    /// Empty when the user or the end of the program stopped it, otherwise why it had to stop.
    pub reason: String,
    /// When, in microseconds since the recording began.
    pub at_micros: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_the_old_name_of_a_key_is_read() {
        let header: Header = serde_json::from_str(r#"{"has_base": true}"#).unwrap();
        assert!(header.has_initial_blocks);
        assert!(serde_json::to_string(&header).unwrap().contains("has_initial_blocks"));
    }
}
