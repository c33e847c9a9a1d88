//! What a try says: that part of an estimate which `fit` and `plan` need, and keep in the cache.

use floodmark_analysis::{Cause, DeviceEstimate, Estimate, PeakParts, StepPeaks, Unknown};
use floodmark_trace::{AppliedChange, Bytes, PhantomEnd, StepCost};
use serde::{Deserialize, Serialize};

use crate::requests::estimate::{AnswerForm, EstimateRequest};
use crate::text::stdout_style::show;

/// What a try says. Its process writes it, and `fit` and `plan` read it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TryAnswer {
    /// Whether the program fits, where that is known.
    pub(crate) fits: Option<bool>,
    pub(super) unknown: Option<Unknown>,
    /// The error that ended the program; empty without one.
    pub(crate) error: String,
    /// Why it is not known whether the program fits.
    pub(crate) why_unknown: String,
    pub(crate) ended: PhantomEnd,
    pub(crate) steps: u32,
    pub(crate) step_peaks: Option<StepPeaks>,
    pub(crate) peak_allocated: Bytes,
    pub(crate) peak_reserved: Bytes,
    /// What the program needs of the device that needs most.
    pub(crate) needed: Bytes,
    /// The least that it could need if no byte were cached.
    pub(crate) least: Bytes,
    /// The settings of the allocator with which the device that needs most would reserve least, where others than its own.
    pub(crate) best_settings: Option<String>,
    /// What its memory is made of where a change could put the peak; none for a changed program.
    pub(crate) peak_parts: Option<PeakParts>,
    /// What fills the peak of the device that needs most.
    pub(crate) causes: Vec<Cause>,
    pub(crate) changes: Vec<AppliedChange>,
    pub(crate) cost: Option<StepCost>,
    /// When it ran, where it was not this command that ran it: seconds since 1970.
    #[serde(skip)]
    pub(crate) earlier: Option<u64>,
}

impl From<&Estimate> for TryAnswer {
    fn from(found: &Estimate) -> Self {
        let most = found.devices.iter().max_by_key(|device| device.needed);
        let least = |device: &DeviceEstimate| device.peak_allocated + device.outside_torch;
        let missing = found.losses.0.iter().map(ToString::to_string);
        let reasons: Vec<String> = missing.chain(found.notes.iter().cloned()).collect();
        let error = found.error.clone();
        Self {
            fits: found.fits,
            unknown: found.unknown,
            why_unknown: if error.is_empty() { reasons.join("; ") } else { error.clone() },
            error,
            ended: found.ended,
            steps: found.steps,
            step_peaks: found.step_peaks,
            peak_allocated: found.peak_allocated,
            peak_reserved: found.peak_reserved,
            needed: most.map(|device| device.needed).unwrap_or_default(),
            least: found.devices.iter().map(least).max().unwrap_or_default(),
            best_settings: most.and_then(|device| device.best_settings.clone()),
            peak_parts: most.and_then(|device| device.peak_parts.clone()),
            causes: most.map(|device| device.causes.clone()).unwrap_or_default(),
            changes: found.changes.clone(),
            cost: found.cost.clone(),
            earlier: None,
        }
    }
}

impl TryAnswer {
    /// That of a process which ended without an answer.
    pub(super) fn of_failure(message: String) -> Self {
        let unknown = Some(Unknown::Failed);
        Self { unknown, why_unknown: message.clone(), error: message, ..Self::default() }
    }

    /// Whether both ran the program with the same changes, and it needed the same.
    pub(crate) fn is_of_the_program_of(&self, other: &Self) -> bool {
        let names = |answer: &Self| -> Vec<String> {
            answer.changes.iter().map(|change| change.change.clone()).collect()
        };
        names(self) == names(other)
            && self.needed == other.needed
            && self.peak_allocated == other.peak_allocated
    }

    /// Whether the program fits is known: only then the answer is remembered.
    pub(crate) fn has_verdict(&self) -> bool {
        self.fits.is_some()
    }

    /// Whether the recording misses allocations.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.unknown == Some(Unknown::Incomplete)
    }

    /// Whether the program ran, and allocated nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.unknown == Some(Unknown::NothingAllocated)
    }
}

/// The part of an estimate that was requested: fake tensors record operators always, `--ops` lists them.
pub(crate) fn requested(found: Estimate, lists_operators: bool) -> Estimate {
    let op_calls = found.op_calls.filter(|_| lists_operators);
    Estimate { op_calls, ..found }
}

/// What the process of an estimate prints.
pub fn printed(found: &Estimate, request: &EstimateRequest) -> serde_json::Result<String> {
    let found = requested(found.clone(), request.run.recording.ops);
    match request.answer {
        AnswerForm::Text => Ok(show(&found)),
        AnswerForm::Json => Ok(serde_json::to_string(&found)? + "\n"),
        AnswerForm::Try => serde_json::to_string(&TryAnswer::from(&found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_with_another_change_is_of_another_program() {
        let answer = |change: &str, bytes: u64| {
            let named = |change: &str| AppliedChange {
                change: change.to_owned(),
                ..AppliedChange::default()
            };
            let changes = Some(change).filter(|change| !change.is_empty()).map(named);
            TryAnswer {
                changes: changes.into_iter().collect(),
                needed: Bytes(bytes),
                ..TryAnswer::default()
            }
        };
        let unchanged = answer("", 5);
        assert!(answer("", 5).is_of_the_program_of(&unchanged));
        assert!(!answer("fused", 5).is_of_the_program_of(&unchanged));
        assert!(!answer("", 6).is_of_the_program_of(&unchanged));
    }
}
