//! The events of a process that belong to one recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::Device;

/// The recorder's events that belong to a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Window {
    /// Its number among the windows of the process.
    pub number: u64,
    /// When it began, in the time of the journal.
    pub start_nanos: u64,
    /// Host memory too.
    pub cpu: bool,
    /// CUDA devices: a bit for each ordinal.
    pub cuda: u64,
    /// The Python stack of every allocation.
    pub stacks: bool,
    /// The operator of every allocation.
    pub ops: bool,
    /// Blocks of fake tensors, and not those that torch reports.
    #[serde(alias = "told")]
    pub fake_tensors: bool,
}

impl Window {
    /// Whether events of a device belong to it.
    pub fn wants(&self, device: Device) -> bool {
        match device.kind {
            0 => self.cpu,
            _ => u32::try_from(device.index).is_ok_and(|at| at < 64 && self.cuda >> at & 1 == 1),
        }
    }
}
