//! The frames of the stack that a thread saw last.

use std::sync::Arc;

use super::node::Node;
use crate::python::{self, CodeContents, RawFrame};

/// A frame of the stack that a thread saw last.
#[derive(Debug, Clone)]
pub(crate) struct SeenFrame {
    pub(crate) raw: RawFrame,
    pub(crate) node: Node,
    pub(crate) calls_module: bool,
    /// Must be looked up again: its code cannot be read, or its module has no name yet.
    pub(crate) is_volatile: bool,
    /// The attributes to compare, where the code object is not pinned.
    pub(crate) unpinned: Option<Arc<CodeContents>>,
    pub(crate) enters_engine: bool,
    /// The number of frames outside the engine, from the outermost to this one; 0 for none.
    pub(crate) inside_engine_from: usize,
}

impl SeenFrame {
    /// A frame whose addresses are all pinned.
    pub(crate) fn stable(
        raw: RawFrame,
        node: Node,
        calls_module: bool,
        enters_engine: bool,
    ) -> Self {
        Self {
            raw,
            node,
            calls_module,
            is_volatile: false,
            unpinned: None,
            enters_engine,
            inside_engine_from: 0,
        }
    }

    /// Whether all addresses in it are pinned.
    pub(crate) fn is_stable(&self) -> bool {
        !self.is_volatile && self.unpinned.is_none()
    }

    /// Whether the thread is at this frame again. The frame is running, so what it points to is alive.
    fn is_at(&self, frame: &RawFrame) -> bool {
        frame.code == self.raw.code
            && frame.instruction == self.raw.instruction
            && !self.is_volatile
            && (!self.calls_module || frame.first_local == self.raw.first_local)
            && self.unpinned.as_ref().is_none_or(|contents| python::has_contents(frame, contents))
    }
}

/// Adds an inner frame.
pub(crate) fn push_below(seen: &mut Vec<SeenFrame>, mut next: SeenFrame) {
    let engine = seen.last().map_or(0, |outer| outer.inside_engine_from);
    next.inside_engine_from = if next.enters_engine { seen.len() + 1 } else { engine };
    seen.push(next);
}

pub(crate) fn innermost_node(seen: &[SeenFrame]) -> Node {
    seen.last().map_or_else(Node::default, |outer| outer.node)
}

/// Drops the frames of `seen` that are not the outer frames of `frames`.
pub(crate) fn keep_common(frames: &[RawFrame], seen: &mut Vec<SeenFrame>) {
    let common =
        frames.iter().rev().zip(seen.iter()).take_while(|(frame, seen)| seen.is_at(frame)).count();
    seen.truncate(common);
}

/// The node of a stack, and the frames of it that run inside the autograd engine.
pub(crate) fn innermost(seen: &[SeenFrame]) -> (Node, &[SeenFrame], bool) {
    let Some(last) = seen.last() else { return (Node::default(), &[], false) };
    let inside = &seen[last.inside_engine_from..];
    (last.node, inside, last.inside_engine_from > 0)
}
