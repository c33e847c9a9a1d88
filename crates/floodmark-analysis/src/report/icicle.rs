//! What is there at a moment, as a tree: by the calls that led to it, or by modules.
//!
//! Frames come outermost first. What the backward pass of a frame made lies in a child `backward` of it. What
//! is too small to be seen is one child `smaller` of the node that it is in. Frames of frameworks are left out unless they are
//! wanted ([`FrameChoice`]).

use std::str::FromStr;

use floodmark_trace::{AllocationId, Bytes, Category, Stack, StackId, Trace};
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::framework::{FrameChoice, ShownFrames, is_framework};
use crate::allocation::location::BEFORE_RECORDING;
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::moment::Moment;
use crate::moment::at::At;
use crate::question_error::QuestionError;
use crate::report::by_module::Tree;
use crate::report::live_groups::Live;

/// A node is shown when it has at least this part of all.
pub(crate) const SMALLEST_PART: u64 = 2000;

/// Deeper frames count to the one at this depth.
pub(crate) const MOST_DEPTH: usize = 200;

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
    /// Whether the frame is of torch, of an installed package or of Python's own library.
    pub framework: bool,
    /// The category with most of its bytes.
    #[schemars(with = "Category")]
    pub category: &'static str,
    /// What is allocated, with all that is inside.
    pub bytes: Bytes,
    /// What it made itself.
    pub own: Bytes,
    /// How many allocations, with all that are inside.
    pub count: u64,
    /// The first of them: allocations are numbered in the order in which they were allocated. Null where none was recorded.
    pub first_allocation: Option<u32>,
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
    frames: FrameChoice,
    at: At,
) -> Result<Icicle, QuestionError> {
    let at = moments.moment(trace, &index.context, at)?;
    let live = Live::from_allocations(trace, &at, moments.live(trace, at.after));
    let mut nodes = Nodes::new(at.device.to_string());
    match by {
        IcicleBy::Stack => add_stacks(&mut nodes, &live, index, frames),
        IcicleBy::Module => add_modules(&mut nodes, &live, index),
    }
    if live.unseen > Bytes(0) {
        let before = nodes.child(0, Key::Text(BEFORE_RECORDING));
        nodes.add_unseen(before, live.unseen);
    }
    Ok(Icicle { total: at.allocated, at, root: nodes.into_tree() })
}

fn add_stacks<'a>(nodes: &mut Nodes<'a>, live: &Live<'a>, index: &TraceIndex, frames: FrameChoice) {
    let mut frames = ShownFrames::new(live.trace, frames);
    let mut known: HashMap<StackId, usize> = HashMap::new();
    for &id in &live.allocations {
        let allocation = live.get(id);
        let mut node = if allocation.before_recording {
            nodes.child(0, Key::Text(BEFORE_RECORDING))
        } else {
            let stack = allocation.stack;
            *known.entry(stack).or_insert_with(|| node_of(nodes, live.trace, &frames.frames(stack)))
        };
        if allocation.backward {
            node = nodes.child(node, Key::Text("backward"));
        }
        nodes.add(node, id, allocation.rounded, index.category(id));
    }
}

/// The node of a stack's innermost frame.
fn node_of<'a>(nodes: &mut Nodes<'a>, trace: &'a Trace, frames: &[(StackId, Stack)]) -> usize {
    let frames: Vec<_> = frames
        .iter()
        .filter_map(|(_, frame)| {
            let code = trace.code(frame.code)?;
            let framework = is_framework(trace, frame);
            Some((code.file.as_str(), code.name.as_str(), frame.line, framework))
        })
        .collect();
    if frames.is_empty() {
        return nodes.child(0, Key::Text("no Python frame"));
    }
    let outermost = frames.iter().rev().take(MOST_DEPTH);
    outermost.fold(0, |node, &(file, name, line, framework)| {
        let child = nodes.child(node, Key::Frame(file, name, line));
        nodes.nodes[child].shown.framework = framework;
        child
    })
}

fn add_modules<'a>(nodes: &mut Nodes<'a>, live: &Live<'a>, index: &TraceIndex) {
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
        nodes.add(known[at], id, live.get(id).rounded, index.category(id));
    }
}

/// What tells a node from its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    /// File, function, line.
    Frame(&'a str, &'a str, u32),
    Text(&'a str),
}

/// How many categories there are.
const CATEGORIES: usize = Category::ALL.len();

#[derive(Debug, Default)]
struct Node {
    parent: Option<usize>,
    /// The bytes of each category, with all that is inside.
    categories: [u64; CATEGORIES],
    shown: IcicleNode,
}

pub(crate) struct Nodes<'a> {
    nodes: Vec<Node>,
    known: HashMap<(usize, Key<'a>), usize>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(name: String) -> Self {
        let shown = IcicleNode { name, ..IcicleNode::default() };
        Self { nodes: vec![Node { shown, ..Node::default() }], known: HashMap::new() }
    }

    pub(crate) fn child(&mut self, parent: usize, key: Key<'a>) -> usize {
        *self.known.entry((parent, key)).or_insert_with(|| {
            let (name, file, line) = match key {
                Key::Frame(file, name, line) => (name, Some(file.to_owned()), Some(line)),
                Key::Text(name) => (name, None, None),
            };
            let shown = IcicleNode { name: name.to_owned(), file, line, ..IcicleNode::default() };
            self.nodes.push(Node { parent: Some(parent), shown, ..Node::default() });
            self.nodes.len() - 1
        })
    }

    /// Adds an allocation to a node.
    pub(crate) fn add(&mut self, node: usize, id: AllocationId, bytes: Bytes, category: Category) {
        self.add_bytes(node, bytes, category);
        let shown = &mut self.nodes[node].shown;
        shown.count += 1;
        shown.first_allocation = first(shown.first_allocation, Some(id.0));
    }

    /// Adds bytes of no recorded allocation.
    fn add_unseen(&mut self, node: usize, bytes: Bytes) {
        self.add_bytes(node, bytes, Category::Unknown);
    }

    fn add_bytes(&mut self, node: usize, bytes: Bytes, category: Category) {
        let Node { categories, shown, .. } = &mut self.nodes[node];
        shown.bytes += bytes;
        shown.own += bytes;
        let at = Category::ALL.iter().position(|&one| one == category).unwrap_or(0);
        categories[at] += bytes.0;
    }

    /// Sums up from the leaves; children come after their parents.
    pub(crate) fn into_tree(mut self) -> IcicleNode {
        for at in (1..self.nodes.len()).rev() {
            let Node { parent, categories, shown } = &self.nodes[at];
            let (parent, bytes, count) = (parent.unwrap_or(0), shown.bytes, shown.count);
            let first_inside = shown.first_allocation;
            let inside = *categories;
            let around = &mut self.nodes[parent];
            around.shown.bytes += bytes;
            around.shown.count += count;
            around.shown.first_allocation = first(around.shown.first_allocation, first_inside);
            for (sum, bytes) in around.categories.iter_mut().zip(inside) {
                *sum += bytes;
            }
        }
        let smallest = self.nodes[0].shown.bytes.0 / SMALLEST_PART;
        while let Some(Node { parent, categories, mut shown }) = self.nodes.pop() {
            shown.category = main_category(&categories);
            gather(&mut shown.children, smallest);
            match parent {
                Some(parent) if shown.bytes > Bytes(0) => {
                    self.nodes[parent].shown.children.push(shown);
                }
                Some(_) => {}
                None => return shown,
            }
        }
        IcicleNode::default()
    }
}

/// The first of two allocations, where there are any.
fn first(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}

/// The category with most bytes; of several the first.
fn main_category(categories: &[u64; CATEGORIES]) -> &'static str {
    let largest = (0..CATEGORIES).rev().max_by_key(|&at| categories[at]);
    largest.map_or(Category::Unknown, |at| Category::ALL[at]).name()
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
        let first_allocation = small.iter().filter_map(|node| node.first_allocation).min();
        let name = "smaller".to_owned();
        let category = Category::Unknown.name();
        shown.push(IcicleNode {
            name,
            category,
            bytes,
            own: bytes,
            count,
            first_allocation,
            ..IcicleNode::default()
        });
    }
    *children = shown;
}
