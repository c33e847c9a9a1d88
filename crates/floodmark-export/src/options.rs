//! What every format can be told, and why it may not come to be.

use std::io;

use floodmark_analysis::{LayerSource, QuestionError};
use floodmark_trace::{Device, Hint};

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Of which device; when none is named, all of them where a format has room, otherwise the one with the highest peak.
    pub device: Option<Device>,
    /// What the layers are, for a timeline. Where phases are, a speedscope file is by layer too.
    pub layers: LayerSource,
    /// How many events at most, the latest ones, where a format has events.
    pub max_events: Option<usize>,
    /// Whether a timeline tells fragmentation; 0 otherwise.
    pub fragmentation: bool,
}

impl Default for Options {
    fn default() -> Self {
        let layers = LayerSource::default();
        Self { device: None, layers, max_events: None, fragmentation: true }
    }
}

/// Why nothing, or only a part, was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The trace has no answer to what the format shows.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// It could not be written.
    #[error("the output could not be written")]
    Io(#[from] io::Error),
}

impl Hint for ExportError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Question(error) => error.hint(),
            Self::Io(_) => None,
        }
    }
}
