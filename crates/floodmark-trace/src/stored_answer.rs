//! Answers that are stored in a trace, because they cannot be computed from it: `floodmark plan` runs a program many times,
//! and its trace is of one of these runs.

use std::io;

use serde::Deserialize;

use crate::frame::{FrameKind, Piece, append_frame, pieces};
use crate::limit::Budget;
use crate::named_text::{decode_named_text, encode_named_text};
use crate::read::{ReadError, check_beginning};

/// The longest answer that is read.
const MOST_ANSWER_BYTES: usize = 16 << 20;

/// An answer as JSON, by the name of the command that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredAnswer {
    pub(crate) command: String,
    pub(crate) json: String,
}

impl StoredAnswer {
    /// What a frame holds; `None` when it is no such payload, or too long.
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

/// Why an answer was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is no trace.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The answer is longer than a reader takes.
    #[error("the answer has {bytes} bytes, more than {MOST_ANSWER_BYTES}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It could not be compressed.
    #[error("the answer could not be compressed")]
    Io(#[from] io::Error),
}

/// Appends an answer to the bytes of a finished trace. It is the one that [`crate::Trace::answer`] gives from then on.
pub fn append_answer(file: &mut Vec<u8>, command: &str, json: &str) -> Result<(), StoreError> {
    check_beginning(file)?;
    if json.len() > MOST_ANSWER_BYTES {
        return Err(StoreError::TooLong { bytes: json.len() });
    }
    let last = pieces(file).filter_map(|piece| match piece {
        Piece::Frame(frame) => Some(frame.number),
        Piece::Damaged { .. } => None,
    });
    let number = last.last().map_or(0, |last| last.wrapping_add(1));
    let payload = encode_named_text(command, json)?;
    append_frame(file, FrameKind::Answer, number, &payload);
    Ok(())
}
