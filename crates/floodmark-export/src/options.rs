//! The options of every format, and why an export fails.

use std::io;

use floodmark_analysis::{FrameChoice, LayerSource, QuestionError};
use floodmark_trace::{Device, Hint, Trace};

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Of which device; when none is named, all of them where a format has room, otherwise the one with the highest peak.
    pub device: Option<Device>,
    /// Which frames call stacks have, in formats of stacks.
    pub frames: FrameChoice,
    /// What the layers are, for a timeline. Where phases are, a speedscope file is by layer too.
    pub layers: LayerSource,
    /// How many events at most, the latest ones, where a format has events.
    pub max_events: Option<usize>,
    /// Whether a timeline has fragmentation; 0 otherwise.
    pub fragmentation: bool,
    /// Whether a cell of CSV that a spreadsheet would take for a formula begins with an apostrophe instead.
    pub guard_formulas: bool,
}

impl Default for Options {
    fn default() -> Self {
        let layers = LayerSource::default();
        Self {
            device: None,
            frames: FrameChoice::Program,
            layers,
            max_events: None,
            fragmentation: true,
            guard_formulas: false,
        }
    }
}

/// Why nothing, or only a part, was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The trace has no answer to what the format shows.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The format has several files, and there is one place for one.
    #[error("the format is a folder of files, and cannot be written into one file")]
    NeedsFolder,
    /// It could not be written.
    #[error("the output could not be written")]
    Io(#[from] io::Error),
}

impl Hint for ExportError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Question(error) => error.hint(),
            Self::NeedsFolder => Some("name a folder for it"),
            Self::Io(_) => None,
        }
    }
}

/// The device that is named, or all of them.
pub(crate) fn chosen_devices(
    trace: &Trace,
    device: Option<Device>,
) -> Result<Vec<Device>, QuestionError> {
    let recorded = trace.devices();
    match device.map(Device::canonical) {
        _ if recorded.is_empty() => Err(QuestionError::NothingAllocated),
        None => Ok(recorded),
        Some(device) if recorded.contains(&device) => Ok(vec![device]),
        Some(device) => Err(QuestionError::NoSuchDevice { device, recorded }),
    }
}
