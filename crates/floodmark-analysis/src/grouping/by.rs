//! The question of a report or a diff: the device, the time, and the kind of rows.

use std::borrow::Cow;
use std::str::FromStr;

use floodmark_trace::Device;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::allocation::framework::FrameChoice;
use crate::invalid_value::InvalidValue;
use crate::moment::at::At;

/// What the rows of a report are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum By {
    /// Lines of the program.
    #[default]
    Line,
    /// Whole call stacks.
    Stack,
    /// Modules, as a tree.
    Module,
    /// Operators.
    Op,
    /// Calls of operators, with what each added.
    OpCall,
    /// Parameters, with gradients and optimizer states.
    Parameter,
    /// Forward, backward, optimizer, what the user named.
    Phase,
    /// Parameters, gradients, activations, ….
    Category,
    /// Single allocations.
    Tensor,
    /// Training steps.
    Step,
    /// What torch took from the driver.
    Segment,
}

impl By {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Line,
        Self::Stack,
        Self::Module,
        Self::Op,
        Self::OpCall,
        Self::Parameter,
        Self::Phase,
        Self::Category,
        Self::Tensor,
        Self::Step,
        Self::Segment,
    ];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Stack => "stack",
            Self::Module => "module",
            Self::Op => "op",
            Self::OpCall => "op-call",
            Self::Parameter => "parameter",
            Self::Phase => "phase",
            Self::Category => "category",
            Self::Tensor => "tensor",
            Self::Step => "step",
            Self::Segment => "segment",
        }
    }
}

/// The message for another text.
const EXPECTED: InvalidValue = InvalidValue(
    "a report is by `line`, `stack`, `module`, `op`, `op-call`, `parameter`, `phase`, `category`, `tensor`, `step` or `segment`",
);

impl FromStr for By {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::ALL.into_iter().find(|by| by.name() == text).ok_or(EXPECTED)
    }
}

impl Serialize for By {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for By {
    fn schema_name() -> Cow<'static, str> {
        "By".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Self::ALL.map(Self::name);
        json_schema!({ "type": "string", "enum": names, "description": "What the rows of a report are." })
    }
}

/// The question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// Of which device; [`default_device`](crate::moment::default_device) when none is named.
    pub device: Option<Device>,
    /// What the rows are.
    pub by: By,
    /// The time.
    pub at: At,
    /// How many rows at most.
    pub top: Option<usize>,
    /// Which frames a stack shows, and whether allocations belong to torch's own frames instead of the calling line.
    pub frames: FrameChoice,
}
