//! The text of a source file: the copy that the trace has, or the file on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use floodmark_trace::Trace;

/// The note about a source that is newer than the recording.
const NEWER: &str = "the source is newer than the recording: bytes may be beside the wrong lines";

/// The text of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// The text.
    pub text: String,
    /// Whether it is the copy in the trace.
    pub is_stored: bool,
    /// A warning about it.
    pub note: Option<&'static str>,
}

/// The copy of a file that the trace has.
pub fn stored_text(trace: &Trace, file: &str) -> Option<SourceText> {
    let text = trace.source(file)?.to_owned();
    Some(SourceText { text, is_stored: true, note: None })
}

/// The text of the first of `files` that exists on this machine. `recorded` is the time at which the trace was written, for a
/// trace that does not have the time of the recording.
///
/// # Errors
///
/// The path and the reason, if it cannot be read.
pub fn text_on_disk(
    trace: &Trace,
    files: &[&Path],
    recorded: Option<SystemTime>,
) -> Result<Option<SourceText>, (PathBuf, std::io::Error)> {
    let Some(file) = files.iter().find(|path| path.is_file()) else { return Ok(None) };
    let bytes = fs::read(file).map_err(|error| (file.to_path_buf(), error))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let recorded = match trace.header.started_unix_micros {
        0 => recorded,
        started => Some(SystemTime::UNIX_EPOCH + Duration::from_micros(started)),
    };
    let modified = fs::metadata(file).and_then(|about| about.modified()).ok();
    let is_newer =
        matches!((modified, recorded), (Some(modified), Some(recorded)) if modified > recorded);
    Ok(Some(SourceText { text, is_stored: false, note: is_newer.then_some(NEWER) }))
}
