//! What is missing from a recording.
//!
//! Carried by every report and shown above its first row: a number must not look complete when it is
//! not.

use std::fmt;

use serde::{Serialize, Serializer};

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
    /// Frames that the file should have.
    MissingFrames(u64),
    /// The program ended without finishing the file; the events were taken from its journal.
    Salvaged {
        /// How many records were taken.
        events: u64,
    },
    /// The program ended without finishing the file, and there is no journal beside it.
    Unfinished,
    /// Records that had begun to be written when the program died.
    InFlight(u64),
    /// Recording stopped before the program did.
    StoppedEarly {
        /// Why.
        reason: String,
    },
    /// Events after which our total was not torch's.
    TotalsDisagree(u64),
    /// Allocations without a stack because the recorder's memory limit was reached.
    StacksLeftOut(u64),
    /// Events that refer to an allocation that is not in the file.
    UnknownAllocations(u64),
    /// Something that could not be recorded on this machine or with this torch.
    NotRecorded(String),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { bytes, first_offset } => {
                write!(f, "{bytes} bytes of the file are damaged, the first at byte {first_offset}")
            }
            Self::MissingFrames(frames) => write!(f, "{frames} frames are missing from the file"),
            Self::Salvaged { events } => write!(
                f,
                "the program was killed; its last {events} records were taken from the journal"
            ),
            Self::Unfinished => write!(
                f,
                "the recording is not finished: what came after the last flush is not in the file"
            ),
            Self::InFlight(records) => {
                write!(f, "{records} records were being written when the program died")
            }
            Self::StoppedEarly { reason } => {
                write!(f, "recording stopped before the program did: {reason}")
            }
            Self::TotalsDisagree(events) => write!(
                f,
                "after {events} events our total of allocated bytes was not torch's: some events are missing"
            ),
            Self::StacksLeftOut(allocations) => write!(
                f,
                "{allocations} allocations have no stack: the recorder's memory limit was reached (`--max-memory`)"
            ),
            Self::UnknownAllocations(events) => {
                write!(f, "{events} events refer to allocations that are not in the file")
            }
            Self::NotRecorded(what) => write!(f, "{what}"),
        }
    }
}

/// All that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses(pub Vec<Loss>);

impl Losses {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many events are known to be missing. There may be more: damage is told in bytes.
    pub fn events(&self) -> u64 {
        let of = |loss: &Loss| match loss {
            Loss::InFlight(events) | Loss::UnknownAllocations(events) => *events,
            Loss::Damaged { .. }
            | Loss::MissingFrames(_)
            | Loss::Salvaged { .. }
            | Loss::Unfinished
            | Loss::StoppedEarly { .. }
            | Loss::TotalsDisagree(_)
            | Loss::StacksLeftOut(_)
            | Loss::NotRecorded(_) => 0,
        };
        self.0.iter().map(of).fold(0, u64::saturating_add)
    }
}

impl Serialize for Losses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ToString::to_string))
    }
}
