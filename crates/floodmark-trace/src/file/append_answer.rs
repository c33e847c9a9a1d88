//! Appends an answer of a command to a finished trace.

use std::io;

use crate::Hint;
use crate::attachment::{MOST_ANSWER_BYTES, encode_named_text};
use crate::frame::{FrameKind, Piece, append_frame, pieces};

use super::read::{ReadError, check_beginning};

/// Why an answer was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is not a trace.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The answer is longer than the reader's limit.
    #[error("the answer has {bytes} bytes, more than {MOST_ANSWER_BYTES}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It could not be compressed.
    #[error("the answer could not be compressed")]
    Io(#[from] io::Error),
}

impl Hint for StoreError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read(error) => error.hint(),
            Self::TooLong { .. } | Self::Io(_) => None,
        }
    }
}

/// Appends an answer to the bytes of a finished trace. [`crate::Trace::answer`] then returns this
/// one.
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
