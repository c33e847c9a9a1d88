//! What is missing from a recording.
//!
//! Every report contains it and shows it above the first row: an incomplete number must not look
//! complete.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::event::Micros;
use crate::limits::MAX_NAME_BYTES;

/// What the recorder could not record, since the recording began, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Allocations without a stack, or with a part of it.
    pub stacks: u64,
    /// Events without the name of their phase, operator, stream, pool or label.
    pub names: u64,
    /// Events of threads that share the last thread number.
    pub threads: u64,
    /// Events that were damaged in the journal before they were read.
    pub records: u64,
}

impl LeftOut {
    /// Adds what was left out to the losses.
    pub(crate) fn append_to(self, losses: &mut Vec<Loss>) {
        let found = [
            (self.stacks, Loss::StacksLeftOut(self.stacks)),
            (self.names, Loss::NamesLeftOut(self.names)),
            (self.threads, Loss::ThreadsShareNumber(self.threads)),
            (self.records, Loss::LostInJournal(self.records)),
        ];
        losses.extend(found.into_iter().filter(|(count, _)| *count > 0).map(|(_, loss)| loss));
    }
}

/// One thing that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Bytes of the file that could not be read.
    Damaged {
        /// How many.
        bytes: u64,
        /// Where the first of them is.
        first_offset: u64,
    },
    /// Frames that are missing from the file.
    MissingFrames(u64),
    /// The file has no end; the missing events come from its journal.
    Salvaged {
        /// How many records were taken.
        events: u64,
        /// Whether the program is known to have ended.
        has_ended: bool,
    },
    /// The file has no end, and there is no journal beside it.
    Unfinished,
    /// Events that were in the journal, and are damaged or missing there.
    LostInJournal(u64),
    /// The part of the journal that counts events is damaged: it is not known how many are missing.
    LedgerDamaged,
    /// The program still records.
    StillRunning {
        /// The last event that was read.
        at: Micros,
    },
    /// Recording stopped before the program did.
    StoppedEarly {
        /// Why.
        reason: String,
        /// When.
        at: Micros,
    },
    /// Events after which our total was not torch's.
    TotalsDisagree(u64),
    /// Allocations without a stack, or with a part of it, because the recorder's memory limit was reached.
    StacksLeftOut(u64),
    /// Events without the name of their phase, operator, stream, pool or label.
    NamesLeftOut(u64),
    /// Events of threads that share the last thread number: beyond 65,535 threads, or beyond the recorder's memory
    /// limit.
    ThreadsShareNumber(u64),
    /// Events that refer to an allocation that is not in the file.
    UnknownAllocations(u64),
    /// Rows with an impossible number or device.
    RefusedRows(u64),
    /// References to a stack, function, module or name that is not in the file.
    UnknownIds(u64),
    /// Stacks with more frames than a reader keeps.
    CutStacks {
        /// How many.
        stacks: u64,
        /// The most frames that each of them could have.
        most_frames: u16,
    },
    /// Names that are longer than any recording has.
    CutNames(u64),
    /// Something that could not be recorded on this machine or with this torch.
    NotRecorded(String),
    /// A value that is derived, since the file lacks it: nothing is lost.
    Derived(String),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { bytes, first_offset } => {
                let bytes = counted(*bytes, "byte of the file is", "bytes of the file are");
                write!(f, "{bytes} damaged, the first at byte {first_offset}")
            }
            Self::MissingFrames(frames) => {
                write!(f, "{} missing from the file", counted(*frames, "frame is", "frames are"))
            }
            Self::Salvaged { events, has_ended } => {
                f.write_str(if *has_ended {
                    "the program ended without ending the recording: it was killed, crashed, or called `os._exit`"
                } else {
                    "the recording has no end; whether the program still runs is unknown"
                })?;
                match events {
                    0 => write!(f, "; every record is in the file"),
                    1 => write!(f, "; its last record was read from the journal"),
                    _ => write!(f, "; its last {events} records were read from the journal"),
                }
            }
            Self::Unfinished => write!(
                f,
                "the recording is not finished: what came after the last flush is not in the file"
            ),
            Self::LostInJournal(events) => {
                let events = counted(*events, "event is", "events are");
                write!(f, "{events} missing: the journal beside the file is damaged")
            }
            Self::LedgerDamaged => write!(
                f,
                "the journal beside the file is damaged: the number of lost events is unknown"
            ),
            Self::StillRunning { at } => {
                let at = at.as_seconds();
                write!(
                    f,
                    "the program is still recording: what happens after {at:.1} s is not in the trace yet"
                )
            }
            Self::StoppedEarly { reason, at } => write!(
                f,
                "recording stopped at {:.1} s: {reason}; the peak after that is unknown: the program continued",
                at.as_seconds()
            ),
            Self::TotalsDisagree(events) => write!(
                f,
                "after {} our total of allocated bytes differed from torch's: some events are missing",
                counted(*events, "event", "events")
            ),
            Self::StacksLeftOut(allocations) => write!(
                f,
                "{} no stack, or only a part of it: the recorder's memory limit was reached (`--max-memory`)",
                counted(*allocations, "allocation has", "allocations have")
            ),
            Self::NamesLeftOut(events) => write!(
                f,
                "{} the name of a phase, operator, stream, pool or label: there were more than 65,535 names, or the recorder's memory limit was reached (`--max-memory`)",
                counted(*events, "event misses", "events miss")
            ),
            Self::ThreadsShareNumber(events) => write!(
                f,
                "{} of threads that share one number: there were more than 65,535 threads, or the recorder's memory limit was reached (`--max-memory`), which also leaves out their phases and operators",
                counted(*events, "event is", "events are")
            ),
            Self::UnknownAllocations(events) => {
                let events = counted(*events, "event refers", "events refer");
                write!(f, "{events} to allocations that are not in the file")
            }
            Self::RefusedRows(rows) => {
                let rows = counted(*rows, "row of the file is", "rows of the file are");
                write!(f, "{rows} left out: their numbers or devices cannot be true")
            }
            Self::UnknownIds(ids) => {
                let ids = counted(*ids, "reference", "references");
                write!(f, "{ids} to a stack, function, module or name that is not in the file")
            }
            Self::CutStacks { stacks, most_frames } => {
                let stacks = counted(*stacks, "stack has", "stacks have");
                write!(f, "{stacks} more than {most_frames} frames: outer frames are left out")
            }
            Self::CutNames(names) => {
                let names = counted(*names, "name is", "names are");
                write!(f, "{names} longer than {MAX_NAME_BYTES} bytes: the rest is left out")
            }
            Self::NotRecorded(what) | Self::Derived(what) => write!(f, "{what}"),
        }
    }
}

/// A count and its noun.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// All that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses(pub Vec<Loss>);

impl Losses {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether allocations may be missing, and with them a peak. A salvaged file lacks none: its
    /// journal had the rest.
    pub fn may_hide_a_peak(&self) -> bool {
        self.hiding_a_peak().is_some()
    }

    /// The first loss with which allocations may be missing.
    pub fn hiding_a_peak(&self) -> Option<&Loss> {
        let hides = |loss: &&Loss| match loss {
            Loss::Damaged { .. }
            | Loss::MissingFrames(_)
            | Loss::Unfinished
            | Loss::LostInJournal(_)
            | Loss::LedgerDamaged
            | Loss::StoppedEarly { .. }
            | Loss::TotalsDisagree(_)
            | Loss::UnknownAllocations(_)
            | Loss::RefusedRows(_) => true,
            Loss::Salvaged { .. }
            | Loss::StillRunning { .. }
            | Loss::StacksLeftOut(_)
            | Loss::NamesLeftOut(_)
            | Loss::ThreadsShareNumber(_)
            | Loss::NotRecorded(_)
            | Loss::UnknownIds(_)
            | Loss::CutStacks { .. }
            | Loss::CutNames(_)
            | Loss::Derived(_) => false,
        };
        self.0.iter().find(hides)
    }

    /// How many events are known to be missing. There may be more: damage is counted in bytes.
    pub fn events(&self) -> u64 {
        let of = |loss: &Loss| match loss {
            Loss::LostInJournal(events) | Loss::UnknownAllocations(events) => *events,
            Loss::Damaged { .. }
            | Loss::MissingFrames(_)
            | Loss::Salvaged { .. }
            | Loss::Unfinished
            | Loss::StillRunning { .. }
            | Loss::StoppedEarly { .. }
            | Loss::TotalsDisagree(_)
            | Loss::LedgerDamaged
            | Loss::StacksLeftOut(_)
            | Loss::NamesLeftOut(_)
            | Loss::ThreadsShareNumber(_)
            | Loss::RefusedRows(_)
            | Loss::UnknownIds(_)
            | Loss::CutStacks { .. }
            | Loss::CutNames(_)
            | Loss::NotRecorded(_)
            | Loss::Derived(_) => 0,
        };
        self.0.iter().map(of).fold(0, u64::saturating_add)
    }
}

impl Serialize for Losses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ToString::to_string))
    }
}

impl JsonSchema for Losses {
    fn schema_name() -> Cow<'static, str> {
        "Losses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": { "type": "string" },
            "description": "What the recording misses, a sentence each; empty for a complete one.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_thing_is_counted_in_the_singular() {
        let text = |loss: Loss| loss.to_string();
        assert_eq!(text(Loss::MissingFrames(1)), "1 frame is missing from the file");
        assert_eq!(text(Loss::MissingFrames(2)), "2 frames are missing from the file");
        assert!(text(Loss::LostInJournal(1)).starts_with("1 event is missing: "));
        assert!(text(Loss::StacksLeftOut(1)).starts_with("1 allocation has no stack"));
        assert!(text(Loss::TotalsDisagree(1)).starts_with("after 1 event our total"));
        assert!(text(Loss::UnknownAllocations(1)).starts_with("1 event refers to allocations"));
    }
}
