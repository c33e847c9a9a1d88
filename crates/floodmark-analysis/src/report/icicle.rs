//! Live memory as a tree: by the calls that led to it, or by modules.
//!
//! Children that are too small to see become one child `smaller`. Frames of frameworks are left out unless requested
//! ([`FrameChoice`]).

use floodmark_trace::{AllocationId, Bytes, Category, Stack, StackId, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::framework::{FrameChoice, is_framework};
use crate::grouping::live_groups::Live;
use crate::grouping::live_tree::{IcicleBy, LiveTree, add_live};
use crate::grouping::tree_builder::{TreeBuilder, TreeNode, TreePart};
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::moment::Moment;
use crate::moment::at::At;
use crate::question_error::QuestionError;

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

/// Live memory at a time, as a tree. Both indexes must be of this trace.
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
    let mut tree = LiveIcicle { nodes: Nodes::new(at.device.to_string()), trace, index };
    add_live(&mut tree, &live, by, frames);
    Ok(Icicle { total: at.allocated, at, root: tree.nodes.into_tree() })
}

/// An icicle of what is live.
struct LiveIcicle<'a> {
    nodes: Nodes<'a>,
    trace: &'a Trace,
    index: &'a TraceIndex,
}

impl<'a> LiveTree<'a> for LiveIcicle<'a> {
    fn named(&mut self, parent: usize, name: &'a str) -> usize {
        self.nodes.child(parent, Key::Text(name))
    }

    fn frame(&mut self, parent: usize, _id: StackId, frame: &Stack) -> Option<usize> {
        let code = self.trace.code(frame.code)?;
        let node = self.nodes.child(parent, Key::Frame(&code.file, &code.name, frame.line));
        self.nodes.0.part(node).shown.framework = is_framework(self.trace, frame);
        Some(node)
    }

    fn add(&mut self, node: usize, id: Option<AllocationId>, bytes: Bytes) {
        match id {
            Some(id) => self.nodes.add(node, id, bytes, self.index.category(id)),
            None => self.nodes.add_bytes(node, bytes, Category::Unknown),
        }
    }
}

/// The key of a node among its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    /// File, function, line.
    Frame(&'a str, &'a str, u32),
    Text(&'a str),
}

/// How many categories there are.
const CATEGORIES: usize = Category::ALL.len();

/// A node, with the bytes that decide its category.
#[derive(Debug, Default)]
struct Node {
    /// The bytes of each category, with all that is inside.
    categories: [u64; CATEGORIES],
    shown: IcicleNode,
}

impl TreePart for Node {
    type Shown = IcicleNode;

    fn add_inside(&mut self, inside: &Self) {
        let Self { categories, shown } = self;
        shown.bytes += inside.shown.bytes;
        shown.count += inside.shown.count;
        shown.first_allocation = first(shown.first_allocation, inside.shown.first_allocation);
        for (sum, bytes) in categories.iter_mut().zip(inside.categories) {
            *sum += bytes;
        }
    }

    fn into_shown(self) -> IcicleNode {
        IcicleNode { category: main_category(&self.categories), ..self.shown }
    }
}

impl TreeNode for IcicleNode {
    fn width(&self) -> Bytes {
        self.bytes
    }

    fn order(&self) -> (&str, Option<u32>) {
        (&self.name, self.line)
    }

    fn children(&mut self) -> &mut Vec<Self> {
        &mut self.children
    }

    fn smaller(small: &[Self]) -> Self {
        let bytes: Bytes = small.iter().map(|node| node.bytes).sum();
        Self {
            name: "smaller".to_owned(),
            category: Category::Unknown.name(),
            bytes,
            own: bytes,
            count: small.iter().map(|node| node.count).sum(),
            first_allocation: small.iter().filter_map(|node| node.first_allocation).min(),
            ..Self::default()
        }
    }
}

/// An icicle that is built.
pub(crate) struct Nodes<'a>(TreeBuilder<Key<'a>, Node>);

impl<'a> Nodes<'a> {
    pub(crate) fn new(name: String) -> Self {
        let shown = IcicleNode { name, ..IcicleNode::default() };
        Self(TreeBuilder::new(Node { shown, ..Node::default() }))
    }

    pub(crate) fn child(&mut self, parent: usize, key: Key<'a>) -> usize {
        self.0.child(parent, key, || {
            let (name, file, line) = match key {
                Key::Frame(file, name, line) => (name, Some(file.to_owned()), Some(line)),
                Key::Text(name) => (name, None, None),
            };
            let shown = IcicleNode { name: name.to_owned(), file, line, ..IcicleNode::default() };
            Node { shown, ..Node::default() }
        })
    }

    /// Adds an allocation to a node.
    pub(crate) fn add(&mut self, node: usize, id: AllocationId, bytes: Bytes, category: Category) {
        self.add_bytes(node, bytes, category);
        let shown = &mut self.0.part(node).shown;
        shown.count += 1;
        shown.first_allocation = first(shown.first_allocation, Some(id.0));
    }

    fn add_bytes(&mut self, node: usize, bytes: Bytes, category: Category) {
        let Node { categories, shown } = self.0.part(node);
        shown.bytes += bytes;
        shown.own += bytes;
        let at = Category::ALL.iter().position(|&one| one == category).unwrap_or(0);
        categories[at] += bytes.0;
    }

    pub(crate) fn into_tree(self) -> IcicleNode {
        self.0.into_tree()
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
