//! Where in the program an allocation was made: frames and lines.

use floodmark_trace::{Allocation, Code, CodeId, Stack, StackId, TextId, Trace, stack_flags};
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::framework::{FrameChoice, ShownFrames};

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Frame {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The function.
    pub function: String,
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{} ({})", self.file, self.line, self.function)
    }
}

/// The frame that a node of the call tree is.
pub(crate) fn frame(trace: &Trace, id: StackId) -> Option<Frame> {
    let stack = trace.stack(id);
    let code = trace.code(stack.code)?;
    Some(Frame { file: code.file.clone(), line: stack.line, function: code.name.clone() })
}

/// The node that a stack is reported under: the innermost Python frame that is not of torch, of Python's own library
/// or ours, or the innermost Python frame when all are. With `torch_frames` the innermost of all, C++ included. `None` for a stack without frames.
pub(crate) fn user_node(trace: &Trace, id: StackId, torch_frames: bool) -> Option<StackId> {
    let hidden = if torch_frames { 0 } else { stack_flags::NATIVE };
    let frames = trace
        .frames(outside_dispatch(trace, id))
        .filter(move |(_, stack)| stack.flags & hidden == 0);
    let mut frames = frames.filter(|(_, stack)| trace.code(stack.code).is_some());
    let innermost = frames.next()?;
    if torch_frames || innermost.1.flags & stack_flags::LIBRARY == 0 {
        return Some(innermost.0);
    }
    let user = frames.find(|(_, stack)| stack.flags & stack_flags::LIBRARY == 0);
    Some(user.map_or(innermost.0, |(node, _)| node))
}

/// The stack of the call that torch's dispatch passed on: to a mode or a tensor subclass, which called the operator
/// instead. The stack itself if nothing was passed on, or if nothing else would remain.
fn outside_dispatch(trace: &Trace, id: StackId) -> StackId {
    let is_mode = |frame: &(StackId, Stack)| trace.code(frame.1.code).is_some_and(is_mode);
    let mut found = id;
    loop {
        let mut outer = trace.python_frames(found);
        if !outer.next().is_some_and(|(_, frame)| is_passed_on(trace, &frame)) {
            return found;
        }
        let mut from_mode = trace.python_frames(found).skip_while(|frame| !is_mode(frame));
        // An operator that the program calls by itself is in no mode.
        let outside = if from_mode.next().is_some() { from_mode.next() } else { outer.next() };
        let Some((node, _)) = outside else { return found };
        found = node;
    }
}

/// Whether a frame calls an operator for another one: torch's own call of operators, or a mode of torch.
fn is_passed_on(trace: &Trace, frame: &Stack) -> bool {
    let is_torchs = frame.flags & stack_flags::LIBRARY != 0;
    let code = trace.code(frame.code).filter(|_| is_torchs);
    code.is_some_and(|code| code.file.ends_with("torch/_ops.py") || is_mode(code))
}

/// Whether torch calls a function instead of an operator or a function of its own.
fn is_mode(code: &Code) -> bool {
    let name = code.name.rsplit('.').next().unwrap_or_default();
    matches!(name, "__torch_dispatch__" | "__torch_function__")
}

/// Finds one stack for all that have the same frames, as they are shown: stacks that differ in hidden frames alone are one.
#[derive(Debug)]
pub(crate) struct ShownStacks<'a> {
    frames: ShownFrames<'a>,
    /// `false` where every stack is shown as it is.
    hides_frames: bool,
    of_stack: HashMap<StackId, StackId>,
    by_frames: HashMap<Vec<(CodeId, u32)>, StackId>,
}

impl<'a> ShownStacks<'a> {
    pub(crate) fn new(trace: &'a Trace, choice: FrameChoice) -> Self {
        let hides_frames = match choice {
            FrameChoice::Program => true,
            FrameChoice::Python => trace.has_native_frames(),
            FrameChoice::Native => false,
        };
        let frames = ShownFrames::new(trace, choice);
        Self { frames, hides_frames, of_stack: HashMap::new(), by_frames: HashMap::new() }
    }

    /// The frames of a stack that are shown, innermost first.
    pub(crate) fn frames(&mut self, stack: StackId) -> Vec<(StackId, Stack)> {
        self.frames.frames(stack)
    }

    /// The stack that this one is reported as.
    pub(crate) fn shown(&mut self, stack: StackId) -> StackId {
        if !self.hides_frames {
            return stack;
        }
        let (shown, by_frames) = (&mut self.frames, &mut self.by_frames);
        *self.of_stack.entry(stack).or_insert_with(|| {
            let frames = shown.frames(stack).into_iter().map(|(_, frame)| (frame.code, frame.line));
            *by_frames.entry(frames.collect()).or_insert(stack)
        })
    }
}

/// `file:line (function)` of a stack, marked when the backward pass was running.
pub(crate) fn location(trace: &Trace, id: StackId, backward: bool) -> Option<String> {
    let frame = frame(trace, user_node(trace, id, false)?)?;
    Some(marked(frame.to_string(), backward))
}

/// The same for an allocation, with a text for one without a frame.
pub(crate) fn allocation_location(trace: &Trace, allocation: &Allocation) -> String {
    if allocation.before_recording {
        return BEFORE_RECORDING.to_owned();
    }
    location(trace, allocation.stack, allocation.backward)
        .unwrap_or_else(|| Line::without_frame(allocation).location(trace))
}

/// The name of the row of blocks from before the recording.
pub(crate) const BEFORE_RECORDING: &str = "before recording";

/// Adds the mark that distinguishes a backward allocation from the forward one of the same line.
pub(crate) fn marked(location: String, backward: bool) -> String {
    if backward { location + " (backward)" } else { location }
}

/// A line of the program, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Line {
    BeforeRecording,
    /// The number of the line in [`Lines`].
    Known {
        line: u32,
        backward: bool,
    },
    /// No Python frame, but an operator.
    Op {
        op: TextId,
        backward: bool,
    },
    /// No Python frame; only the thread is known.
    Thread {
        thread: u16,
        backward: bool,
    },
}

impl Line {
    fn without_frame(allocation: &Allocation) -> Self {
        let backward = allocation.backward;
        match allocation.op {
            TextId(0) => Self::Thread { thread: allocation.thread.0, backward },
            op => Self::Op { op, backward },
        }
    }

    pub(crate) fn is_backward(self) -> bool {
        match self {
            Self::BeforeRecording => false,
            Self::Known { backward, .. }
            | Self::Op { backward, .. }
            | Self::Thread { backward, .. } => backward,
        }
    }

    /// The name of a line without a frame.
    pub(crate) fn location(self, trace: &Trace) -> String {
        match self {
            Self::BeforeRecording => BEFORE_RECORDING.to_owned(),
            Self::Known { backward, .. } => marked("no Python frame".to_owned(), backward),
            Self::Op { op, backward } => {
                let op = trace.text(op).unwrap_or("?");
                marked(format!("no Python frame: {op}"), backward)
            }
            Self::Thread { thread, backward } => {
                marked(format!("no Python frame: thread {thread}"), backward)
            }
        }
    }
}

/// Finds the line of an allocation; each stack is walked once.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    trace: &'a Trace,
    torch_frames: bool,
    /// Per stack: 1 + the number of its line, [`NO_LINE`], or 0 while not known.
    of_stack: Vec<u32>,
    /// A node for each line.
    nodes: Vec<StackId>,
    /// A function may be several code objects; its file, name and line make it one.
    numbers: HashMap<(&'a str, &'a str, u32), u32>,
}

const NO_LINE: u32 = u32::MAX;

impl<'a> Lines<'a> {
    pub(crate) fn new(trace: &'a Trace, torch_frames: bool) -> Self {
        Self {
            trace,
            torch_frames,
            of_stack: vec![0; trace.stack_count()],
            nodes: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    pub(crate) fn line_of(&mut self, allocation: &Allocation) -> Line {
        if allocation.before_recording {
            return Line::BeforeRecording;
        }
        match self.number(allocation.stack) {
            Some(line) => Line::Known { line, backward: allocation.backward },
            None => Line::without_frame(allocation),
        }
    }

    /// The frame of a line, where it has one.
    pub(crate) fn frame(&self, line: Line) -> Option<Frame> {
        frame(self.trace, self.node(line)?)
    }

    /// A node of the call tree that is this line, where it has one.
    pub(crate) fn node(&self, line: Line) -> Option<StackId> {
        match line {
            Line::Known { line, .. } => self.nodes.get(line as usize).copied(),
            Line::BeforeRecording | Line::Op { .. } | Line::Thread { .. } => None,
        }
    }

    fn number(&mut self, stack: StackId) -> Option<u32> {
        let known = self.of_stack.get(stack.index()).copied()?;
        let known = if known == 0 {
            let number = user_node(self.trace, stack, self.torch_frames)
                .map_or(NO_LINE, |node| self.number_of_node(node) + 1);
            self.of_stack[stack.index()] = number;
            number
        } else {
            known
        };
        (known != NO_LINE).then(|| known - 1)
    }

    fn number_of_node(&mut self, node: StackId) -> u32 {
        let stack = self.trace.stack(node);
        let code = self.trace.code(stack.code);
        let (file, name) = code.map_or(("", ""), |code| (code.file.as_str(), code.name.as_str()));
        let next = u32::try_from(self.nodes.len()).expect("a trace has fewer than 2^32 stacks");
        *self.numbers.entry((file, name, stack.line)).or_insert_with(|| {
            self.nodes.push(node);
            next
        })
    }
}
