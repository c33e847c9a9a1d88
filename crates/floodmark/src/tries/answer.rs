//! What is read of the answer of an estimate, and kept in the cache.

use floodmark_analysis::{Cause, StepPeaks};
use floodmark_trace::{AppliedChange, Bytes, PhantomEnd, StepCost};
use serde::{Deserialize, Serialize};

/// What is read of an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TryAnswer {
    pub(crate) fits: Option<bool>,
    pub(crate) unknown: Option<String>,
    pub(crate) error: String,
    pub(crate) losses: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) ended: PhantomEnd,
    pub(crate) steps: u32,
    pub(crate) step_peaks: Option<StepPeaks>,
    pub(crate) peak_allocated: Bytes,
    pub(crate) peak_reserved: Bytes,
    pub(crate) devices: Vec<TryDevice>,
    pub(crate) changes: Vec<AppliedChange>,
    pub(crate) cost: Option<StepCost>,
    /// When it ran, where it was not this command that ran it: seconds since 1970.
    #[serde(skip)]
    pub(crate) earlier: Option<u64>,
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
    pub(crate) best_settings: Option<String>,
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

    /// The settings of the allocator with which the device that needs most would reserve least, where others than its own.
    pub(crate) fn best_settings(&self) -> Option<&str> {
        let device = self.devices.iter().max_by_key(|device| device.needed);
        device?.best_settings.as_deref()
    }

    /// What fills the peak of the device that needs most.
    pub(crate) fn causes(&self) -> &[Cause] {
        let device = self.devices.iter().max_by_key(|device| device.needed);
        device.map_or(&[], |device| &device.causes)
    }

    /// Whether both ran the program with the same changes, and it needed the same.
    pub(crate) fn is_of_the_program_of(&self, other: &Self) -> bool {
        let names = |answer: &Self| -> Vec<String> {
            answer.changes.iter().map(|change| change.change.clone()).collect()
        };
        names(self) == names(other)
            && self.needed() == other.needed()
            && self.peak_allocated == other.peak_allocated
    }

    /// Whether the program fits is known: only then the answer is remembered.
    pub(crate) fn has_verdict(&self) -> bool {
        self.fits.is_some()
    }

    /// Whether the recording misses allocations.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.unknown.as_deref() == Some("incomplete")
    }

    /// Why it has no verdict, in a line or some.
    pub(crate) fn why_unknown(&self) -> String {
        if !self.error.is_empty() {
            return self.error.clone();
        }
        let found = self.losses.iter().chain(&self.notes).map(String::as_str);
        found.collect::<Vec<_>>().join("; ")
    }

    /// Whether the program ran, and allocated nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.unknown.as_deref() == Some("nothing_allocated")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_with_another_change_is_of_another_program() {
        let answer = |change: &str, bytes: u64| -> TryAnswer {
            let changes = if change.is_empty() {
                String::new()
            } else {
                format!(
                    r#"{{"change":"{change}","target":"","reason":"","slows":false,"numerics":"same","patch":"","blocks":null,"host_bytes":0}}"#
                )
            };
            let text = format!(r#"{{"changes":[{changes}],"devices":[{{"needed":{bytes}}}]}}"#);
            serde_json::from_str(&text).expect("an answer")
        };
        let unchanged = answer("", 5);
        assert!(answer("", 5).is_of_the_program_of(&unchanged));
        assert!(!answer("fused", 5).is_of_the_program_of(&unchanged));
        assert!(!answer("", 6).is_of_the_program_of(&unchanged));
    }
}
