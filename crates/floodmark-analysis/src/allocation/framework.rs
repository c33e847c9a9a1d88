//! Which frames of a call stack are the program's own, and which are of a framework that it calls.
//!
//! torch, installed packages (transformers, accelerate, …) and Python's own library (`runpy`, `importlib`, …) are
//! frameworks. Their frames are left out where a stack is folded, but for the calling line: the one that a report by
//! line has.

use std::str::FromStr;

use floodmark_trace::{CodeId, Stack, StackId, Trace, stack_flags};
use hashbrown::HashMap;

use crate::allocation::location::user_node;

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

/// The text names no choice of frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frames are `program` or `all`")]
pub struct NotFrames;

impl FromStr for FrameChoice {
    type Err = NotFrames;

    fn from_str(text: &str) -> Result<Self, NotFrames> {
        match text {
            "program" => Ok(Self::Program),
            "all" => Ok(Self::Python),
            _ => Err(NotFrames),
        }
    }
}

impl FrameChoice {
    /// `Native` where torch's own frames are wanted.
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
        || trace.code(frame.code).is_some_and(|code| is_framework_file(&code.file))
}

/// Whether a file is of an installed package or of Python's own library; `<frozen runpy>` is.
fn is_framework_file(file: &str) -> bool {
    file.starts_with("<frozen ") || library_part(file).is_some()
}

/// What follows the folder into which packages are installed, or that of Python's own library.
pub(crate) fn library_part(file: &str) -> Option<&str> {
    for folder in ["/site-packages/", "/dist-packages/"] {
        if let Some(at) = file.rfind(folder) {
            return Some(&file[at + folder.len()..]);
        }
    }
    let (_, below) = file.split_once("/lib/python3.")?;
    below.split_once('/').map(|(_, below)| below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_goes_by_its_path_from_where_packages_are() {
        let parts = [
            "/venv/lib/python3.12/site-packages/torch/nn.py",
            "/usr/lib/python3/dist-packages/numpy/a.py",
            "/usr/lib/python3.10/threading.py",
            "/home/ada/train.py",
            "train.py",
        ]
        .map(library_part);
        let expected = [Some("torch/nn.py"), Some("numpy/a.py"), Some("threading.py"), None, None];
        assert_eq!(parts, expected);
    }
}
