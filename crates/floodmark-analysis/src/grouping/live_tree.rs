//! Builds a tree of live memory: by the calls that allocated it, or by modules.
//!
//! Frames come outermost first. What the backward pass of a frame allocated lies in a child `backward` of it.

use std::str::FromStr;

use floodmark_trace::{AllocationId, Bytes, Stack, StackId};
use hashbrown::HashMap;

use crate::allocation::framework::{FrameChoice, ShownFrames};
use crate::allocation::location::BEFORE_RECORDING;
use crate::grouping::by_module::Tree;
use crate::invalid_value::InvalidValue;

use crate::grouping::live_groups::Live;
use crate::grouping::tree_builder::module_nodes;

/// Deeper frames count for the one at this depth.
pub(crate) const MOST_DEPTH: usize = 200;

/// The kind of tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum IcicleBy {
    /// Calls.
    #[default]
    Stack,
    /// Modules.
    Module,
}

/// The message for another text.
const EXPECTED: InvalidValue = InvalidValue("an icicle is by `stack` or `module`");

impl FromStr for IcicleBy {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "stack" => Ok(Self::Stack),
            "module" => Ok(Self::Module),
            _ => Err(EXPECTED),
        }
    }
}

/// A tree of what is live. Node 0 is its root.
pub(crate) trait LiveTree<'a> {
    /// The child of a node with a name.
    fn named(&mut self, parent: usize, name: &'a str) -> usize;

    /// The child of a node for a frame; none where the file lacks its function.
    fn frame(&mut self, parent: usize, id: StackId, frame: &Stack) -> Option<usize>;

    /// Adds an allocation, or bytes of no recorded one, to a node.
    fn add(&mut self, node: usize, id: Option<AllocationId>, bytes: Bytes);
}

/// Adds all that is live to a tree.
pub(crate) fn add_live<'a>(
    tree: &mut impl LiveTree<'a>,
    live: &Live<'a>,
    by: IcicleBy,
    frames: FrameChoice,
) {
    match by {
        IcicleBy::Stack => add_stacks(tree, live, frames),
        IcicleBy::Module => add_modules(tree, live),
    }
    if live.unseen > Bytes(0) {
        let before = tree.named(0, BEFORE_RECORDING);
        tree.add(before, None, live.unseen);
    }
}

fn add_stacks<'a>(tree: &mut impl LiveTree<'a>, live: &Live<'a>, frames: FrameChoice) {
    let mut frames = ShownFrames::new(live.trace, frames);
    let mut known: HashMap<StackId, usize> = HashMap::new();
    for &id in &live.allocations {
        let allocation = live.get(id);
        let mut node = if allocation.before_recording {
            tree.named(0, BEFORE_RECORDING)
        } else {
            let stack = allocation.stack;
            *known.entry(stack).or_insert_with(|| innermost(tree, &frames.frames(stack)))
        };
        if allocation.backward {
            node = tree.named(node, "backward");
        }
        tree.add(node, Some(id), allocation.rounded);
    }
}

/// The node of a stack's innermost frame; frames come innermost first.
fn innermost<'a>(tree: &mut impl LiveTree<'a>, frames: &[(StackId, Stack)]) -> usize {
    let outermost = frames.iter().rev().take(MOST_DEPTH);
    let node = outermost.fold(0, |node, (id, frame)| tree.frame(node, *id, frame).unwrap_or(node));
    if node == 0 { tree.named(0, "no Python frame") } else { node }
}

fn add_modules<'a>(tree: &mut impl LiveTree<'a>, live: &Live<'a>) {
    let mut modules = Tree::new(live.trace);
    let node_of = |&id: &AllocationId| (id, modules.node_of(live.get(id)));
    let found: Vec<_> = live.allocations.iter().map(node_of).collect();
    let known = module_nodes(&modules, |around, name| tree.named(around, name));
    for (id, at) in found {
        tree.add(known[at], Some(id), live.get(id).rounded);
    }
}
