//! Live memory by call stack.

use floodmark_trace::StackId;

use crate::allocation::framework::FrameChoice;
use crate::allocation::location::{BEFORE_RECORDING, ShownStacks, frame, marked, user_node};
use crate::grouping::largest_by;
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Row};

/// A stack; blocks from before the recording sort first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    BeforeRecording,
    Stack { stack: StackId, backward: bool },
}

/// The largest stacks, and how many there are. Only those have their frames: a stack may have thousands.
pub(crate) fn rows(live: &Live<'_>, frames: FrameChoice, top: usize) -> (usize, Vec<Row>) {
    let trace = live.trace;
    let mut stacks = ShownStacks::new(trace, frames);
    let groups = live.group_by_with_unseen(Key::BeforeRecording, |_, allocation| {
        if allocation.before_recording {
            return Key::BeforeRecording;
        }
        Key::Stack { stack: stacks.shown(allocation.stack), backward: allocation.backward }
    });
    let found = groups.into_iter().map(|group| match group.key {
        Key::BeforeRecording => {
            let detail = Detail::Stack { frames: Vec::new(), module: None, backward: false };
            (group.into_row(BEFORE_RECORDING.to_owned(), detail), StackId(0))
        }
        Key::Stack { stack, backward } => {
            let user = user_node(trace, stack, frames.is_native()).and_then(|id| frame(trace, id));
            let location =
                user.map_or_else(|| "no Python frame".to_owned(), |frame| frame.to_string());
            let module = trace.module_path(stack).map(str::to_owned);
            let detail = Detail::Stack { frames: Vec::new(), module, backward };
            (group.into_row(marked(location, backward), detail), stack)
        }
    });
    let (total, mut found) = largest_by(found.collect(), top, |(row, _)| row);
    for (row, stack) in &mut found {
        if let Detail::Stack { frames, .. } = &mut row.detail {
            let shown = stacks.frames(*stack).into_iter();
            *frames = shown.filter_map(|(id, _)| frame(trace, id)).collect();
        }
    }
    (total, found.into_iter().map(|(row, _)| row).collect())
}
