//! The options of every format, and why an export fails.

use std::io;

use floodmark_analysis::{FrameChoice, LayerSource, QuestionError};
use floodmark_trace::{Device, Hint, Trace};

/// The options of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The device. Without one, all devices if the format has room for them, or else the one with the highest peak.
    pub device: Option<Device>,
    /// The frames of call stacks, in formats of stacks.
    pub frames: FrameChoice,
    /// The layers of a timeline. If they are phases, a speedscope file is by layer too.
    pub layers: LayerSource,
    /// The highest number of events, in formats of events: the latest are kept.
    pub max_events: Option<usize>,
    /// Whether a timeline has fragmentation; otherwise it is 0.
    pub fragmentation: bool,
    /// Whether a CSV cell that would be a formula in a spreadsheet gets an apostrophe.
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

/// Why an export failed, perhaps after a part was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The trace lacks what the format shows.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The format has several files, and the output is a single one.
    #[error("the format is a folder of files, and cannot be written into one file")]
    NeedsFolder,
    /// The output could not be written.
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

/// The named device, or all devices.
pub(crate) fn chosen_devices(
    trace: &Trace,
    device: Option<Device>,
) -> Result<Vec<Device>, QuestionError> {
    let recorded = trace.devices();
    match device.map(Device::canonical) {
        _ if recorded.is_empty() => Err(QuestionError::without_allocations(trace)),
        None => Ok(recorded),
        Some(device) if recorded.contains(&device) => Ok(vec![device]),
        Some(device) => Err(QuestionError::NoSuchDevice { device, recorded }),
    }
}
