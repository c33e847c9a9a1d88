//! Which frames of a call stack are the program's own, and which are of a framework that it calls.
//!
//! torch, installed packages (transformers, accelerate, …) and Python's own library (`runpy`, `importlib`, …) are
//! frameworks. Their frames are left out where a stack is folded, but for the calling line: the one that a report by
//! line has.

use std::str::FromStr;

use floodmark_trace::{CodeId, Stack, StackId, Trace, is_library_file, stack_flags};
use hashbrown::HashMap;

use crate::allocation::location::user_node;
use crate::invalid_value::InvalidValue;

/// Which frames of a call stack are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FrameChoice {
    /// The program's own, and the calling line.
    Program,
    /// All of Python.
    #[default]
    Python,
    /// All, C++ included; allocations are attributed to torch's own lines.
    Native,
}

/// The message for another text.
const EXPECTED: InvalidValue = InvalidValue("frames are `program` or `all`");

impl FromStr for FrameChoice {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "program" => Ok(Self::Program),
            "all" => Ok(Self::Python),
            _ => Err(EXPECTED),
        }
    }
}

impl FrameChoice {
    /// `Native` to include torch's own frames.
    pub fn with_torch_frames(torch_frames: bool) -> Self {
        if torch_frames { Self::Native } else { Self::default() }
    }

    pub(crate) fn is_native(self) -> bool {
        self == Self::Native
    }
}

/// Finds the frames of a stack that are shown; each function is judged once.
#[derive(Debug)]
pub struct ShownFrames<'a> {
    trace: &'a Trace,
    choice: FrameChoice,
    is_framework: HashMap<CodeId, bool>,
}

impl<'a> ShownFrames<'a> {
    /// For the stacks of one trace.
    pub fn new(trace: &'a Trace, choice: FrameChoice) -> Self {
        Self { trace, choice, is_framework: HashMap::new() }
    }

    /// The frames, innermost first.
    pub fn frames(&mut self, stack: StackId) -> Vec<(StackId, Stack)> {
        let trace = self.trace;
        match self.choice {
            FrameChoice::Native => trace.frames(stack).collect(),
            FrameChoice::Python => trace.python_frames(stack).collect(),
            FrameChoice::Program => {
                let calling = user_node(trace, stack, false);
                let is_shown = |&(node, frame): &(StackId, Stack)| {
                    Some(node) == calling || !self.is_framework(&frame)
                };
                trace.python_frames(stack).filter(is_shown).collect()
            }
        }
    }

    fn is_framework(&mut self, frame: &Stack) -> bool {
        let trace = self.trace;
        *self.is_framework.entry(frame.code).or_insert_with(|| is_framework(trace, frame))
    }
}

/// Whether a frame is of torch, of us, of an installed package or of Python's own library.
pub(crate) fn is_framework(trace: &Trace, frame: &Stack) -> bool {
    frame.flags & (stack_flags::LIBRARY | stack_flags::NATIVE) != 0
        || trace.code(frame.code).is_some_and(|code| is_library_file(&code.file))
}
