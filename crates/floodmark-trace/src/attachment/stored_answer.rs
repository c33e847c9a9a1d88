//! Answers that are stored in a trace, because they cannot be computed from it: `floodmark plan` runs a program many times,
//! and its trace is of one of these runs.

use serde::Deserialize;

use super::named_text::decode_named_text;
use crate::limits::Budget;

/// The longest answer that is read.
pub(crate) const MOST_ANSWER_BYTES: usize = 16 << 20;

/// An answer as JSON, with the name of its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredAnswer {
    pub(crate) command: String,
    pub(crate) json: String,
}

impl StoredAnswer {
    /// Reads a frame; `None` if its payload is malformed or too long.
    pub(crate) fn decode(payload: &[u8], budget: &mut Budget) -> Option<Self> {
        let (command, json) = decode_named_text(payload, MOST_ANSWER_BYTES, budget)?;
        Some(Self { command, json })
    }

    /// The memory of the GPU that a plan is for. Its trace is of a run with more memory than any GPU has, so that no
    /// allocation fails.
    pub(crate) fn planned_capacity(&self) -> Option<u64> {
        #[derive(Deserialize)]
        struct Planned {
            capacity: u64,
        }
        let planned = (self.command == "plan").then(|| serde_json::from_str::<Planned>(&self.json));
        planned?.ok().map(|planned| planned.capacity).filter(|&capacity| capacity > 0)
    }
}
