//! The line that a report by line counts an allocation under: for exports that write every allocation.

use floodmark_trace::{Allocation, Trace};
use hashbrown::HashMap;

use crate::allocation::location::{Frame, Line, Lines, marked};

/// A row of a report by line: its name, and its frame if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationLine {
    /// The report's `where`.
    pub location: String,
    /// The frame; none for blocks without one, and for those from before the recording.
    pub frame: Option<Frame>,
}

/// Finds the row of every allocation; each line is formatted once.
#[derive(Debug)]
pub struct AllocationLines<'a> {
    trace: &'a Trace,
    lines: Lines<'a>,
    known: HashMap<Line, AllocationLine>,
}

impl<'a> AllocationLines<'a> {
    /// For the allocations of one trace.
    pub fn new(trace: &'a Trace) -> Self {
        Self { trace, lines: Lines::new(trace, false), known: HashMap::new() }
    }

    /// The row of an allocation.
    pub fn line_of(&mut self, allocation: &Allocation) -> &AllocationLine {
        let line = self.lines.line_of(allocation);
        let (trace, lines) = (self.trace, &self.lines);
        self.known.entry(line).or_insert_with(|| {
            let frame = lines.frame(line);
            let location = match &frame {
                Some(frame) => marked(frame.to_string(), line.is_backward()),
                None => line.location(trace),
            };
            AllocationLine { location, frame }
        })
    }
}
