//! What is there at a moment, as a tree: by the calls that led to it, or by modules.
//!
//! Frames come outermost first. What the backward pass of a frame made lies in a child `backward` of it. What
//! is too small to be seen is one child `smaller` of the node that it is in.

use std::str::FromStr;

use floodmark_trace::{Bytes, StackId, Trace};
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::location::BEFORE_RECORDING;
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::moment::Moment;
use crate::moment::at::At;
use crate::question_error::QuestionError;
use crate::report::by_module::Tree;
use crate::report::live_groups::Live;

/// A node is shown when it has at least this part of all.
const SMALLEST_PART: u64 = 2000;

/// Deeper frames count to the one at this depth.
const MOST_DEPTH: usize = 200;

/// What the tree is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum IcicleBy {
    /// Calls.
    #[default]
    Stack,
    /// Modules.
    Module,
}

/// The text names no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an icicle is by `stack` or `module`")]
pub struct NotAnIcicle;

impl FromStr for IcicleBy {
    type Err = NotAnIcicle;

    fn from_str(text: &str) -> Result<Self, NotAnIcicle> {
        match text {
            "stack" => Ok(Self::Stack),
            "module" => Ok(Self::Module),
            _ => Err(NotAnIcicle),
        }
    }
}

/// A part of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IcicleNode {
    /// The function, or the last part of a module's name.
    pub name: String,
    /// The file of a frame.
    pub file: Option<String>,
    /// The line of a frame.
    pub line: Option<u32>,
    /// What is allocated, with all that is inside.
    pub bytes: Bytes,
    /// What it made itself.
    pub own: Bytes,
    /// How many allocations, with all that are inside.
    pub count: u64,
    /// The largest first.
    pub children: Vec<IcicleNode>,
}

/// The tree.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Icicle {
    /// The moment.
    pub at: Moment,
    /// What is allocated.
    pub total: Bytes,
    /// Everything.
    pub root: IcicleNode,
}

/// What is there at a moment, as a tree. Both indexes must be of this trace.
pub fn icicle(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    by: IcicleBy,
    at: At,
) -> Result<Icicle, QuestionError> {
    let at = moments.moment(trace, &index.context, at)?;
    let live = Live::from_allocations(trace, &at, moments.live(trace, at.after));
    let mut nodes = Nodes::new(at.device.to_string());
    match by {
        IcicleBy::Stack => add_stacks(&mut nodes, &live),
        IcicleBy::Module => add_modules(&mut nodes, &live),
    }
    if live.unseen > Bytes(0) {
        let before = nodes.child(0, Key::Text(BEFORE_RECORDING));
        nodes.add(before, live.unseen, 0);
    }
    Ok(Icicle { total: at.allocated, at, root: nodes.into_tree() })
}

fn add_stacks<'a>(nodes: &mut Nodes<'a>, live: &Live<'a>) {
    let mut known: HashMap<StackId, usize> = HashMap::new();
    for &id in &live.allocations {
        let allocation = live.get(id);
        let mut node = if allocation.before_recording {
            nodes.child(0, Key::Text(BEFORE_RECORDING))
        } else {
            let stack = allocation.stack;
            *known.entry(stack).or_insert_with(|| node_of(nodes, live.trace, stack))
        };
        if allocation.backward {
            node = nodes.child(node, Key::Text("backward"));
        }
        nodes.add(node, allocation.rounded, 1);
    }
}

/// The node of a stack's innermost frame.
fn node_of<'a>(nodes: &mut Nodes<'a>, trace: &'a Trace, stack: StackId) -> usize {
    let frames: Vec<(&str, &str, u32)> = trace
        .python_frames(stack)
        .filter_map(|(_, frame)| {
            let code = trace.code(frame.code)?;
            Some((code.file.as_str(), code.name.as_str(), frame.line))
        })
        .collect();
    if frames.is_empty() {
        return nodes.child(0, Key::Text("no Python frame"));
    }
    let outermost = frames.iter().rev().take(MOST_DEPTH);
    outermost.fold(0, |node, &(file, name, line)| nodes.child(node, Key::Frame(file, name, line)))
}

fn add_modules<'a>(nodes: &mut Nodes<'a>, live: &Live<'a>) {
    let mut tree = Tree::new(live.trace);
    let found: Vec<usize> = live.allocations.iter().map(|&id| tree.node_of(live.get(id))).collect();
    let mut known: Vec<usize> = Vec::new();
    // A parent comes before its children.
    for (path, parent) in tree.paths().zip(tree.parents()) {
        let around = parent.map_or(0, |parent| known[parent]);
        let name = match parent {
            Some(_) => path.rsplit_once('.').map_or(path, |(_, last)| last),
            None => path,
        };
        known.push(nodes.child(around, Key::Text(name)));
    }
    for (&id, at) in live.allocations.iter().zip(found) {
        nodes.add(known[at], live.get(id).rounded, 1);
    }
}

/// What tells a node from its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    /// File, function, line.
    Frame(&'a str, &'a str, u32),
    Text(&'a str),
}

struct Nodes<'a> {
    nodes: Vec<(Option<usize>, IcicleNode)>,
    known: HashMap<(usize, Key<'a>), usize>,
}

impl<'a> Nodes<'a> {
    fn new(name: String) -> Self {
        let root = IcicleNode { name, ..IcicleNode::default() };
        Self { nodes: vec![(None, root)], known: HashMap::new() }
    }

    fn child(&mut self, parent: usize, key: Key<'a>) -> usize {
        *self.known.entry((parent, key)).or_insert_with(|| {
            let (name, file, line) = match key {
                Key::Frame(file, name, line) => (name, Some(file.to_owned()), Some(line)),
                Key::Text(name) => (name, None, None),
            };
            let node = IcicleNode { name: name.to_owned(), file, line, ..IcicleNode::default() };
            self.nodes.push((Some(parent), node));
            self.nodes.len() - 1
        })
    }

    fn add(&mut self, node: usize, bytes: Bytes, count: u64) {
        let node = &mut self.nodes[node].1;
        node.bytes += bytes;
        node.own += bytes;
        node.count += count;
    }

    /// Sums up from the leaves; children come after their parents.
    fn into_tree(mut self) -> IcicleNode {
        for at in (1..self.nodes.len()).rev() {
            let (parent, IcicleNode { bytes, count, .. }) = &self.nodes[at];
            let (parent, bytes, count) = (parent.unwrap_or(0), *bytes, *count);
            self.nodes[parent].1.bytes += bytes;
            self.nodes[parent].1.count += count;
        }
        let smallest = self.nodes[0].1.bytes.0 / SMALLEST_PART;
        while let Some((parent, mut node)) = self.nodes.pop() {
            gather(&mut node.children, smallest);
            match parent {
                Some(parent) if node.bytes > Bytes(0) => {
                    self.nodes[parent].1.children.push(node);
                }
                Some(_) => {}
                None => return node,
            }
        }
        IcicleNode::default()
    }
}

/// Puts the largest first, and what is too small into one.
fn gather(children: &mut Vec<IcicleNode>, smallest: u64) {
    let (mut shown, small): (Vec<_>, Vec<_>) =
        std::mem::take(children).into_iter().partition(|node| node.bytes.0 >= smallest);
    shown.sort_by(|one, other| {
        (other.bytes, &one.name, one.line).cmp(&(one.bytes, &other.name, other.line))
    });
    if !small.is_empty() {
        let bytes: Bytes = small.iter().map(|node| node.bytes).sum();
        let count = small.iter().map(|node| node.count).sum();
        let name = "smaller".to_owned();
        shown.push(IcicleNode { name, bytes, own: bytes, count, ..IcicleNode::default() });
    }
    *children = shown;
}
