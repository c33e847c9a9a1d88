//! Which call stacks hold the memory.

use floodmark_trace::StackId;

use crate::allocation::framework::FrameChoice;
use crate::allocation::location::{BEFORE_RECORDING, ShownStacks, frame, marked, user_node};
use crate::report::live_groups::Live;
use crate::report::row::{Detail, Row};

/// A stack; blocks from before the recording sort first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    BeforeRecording,
    Stack { stack: StackId, backward: bool },
}

pub(crate) fn rows(live: &Live<'_>, frames: FrameChoice) -> Vec<Row> {
    let trace = live.trace;
    let mut stacks = ShownStacks::new(trace, frames);
    let groups = live.group_by_with_unseen(Key::BeforeRecording, |_, allocation| {
        if allocation.before_recording {
            return Key::BeforeRecording;
        }
        Key::Stack { stack: stacks.shown(allocation.stack), backward: allocation.backward }
    });
    groups
        .into_iter()
        .map(|group| match group.key {
            Key::BeforeRecording => {
                let detail = Detail::Stack { frames: Vec::new(), module: None, backward: false };
                group.into_row(BEFORE_RECORDING.to_owned(), detail)
            }
            Key::Stack { stack, backward } => {
                let user =
                    user_node(trace, stack, frames.is_native()).and_then(|id| frame(trace, id));
                let location =
                    user.map_or_else(|| "no Python frame".to_owned(), |frame| frame.to_string());
                let shown = stacks.frames(stack).into_iter();
                let frames = shown.filter_map(|(id, _)| frame(trace, id)).collect();
                let module = trace.module_path(stack).map(str::to_owned);
                let detail = Detail::Stack { frames, module, backward };
                group.into_row(marked(location, backward), detail)
            }
        })
        .collect()
}
