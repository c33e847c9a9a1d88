//! The owners of a device's blocks: lines and tensors.

use floodmark_trace::{AllocationId, Bytes, Trace};
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::location::{BEFORE_RECORDING, Line, Lines, marked};

/// A line of the program, and a tensor where it has a name, with the blocks that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlockOwner {
    /// The line that allocated the blocks, in words.
    pub location: String,
    /// The qualified name of the tensor, where known.
    pub name: Option<String>,
    /// How many blocks it has.
    pub blocks: u64,
    /// How many bytes.
    pub bytes: Bytes,
}

/// Collects owners, and gives each a number.
pub(crate) struct BlockOwners<'a> {
    trace: &'a Trace,
    lines: Lines<'a>,
    known: HashMap<(Line, &'a str), usize>,
    owners: Vec<BlockOwner>,
}

impl<'a> BlockOwners<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let lines = Lines::new(trace, false);
        Self { trace, lines, known: HashMap::new(), owners: Vec::new() }
    }

    /// The number of the owner of a block.
    pub(crate) fn add(&mut self, id: AllocationId, bytes: Bytes) -> Option<usize> {
        let allocation = self.trace.allocations.get(id.index())?;
        let name = self.trace.label(allocation.label).map_or("", |label| label.name.as_str());
        let line = self.lines.line_of(allocation);
        let at = if let Some(&at) = self.known.get(&(line, name)) {
            at
        } else {
            let location = self.location(line);
            let shown = (!name.is_empty()).then(|| name.to_owned());
            self.owners.push(BlockOwner { location, name: shown, blocks: 0, bytes: Bytes(0) });
            self.known.insert((line, name), self.owners.len() - 1);
            self.owners.len() - 1
        };
        self.owners[at].blocks += 1;
        self.owners[at].bytes += bytes;
        Some(at)
    }

    fn location(&self, line: Line) -> String {
        match (line, self.lines.frame(line)) {
            (Line::BeforeRecording, _) => BEFORE_RECORDING.to_owned(),
            (_, Some(frame)) => marked(frame.to_string(), line.is_backward()),
            (_, None) => line.location(self.trace),
        }
    }

    pub(crate) fn into_owners(self) -> Vec<BlockOwner> {
        self.owners
    }
}
