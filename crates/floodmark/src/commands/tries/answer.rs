//! What is read of the answer of an estimate, and kept in the cache.

use floodmark_analysis::Cause;
use floodmark_trace::{AppliedChange, Bytes, StepCost};
use serde::{Deserialize, Serialize};

/// What is read of an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TryAnswer {
    pub(crate) fits: Option<bool>,
    pub(crate) unknown: Option<String>,
    pub(crate) error: String,
    pub(crate) peak_allocated: Bytes,
    pub(crate) peak_reserved: Bytes,
    pub(crate) devices: Vec<TryDevice>,
    pub(crate) changes: Vec<AppliedChange>,
    pub(crate) cost: Option<StepCost>,
}

/// What is read of a device.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TryDevice {
    pub(crate) name: String,
    pub(crate) peak_allocated: Bytes,
    pub(crate) outside_torch: Bytes,
    pub(crate) context: Bytes,
    pub(crate) needed: Bytes,
    pub(crate) causes: Vec<Cause>,
}

impl TryAnswer {
    /// What the program needs of the device that needs most.
    pub(crate) fn needed(&self) -> Bytes {
        self.devices.iter().map(|device| device.needed).max().unwrap_or_default()
    }

    /// The least that it could need if no byte were cached.
    pub(crate) fn least(&self) -> Bytes {
        let of = |device: &TryDevice| device.peak_allocated + device.outside_torch + device.context;
        self.devices.iter().map(of).max().unwrap_or_default()
    }

    /// What fills the peak of the device that needs most.
    pub(crate) fn causes(&self) -> &[Cause] {
        let device = self.devices.iter().max_by_key(|device| device.needed);
        device.map_or(&[], |device| &device.causes)
    }

    /// Whether the program ran, and allocated nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.unknown.as_deref() == Some("nothing_allocated")
    }
}
