//! The source files of a trace with the bytes that their lines allocated, at a moment.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Trace, is_library_file};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::location::{Line, Lines};
use crate::grouping::live_groups::Live;
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::moment::Moment;
use crate::moment::at::At;
use crate::question_error::QuestionError;

/// A source file, and what its lines allocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceFileBytes {
    /// Its path, as the trace has it.
    pub file: String,
    /// What is allocated.
    pub bytes: Bytes,
    /// How many allocations.
    pub count: u64,
    /// How many of its lines have allocated bytes.
    pub lines: u64,
    /// Whether it is of an installed package or of Python's own library.
    pub is_library: bool,
    /// Whether the trace has a copy of it.
    pub is_stored: bool,
}

/// The source files of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SourceFiles {
    /// The moment.
    pub at: Moment,
    /// What is allocated.
    pub allocated: Bytes,
    /// What has no line: without a Python frame, or from before the recording.
    pub without_line: Bytes,
    /// The files with allocated bytes, the most first.
    pub files: Vec<SourceFileBytes>,
}

/// The files whose lines allocated what is live at a moment. Both indexes must be of this trace.
pub fn source_files(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    at: At,
) -> Result<SourceFiles, QuestionError> {
    let at = moments.moment(trace, &index.context, at)?;
    let live = Live::from_allocations(trace, &at, moments.live(trace, at.after));
    let mut lines = Lines::new(trace, false);
    let groups =
        live.group_by_with_unseen(Line::BeforeRecording, |_, allocation| lines.line_of(allocation));
    let mut without_line = Bytes(0);
    let mut files: BTreeMap<String, SourceFileBytes> = BTreeMap::new();
    let mut numbers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for group in groups {
        let Some(frame) = lines.frame(group.key) else {
            without_line += group.bytes;
            continue;
        };
        numbers.entry(frame.file.clone()).or_default().push(frame.line);
        let found = files.entry(frame.file.clone()).or_insert_with(|| SourceFileBytes {
            is_library: is_library_file(&frame.file),
            is_stored: trace.source(&frame.file).is_some(),
            file: frame.file,
            bytes: Bytes(0),
            count: 0,
            lines: 0,
        });
        found.bytes += group.bytes;
        found.count += group.members.len() as u64;
    }
    for (file, mut numbers) in numbers {
        numbers.sort_unstable();
        numbers.dedup();
        if let Some(found) = files.get_mut(&file) {
            found.lines = numbers.len() as u64;
        }
    }
    let mut files: Vec<SourceFileBytes> = files.into_values().collect();
    files.sort_by(|one, other| (other.bytes, &one.file).cmp(&(one.bytes, &other.file)));
    Ok(SourceFiles { allocated: at.allocated, at, without_line, files })
}
