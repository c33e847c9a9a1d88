//! Collapsed stacks: a line for each stack at the peak, its frames from the outermost on, and its bytes.
//!
//! The format of Brendan Gregg's `stackcollapse` scripts, which every flame graph tool reads.

use std::io::Write;

use floodmark_trace::Trace;

use crate::options::{ExportError, Options};
use crate::stacks::at_peak;

/// Writes the live bytes of each stack at the peak.
pub fn write_collapsed(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let (_, held) = at_peak(trace, options)?;
    for stack in held {
        let frames: Vec<String> =
            stack.frames.iter().map(|location| frame_name(&location.label())).collect();
        writeln!(out, "{} {}", frames.join(";"), stack.bytes)?;
    }
    Ok(())
}

/// A frame without the separators of frames and lines. Some readers end lines at more than `\n`.
fn frame_name(label: &str) -> String {
    let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    label.replace(';', ":").replace(is_break, " ")
}
