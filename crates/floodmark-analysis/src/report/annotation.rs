//! A source file with the bytes of each line, at a moment.
//!
//! Bytes are attributed as in a report by line; what the backward pass allocated goes to its forward line.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Category, Device, Hint, Losses, StackId, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::allocation::location::{Line, Lines};
use crate::grouping::live_groups::{Group, Live};
use crate::json_format::FORMAT;
use crate::moment::at::At;
use crate::moment::{Moment, default_device, moment};
use crate::question_error::QuestionError;

/// How many files are named where the requested one is not in the trace.
const NAMED_FILES: usize = 5;

/// The bytes of a line of source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnnotatedLine {
    /// The line, from 1.
    pub line: u32,
    /// The function.
    pub function: String,
    /// The line on which the function begins; 0 where the trace does not have it.
    pub function_line: u32,
    /// What is allocated.
    pub bytes: Bytes,
    /// The part of it that the backward pass allocated.
    pub backward: Bytes,
    /// How many allocations.
    pub count: u64,
    /// The bytes of each category.
    pub categories: BTreeMap<&'static str, Bytes>,
}

impl AnnotatedLine {
    /// The category with most bytes.
    pub fn main_category(&self) -> &'static str {
        let largest = self.categories.iter().max_by_key(|&(_, bytes)| *bytes);
        largest.map_or(Category::Unknown.name(), |(name, _)| name)
    }
}

/// A source file with the bytes of each line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Annotation {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The device.
    pub device: Device,
    /// The time.
    pub at: Moment,
    /// The file, as the trace has it.
    pub file: String,
    /// torch's total of allocated bytes.
    pub allocated: Bytes,
    /// What lines of this file allocated.
    pub in_file: Bytes,
    /// What lines of other files allocated.
    pub other_files: Bytes,
    /// What has no line: without a Python frame, or from before the recording.
    pub without_line: Bytes,
    /// The lines with allocated bytes, in the order of the file.
    pub lines: Vec<AnnotatedLine>,
    /// What may be wrong with the source.
    pub notes: Vec<String>,
    /// What the recording misses.
    pub losses: Losses,
}

/// Why a file has no annotation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotationError {
    /// The question about the moment has no answer.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// No allocation comes from a file of this name.
    #[error("no allocation comes from this file; the trace has {}", .files.join(", "))]
    NotInTrace {
        /// Those with most bytes.
        files: Vec<String>,
    },
    /// The trace has no files.
    #[error("the trace has no Python frames")]
    NoFrames,
    /// Several files have the name.
    #[error("several files of the trace have this name: {}", .files.join(", "))]
    Ambiguous {
        /// Those that have it.
        files: Vec<String>,
    },
}

impl Hint for AnnotationError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Question(error) => error.hint(),
            Self::NotInTrace { .. } => Some("`floodmark report` shows the lines that allocate"),
            Self::NoFrames => Some("record without `--no-stacks`"),
            Self::Ambiguous { .. } => Some("name more of its path"),
        }
    }
}

/// Returns the allocated bytes of each line of a file. `file` is a path, or the end of one.
pub fn annotate(
    trace: &Trace,
    device: Option<Device>,
    at: At,
    file: &str,
) -> Result<Annotation, AnnotationError> {
    let device = match device {
        Some(device) => device.canonical(),
        None => default_device(trace, at)?,
    };
    annotate_with(trace, &Context::new(trace), device, at, file)
}

/// The same, when the context of the trace is known.
pub fn annotate_with(
    trace: &Trace,
    context: &Context,
    device: Device,
    at: At,
    file: &str,
) -> Result<Annotation, AnnotationError> {
    let at = moment(trace, context, device, at)?;
    let file = chosen_file(trace, device, file)?;
    let live = Live::at(trace, &at);
    let mut lines = Lines::new(trace, false);
    let groups =
        live.group_by_with_unseen(Line::BeforeRecording, |_, allocation| lines.line_of(allocation));
    let mut found = Annotation {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device,
        allocated: at.allocated,
        at,
        file,
        in_file: Bytes(0),
        other_files: Bytes(0),
        without_line: Bytes(0),
        lines: Vec::new(),
        notes: Vec::new(),
        losses: trace.losses.clone(),
    };
    let mut by_number: BTreeMap<u32, AnnotatedLine> = BTreeMap::new();
    for group in groups {
        match lines.frame(group.key) {
            None => found.without_line += group.bytes,
            Some(frame) if frame.file != found.file => found.other_files += group.bytes,
            Some(frame) => {
                found.in_file += group.bytes;
                let function_line = lines.node(group.key).map_or(0, |node| {
                    trace.code(trace.stack(node).code).map_or(0, |code| code.first_line)
                });
                let annotated = by_number.entry(frame.line).or_insert_with(|| AnnotatedLine {
                    line: frame.line,
                    function: frame.function,
                    function_line,
                    bytes: Bytes(0),
                    backward: Bytes(0),
                    count: 0,
                    categories: BTreeMap::new(),
                });
                annotated.add(&group, &live, context);
            }
        }
    }
    found.lines = by_number.into_values().collect();
    if found.lines.is_empty() && is_of_a_frame(trace, &found.file) {
        let note = "no line of this file has live bytes at this time";
        found.notes.push(note.to_owned());
    }
    Ok(found)
}

/// Whether a frame of the trace, of a caller too, is of this file.
fn is_of_a_frame(trace: &Trace, file: &str) -> bool {
    let count = u32::try_from(trace.stack_count()).unwrap_or(u32::MAX);
    let mut codes = (0..count).map(|id| trace.stack(StackId(id)).code);
    codes.any(|code| trace.code(code).is_some_and(|code| code.file == file))
}

impl AnnotatedLine {
    fn add(&mut self, group: &Group<Line>, live: &Live<'_>, context: &Context) {
        self.bytes += group.bytes;
        self.count += group.members.len() as u64;
        if group.key.is_backward() {
            self.backward += group.bytes;
        }
        for &id in &group.members {
            let name = category(live.trace, context, id).name();
            *self.categories.entry(name).or_default() += live.get(id).rounded;
        }
    }
}

/// The file of the trace whose path has most in common with the end of a path.
fn chosen_file(trace: &Trace, device: Device, path: &str) -> Result<String, AnnotationError> {
    let mut lines = Lines::new(trace, false);
    let mut by_line: BTreeMap<Line, Bytes> = BTreeMap::new();
    for allocation in trace.allocations.iter().filter(|one| one.device == device) {
        *by_line.entry(lines.line_of(allocation)).or_default() += allocation.rounded;
    }
    let mut bytes: BTreeMap<String, Bytes> = BTreeMap::new();
    for (line, allocated) in by_line {
        if let Some(frame) = lines.frame(line) {
            *bytes.entry(frame.file).or_default() += allocated;
        }
    }
    if bytes.is_empty() {
        return Err(AnnotationError::NoFrames);
    }
    if bytes.contains_key(path) || is_of_a_frame(trace, path) {
        return Ok(path.to_owned());
    }
    let in_common = |file: &str| {
        let parts = |path: &str| -> Vec<String> {
            path.split(['/', '\\']).rev().filter(|part| *part != ".").map(str::to_owned).collect()
        };
        let (one, other) = (parts(file), parts(path));
        one.iter().zip(&other).take_while(|(one, other)| one == other).count()
    };
    let most = bytes.keys().map(|file| in_common(file)).max().unwrap_or(0);
    let mut best: Vec<String> =
        bytes.keys().filter(|file| in_common(file) == most).cloned().collect();
    if most == 0 {
        let mut files: Vec<(&String, Bytes)> =
            bytes.iter().map(|(file, bytes)| (file, *bytes)).collect();
        files.sort_by_key(|&(file, bytes)| (std::cmp::Reverse(bytes), file));
        let files = files.into_iter().take(NAMED_FILES).map(|(file, _)| format!("`{file}`"));
        return Err(AnnotationError::NotInTrace { files: files.collect() });
    }
    if best.len() > 1 {
        let files = best.iter().map(|file| format!("`{file}`")).collect();
        return Err(AnnotationError::Ambiguous { files });
    }
    Ok(best.remove(0))
}
