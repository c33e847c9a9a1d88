//! A thread's own table of call tree nodes that it has used before.
//!
//! A training step has the same few thousand stacks again and again. The tree is shared, so a lookup in
//! it takes its lock and three tables; a node that is remembered here takes one lookup and no lock. Only
//! frames whose addresses are pinned are remembered, and only until [`EPOCH`] changes.
//!
//! [`EPOCH`]: super::node::EPOCH

use crate::budget::Budget;
use crate::python::RawFrame;

use super::node::Node;
use super::seen_frame::{SeenFrame, innermost_node, push_below};

/// A power of two. Each takes 40 bytes.
const SHORTCUTS: usize = 4096;

/// A frame below `parent`, and the node that it leads to.
#[derive(Debug, Clone, Copy, Default)]
struct Shortcut {
    code: usize,
    instruction: usize,
    module: usize,
    parent: u32,
    epoch: u32,
    node: Node,
    calls_module: bool,
    enters_engine: bool,
}

impl Shortcut {
    fn is(&self, epoch: u32, parent: u32, frame: &RawFrame) -> bool {
        self.epoch == epoch
            && self.parent == parent
            && self.code == frame.code
            && self.instruction == frame.instruction
    }
}

/// Shortcuts by their parent, code and instruction, and where the code calls a module, by the module too.
#[derive(Debug, Default)]
pub(crate) struct Shortcuts(Vec<Shortcut>);

fn slot(parent: u32, frame: &RawFrame, module: usize) -> usize {
    let mixed = (frame.instruction as u64)
        .wrapping_add((frame.code as u64).rotate_left(23))
        .wrapping_add((module as u64).rotate_left(41))
        .wrapping_add(u64::from(parent) << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize % SHORTCUTS
}

impl Shortcuts {
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.len() * size_of::<Shortcut>()
    }

    /// The frame below `parent`, if it is remembered.
    pub(crate) fn find(&self, epoch: u32, parent: Node, frame: &RawFrame) -> Option<SeenFrame> {
        let mut shortcut = self.0.get(slot(parent.id, frame, 0))?;
        if !shortcut.is(epoch, parent.id, frame) {
            return None;
        }
        if shortcut.calls_module && shortcut.module != frame.first_local {
            shortcut = self.0.get(slot(parent.id, frame, frame.first_local))?;
            if shortcut.module != frame.first_local || !shortcut.is(epoch, parent.id, frame) {
                return None;
            }
        }
        Some(SeenFrame::stable(
            *frame,
            shortcut.node,
            shortcut.calls_module,
            shortcut.enters_engine,
        ))
    }

    /// Stores the node of a frame below `parent`.
    pub(crate) fn remember(&mut self, epoch: u32, parent: Node, seen: &SeenFrame, budget: &Budget) {
        // A frame of the recorder has its parent's node, which is rare.
        if !seen.is_stable() || seen.node == parent {
            return;
        }
        if self.0.is_empty() {
            if !budget.take_shortcuts(SHORTCUTS * size_of::<Shortcut>()) {
                return;
            }
            self.0.resize(SHORTCUTS, Shortcut::default());
        }
        let frame = &seen.raw;
        let calls_module = seen.calls_module;
        let shortcut = Shortcut {
            code: frame.code,
            instruction: frame.instruction,
            module: if calls_module { frame.first_local } else { 0 },
            parent: parent.id,
            epoch,
            node: seen.node,
            calls_module,
            enters_engine: seen.enters_engine,
        };
        self.0[slot(parent.id, frame, 0)] = shortcut;
        if calls_module {
            self.0[slot(parent.id, frame, frame.first_local)] = shortcut;
        }
    }
}

/// Updates `seen` to `frames`, as far as the thread has stored them.
pub(crate) fn follow(
    shortcuts: &Shortcuts,
    epoch: u32,
    frames: &[RawFrame],
    seen: &mut Vec<SeenFrame>,
) {
    for frame in frames[..frames.len() - seen.len()].iter().rev() {
        let Some(next) = shortcuts.find(epoch, innermost_node(seen), frame) else { return };
        push_below(seen, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Node = Node { id: 1, flags: 0 };
    const NODE: Node = Node { id: 2, flags: 3 };

    fn frame(instruction: usize, first_local: usize) -> RawFrame {
        RawFrame { code: 0x1000, instruction, first_local }
    }

    fn found(shortcuts: &Shortcuts, epoch: u32, parent: Node, frame: &RawFrame) -> Option<Node> {
        shortcuts.find(epoch, parent, frame).map(|seen| seen.node)
    }

    #[test]
    fn a_frame_is_found_below_its_caller_until_the_epoch_changes() {
        let mut shortcuts = Shortcuts::default();
        assert_eq!(found(&shortcuts, 5, PARENT, &frame(8, 0)), None);
        let seen = SeenFrame::stable(frame(8, 70), NODE, false, true);
        shortcuts.remember(5, PARENT, &seen, &Budget::new(64 << 20));
        // Ignores the first local of a function that calls no module.
        let again = shortcuts.find(5, PARENT, &frame(8, 71)).expect("it is remembered");
        assert_eq!((again.node, again.enters_engine, again.is_stable()), (NODE, true, true));
        assert_eq!(found(&shortcuts, 6, PARENT, &frame(8, 70)), None, "another epoch");
        assert_eq!(found(&shortcuts, 5, NODE, &frame(8, 70)), None, "another caller");
        assert_eq!(found(&shortcuts, 5, PARENT, &frame(9, 70)), None, "another instruction");
    }

    #[test]
    fn a_call_of_a_module_is_found_by_the_module() {
        let (mut shortcuts, budget) = (Shortcuts::default(), Budget::new(64 << 20));
        for (module, id) in [(70, 10), (80, 11)] {
            let node = Node { id, flags: 0 };
            let seen = SeenFrame::stable(frame(8, module), node, true, false);
            shortcuts.remember(5, PARENT, &seen, &budget);
        }
        let id = |module| found(&shortcuts, 5, PARENT, &frame(8, module)).map(|node| node.id);
        assert_eq!((id(70), id(80), id(90)), (Some(10), Some(11), None));
    }

    #[test]
    fn nothing_is_remembered_beyond_the_share() {
        let mut shortcuts = Shortcuts::default();
        let seen = SeenFrame::stable(frame(8, 0), NODE, false, false);
        shortcuts.remember(5, PARENT, &seen, &Budget::new(16));
        assert_eq!((found(&shortcuts, 5, PARENT, &frame(8, 0)), shortcuts.held_bytes()), (None, 0));
    }

    #[test]
    fn frames_of_the_recorder_are_not_remembered() {
        let mut shortcuts = Shortcuts::default();
        let ours = SeenFrame::stable(frame(8, 0), PARENT, false, false);
        shortcuts.remember(5, PARENT, &ours, &Budget::new(64 << 20));
        assert_eq!(shortcuts.held_bytes(), 0);
    }
}
