//! A row of a report: the numbers that every grouping has, and what is its own.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Category};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::generation::StepKind;
use crate::allocation::location::Frame;

/// A row of a report: these fields, and those of its grouping.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// What is allocated. For a module, with the modules inside it.
    pub bytes: Bytes,
    /// The bytes of this row and those above it, none counted twice.
    pub cumulative: Bytes,
    /// How many allocations.
    pub count: u64,
    /// The middle one of their sizes; the larger of two.
    pub median: Bytes,
    /// The row's line, module, operator, category or other name.
    pub location: String,
    /// The fields of this grouping.
    #[serde(flatten)]
    pub detail: Detail,
}

impl Row {
    /// What the row adds to the total: `bytes`, but for a module only its own.
    pub fn own_bytes(&self) -> Bytes {
        match &self.detail {
            Detail::Module { own, .. } => *own,
            Detail::Line { .. }
            | Detail::Stack { .. }
            | Detail::Op { .. }
            | Detail::OpCall { .. }
            | Detail::Parameter { .. }
            | Detail::Phase { .. }
            | Detail::Category { .. }
            | Detail::Tensor { .. }
            | Detail::Step { .. }
            | Detail::Segment { .. } => self.bytes,
        }
    }
}

/// One of the largest allocations of a category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Largest {
    /// Its size.
    pub bytes: Bytes,
    /// Its name where it has one, otherwise the line that allocated it.
    pub location: String,
}

/// The other fields of a row.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Detail {
    /// A line of the program.
    Line {
        /// The file; null for blocks without a Python frame.
        file: Option<String>,
        /// The line.
        line: Option<u32>,
        /// The function.
        function: Option<String>,
        /// The module, where all allocations of the row have the same.
        module: Option<String>,
        /// Whether the backward pass of this line allocated them.
        backward: bool,
    },
    /// A call stack.
    Stack {
        /// Its frames, innermost first.
        frames: Vec<Frame>,
        /// The innermost module on it.
        module: Option<String>,
        /// Whether the backward pass of this stack allocated them.
        backward: bool,
    },
    /// A module.
    Module {
        /// What the module allocated itself, without the modules inside it.
        own: Bytes,
        /// How many modules are around it.
        depth: u32,
        /// Its class; null for a container whose `forward` never ran.
        #[serde(rename = "class_name")]
        class: Option<String>,
    },
    /// An operator.
    Op {
        /// Its name; null where operators were not recorded.
        op: Option<String>,
    },
    /// A call of an operator. The row's `bytes` were allocated in it and are live at the time of the report.
    OpCall {
        /// Its number, in the order of the calls that allocated; null for blocks from before the recording.
        call: Option<u32>,
        /// The operator; null where operators were not recorded.
        op: Option<String>,
        /// The module that called it.
        module: Option<String>,
        /// The step in which it ran.
        step: Option<u32>,
        /// The phase in which it ran.
        phase: Option<String>,
        /// When its first block was allocated, in seconds since the recording began.
        seconds: Option<f64>,
        /// The peak of allocated bytes until the next call.
        peak: Option<Bytes>,
        /// What was allocated when the next call began.
        end: Option<Bytes>,
        /// `end` less what was allocated when the call began.
        growth: Option<i64>,
    },
    /// A parameter. The row's `bytes` are all that is live of it.
    Parameter {
        /// Its qualified name; null for the row of what belongs to no parameter.
        parameter: Option<String>,
        /// Its shape, as Python prints it.
        shape: Option<String>,
        /// Its dtype.
        dtype: Option<String>,
        /// The parameter itself.
        weight: Bytes,
        /// Its gradient.
        gradient: Bytes,
        /// Its optimizer state.
        optimizer_state: Bytes,
    },
    /// A phase.
    Phase {
        /// Its name; null for blocks from before the recording.
        phase: Option<String>,
        /// The peak of allocated bytes while it ran, in the whole recording.
        peak: Option<Bytes>,
        /// When that was, in seconds since the recording began.
        peak_seconds: Option<f64>,
    },
    /// A category.
    Category {
        /// Its name.
        #[schemars(with = "Category")]
        category: &'static str,
        /// Its own peak over the whole recording; null if not requested.
        peak: Option<Bytes>,
        /// Its three largest allocations.
        largest: Vec<Largest>,
    },
    /// One allocation.
    Tensor {
        /// Its qualified name.
        name: Option<String>,
        /// Its shape, as Python prints it.
        shape: Option<String>,
        /// Its dtype.
        dtype: Option<String>,
        /// What it is to the program.
        #[schemars(with = "Category")]
        category: &'static str,
        /// The module that it belongs to.
        module: Option<String>,
        /// The step in which it was allocated.
        step: Option<u32>,
        /// The phase in which it was allocated.
        phase: Option<String>,
        /// When it was allocated, in seconds since the recording began; null for what was live before.
        allocated_seconds: Option<f64>,
        /// When autograd first saved it for the backward pass; null where it did not.
        saved_seconds: Option<f64>,
        /// When the backward pass last read what autograd had saved of it: its last use that is known.
        last_use_seconds: Option<f64>,
        /// When it was freed; null for what was live at the end.
        freed_seconds: Option<f64>,
    },
    /// A stretch of memory from the driver. The row's `bytes` are allocated in it.
    Segment {
        /// Where it begins.
        address: u64,
        /// How long it is.
        segment: Bytes,
        /// Freed, and still used by a stream.
        pending_free: Bytes,
        /// Free.
        free: Bytes,
        /// The largest free block.
        largest_free: Bytes,
        /// A picture: `█` allocated, `▒` pending, `·` free.
        picture: String,
    },
    /// A step. The row's `bytes` were allocated in it and are live at the time of the report.
    Step {
        /// Its number; null for blocks from before the recording.
        step: Option<u32>,
        /// Whether it is a prefill or a decode; null in a program that trains.
        kind: Option<StepKind>,
        /// Whether it ended: the last one does not where the program failed in it, or the recording stopped.
        is_finished: Option<bool>,
        /// The peak of allocated bytes during it.
        peak: Option<Bytes>,
        /// What was allocated when it ended.
        end: Option<Bytes>,
        /// `end` less that of the step before.
        growth: Option<i64>,
        /// What was reserved when it ended; null on the CPU.
        reserved: Option<Bytes>,
        /// The peak of allocated bytes in each phase of it.
        phases: BTreeMap<String, Bytes>,
        /// What its peak was made of, by category.
        categories: BTreeMap<&'static str, Bytes>,
    },
}
