//! How a recording ended, as far as known.

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::Micros;
use crate::losses::Loss;
use crate::trace::Trace;

/// How a recording ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was stopped, or the program ended.
    Finished,
    /// The program still records.
    Running,
    /// Recording stopped and the program continued; a loss has the reason.
    StoppedEarly,
    /// The file has no end and no stop note.
    #[default]
    Unfinished,
}

impl Trace {
    /// How the recording ended.
    pub fn outcome(&self) -> Outcome {
        match (&self.ending, &self.stop) {
            (Some(ending), _) if ending.reason.is_empty() => Outcome::Finished,
            (Some(_), _) | (None, Some(_)) => Outcome::StoppedEarly,
            (None, None) if self.is_running => Outcome::Running,
            (None, None) => Outcome::Unfinished,
        }
    }

    /// Whether the program held the journal's lock when the trace was read.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Records that the program still holds the lock of the journal: unwritten events are not lost. A trace with an
    /// ending, or with a stop note, does not change.
    pub fn note_running(&mut self) {
        self.is_running = true;
        if self.outcome() != Outcome::Running {
            return;
        }
        let at = self.last_time();
        self.losses.0.retain(|loss| {
            !matches!(
                loss,
                Loss::Salvaged { .. }
                    | Loss::Unfinished
                    | Loss::LostInJournal(_)
                    | Loss::LedgerDamaged
            )
        });
        self.losses.0.insert(0, Loss::StillRunning { at });
    }

    /// Why recording stopped before the program did, and when.
    pub(crate) fn stopped_early(&self) -> Option<(&str, Micros)> {
        let ending = self.ending.as_ref().map(|ending| (&*ending.reason, ending.at_micros));
        let note = self.stop.as_ref().map(|stop| (&*stop.reason, stop.at_micros));
        let (reason, at) = ending.or(note).filter(|(reason, _)| !reason.is_empty())?;
        Some((reason, Micros(at)))
    }
}
