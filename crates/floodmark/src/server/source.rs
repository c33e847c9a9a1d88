//! A source file with the bytes beside its lines, for the page.
//!
//! The server reads a file of this machine only if a frame of the trace names it, it is a Python file, and the trace
//! has no copy.

use std::path::Path;

use floodmark_analysis::{Annotation, At, annotate_with};
use floodmark_files::source_text::{SourceText, stored_text, text_on_disk};
use floodmark_trace::{Device, MOST_FILE_BYTES};
use schemars::JsonSchema;
use serde::Serialize;

use super::refusal::Refusal;
use super::shown::Version;

/// A source file with the bytes of each line, and its text.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct AnnotatedFile {
    /// The bytes of the lines.
    pub(crate) annotation: Annotation,
    /// The text of the file; null if there is none.
    pub(crate) text: Option<String>,
    /// Whether the text is the copy in the trace.
    pub(crate) is_stored: bool,
    /// Why there is no text.
    pub(crate) missing: Option<String>,
}

/// Annotates a file that the trace names. `reads_disk` says whether a file of this machine may be read.
pub(crate) fn annotated_file(
    now: &Version<'_>,
    device: Device,
    at: At,
    file: &str,
    reads_disk: bool,
) -> Result<AnnotatedFile, Refusal> {
    let mut annotation = annotate_with(&now.trace, now.index().context(), device, at, file)?;
    let found = match stored_text(&now.trace, &annotation.file) {
        Some(stored) => Ok(stored),
        None if reads_disk => read(now, &annotation.file),
        None => Err("the trace has no copy of this file: record it with `--source`".to_owned()),
    };
    Ok(match found {
        Ok(SourceText { text, is_stored, note }) => {
            annotation.notes.extend(note.map(str::to_owned));
            AnnotatedFile { annotation, text: Some(text), is_stored, missing: None }
        }
        Err(missing) => {
            AnnotatedFile { annotation, text: None, is_stored: false, missing: Some(missing) }
        }
    })
}

fn read(now: &Version<'_>, file: &str) -> Result<SourceText, String> {
    let path = Path::new(file);
    if path.extension().is_none_or(|ending| ending != "py") {
        return Err("this is no Python file".to_owned());
    }
    if path.metadata().is_ok_and(|about| about.len() > MOST_FILE_BYTES as u64) {
        return Err("the file is longer than 1 MiB".to_owned());
    }
    match text_on_disk(&now.trace, &[path], None) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err("the file is not on this machine, and the trace has no copy of it: \
                         record with `--source` to have it everywhere"
            .to_owned()),
        Err((_, error)) => Err(format!("the file cannot be read: {error}")),
    }
}
