//! Live bytes at the peak, by call stack, for flame graphs.

use floodmark_analysis::{At, By, Detail, Frame, Question, QuestionError, report};
use floodmark_trace::{Device, Trace};

use crate::options::Options;

/// A stack, outermost frame first, with its live bytes.
pub(crate) struct StackBytes {
    pub(crate) frames: Vec<StackLabel>,
    pub(crate) bytes: u64,
}

/// A frame, or the text that is shown instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StackLabel {
    Known { function: String, file: String, line: u32 },
    Words(String),
}

impl StackLabel {
    /// `forward (model.py:12)`: the last two parts of the path are enough to find it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Known { function, file, line } => {
                let parts: Vec<&str> = file.rsplitn(3, ['/', '\\']).collect();
                let short = match parts[..] {
                    [name, folder, _] => format!("{folder}/{name}"),
                    _ => file.clone(),
                };
                format!("{function} ({short}:{line})")
            }
            Self::Words(words) => words.clone(),
        }
    }
}

/// The frame that separates a forward stack from its backward pass.
pub(crate) const BACKWARD: &str = "(backward)";

/// The device, and the live bytes of each stack at its peak, largest first. The bytes add up to the peak.
pub(crate) fn at_peak(
    trace: &Trace,
    options: &Options,
) -> Result<(Device, Vec<StackBytes>), QuestionError> {
    let question = Question {
        device: options.device,
        by: By::Stack,
        at: At::Peak,
        top: None,
        frames: options.frames,
    };
    let report = report(trace, &question)?;
    let rows = report.rows.into_iter().filter(|row| row.bytes.0 > 0);
    let held = rows.map(|row| {
        let (found, backward) = if let Detail::Stack { frames, backward, .. } = row.detail {
            (frames, backward)
        } else {
            (Vec::new(), false)
        };
        StackBytes { frames: labels(found, backward, row.location), bytes: row.bytes.0 }
    });
    Ok((report.device, held.collect()))
}

/// Frames, innermost first, as labels, outermost first; `words` when there are none.
fn labels(frames: Vec<Frame>, backward: bool, words: String) -> Vec<StackLabel> {
    if frames.is_empty() {
        return vec![StackLabel::Words(words)];
    }
    let known = frames.into_iter().rev().map(|frame| {
        let Frame { file, line, function } = frame;
        StackLabel::Known { function, file, line }
    });
    known.chain(backward.then(|| StackLabel::Words(BACKWARD.to_owned()))).collect()
}
