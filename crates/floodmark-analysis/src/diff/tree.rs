//! What two traces have at a time, as one tree: by the calls that led to it, or by modules.
//!
//! A node of both traces is one node, with the bytes of either. A node is as wide as the larger side of what it
//! allocated itself, and as all that is inside it; so what grew, shrank, is new or is gone can be seen in one picture.

use floodmark_trace::{AllocationId, Bytes, Stack, StackId, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::allocation::framework::FrameChoice;
use crate::allocation::location::frame;
use crate::diff::align::{Aligner, Side, Spot};
use crate::diff::{Both, DiffError, DiffSides, Total, in_a, in_b};
use crate::grouping::by_step::difference;
use crate::grouping::live_groups::Live;
use crate::grouping::live_tree::IcicleBy;
use crate::grouping::live_tree::{LiveTree, add_live};
use crate::grouping::tree_builder::{TreeBuilder, TreeNode, TreePart};
use crate::moment::{Moment, moment};

/// The change of a node from the first trace to the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffKind {
    /// The bytes are the same.
    #[default]
    Same,
    /// More bytes.
    Grown,
    /// Fewer bytes.
    Shrunk,
    /// Only the second trace has it.
    New,
    /// Only the first trace has it.
    Gone,
}

impl DiffKind {
    fn from_bytes(a: Bytes, b: Bytes) -> Self {
        match (a.0, b.0) {
            (a, b) if a == b => Self::Same,
            (0, _) => Self::New,
            (_, 0) => Self::Gone,
            (a, b) if a < b => Self::Grown,
            _ => Self::Shrunk,
        }
    }
}

/// A part of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiffNode {
    /// The function, or the last part of a module's name.
    pub name: String,
    /// The file of a frame: in the second trace, or in the first where the second lacks it.
    pub file: Option<String>,
    /// The line of a frame.
    pub line: Option<u32>,
    /// What happened to it.
    pub kind: DiffKind,
    /// What the first trace has, with all that is inside.
    pub a: Bytes,
    /// What the second trace has.
    pub b: Bytes,
    /// `b` minus `a`.
    pub change: i64,
    /// What it allocated itself: the change.
    pub own_change: i64,
    /// How wide it is: what it allocated itself, the larger of the two, and all that is inside.
    pub bytes: Bytes,
    /// The widest first.
    pub children: Vec<DiffNode>,
}

/// What two traces have at a time, as one tree.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DiffTree {
    /// The times.
    pub at: Both<Moment>,
    /// torch's totals of allocated bytes.
    pub allocated: Total,
    /// Everything.
    pub root: DiffNode,
}

/// What two traces have at a time, as one tree.
pub fn diff_tree(
    a: &Trace,
    b: &Trace,
    sides: &DiffSides,
    by: IcicleBy,
    frames: FrameChoice,
) -> Result<DiffTree, DiffError> {
    let devices = sides.devices(a, b)?;
    let at = Both {
        a: moment(a, &Context::new(a), devices.a, sides.at.a).map_err(in_a)?,
        b: moment(b, &Context::new(b), devices.b, sides.at.b).map_err(in_b)?,
    };
    let mut joined = Joined {
        aligner: Aligner::new(a, b, &sides.renamed),
        tree: TreeBuilder::new(Node::default()),
        side: Side::A,
        trace: a,
    };
    for (side, trace, at) in [(Side::A, a, &at.a), (Side::B, b, &at.b)] {
        (joined.side, joined.trace) = (side, trace);
        add_live(&mut joined, &Live::at(trace, at), by, frames);
    }
    let mut root = joined.tree.into_tree();
    root.name = if devices.a == devices.b {
        devices.a.to_string()
    } else {
        format!("{} → {}", devices.a, devices.b)
    };
    Ok(DiffTree { allocated: Total::new(at.a.allocated, at.b.allocated), at, root })
}

/// The key of a node among its siblings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Spot(Spot),
    Text(String),
}

/// A node with what it allocated itself in either trace.
#[derive(Debug, Default)]
struct Node {
    own: [Bytes; 2],
    /// The sums are those of what is inside.
    shown: DiffNode,
}

impl Node {
    /// Its bytes in either trace and its width, with all that is inside.
    fn sums(&self) -> (Bytes, Bytes, Bytes) {
        let Self { own: [a, b], shown } = self;
        (shown.a + *a, shown.b + *b, shown.bytes + *a.max(b))
    }
}

impl TreePart for Node {
    type Shown = DiffNode;

    fn add_inside(&mut self, inside: &Self) {
        let (a, b, bytes) = inside.sums();
        self.shown.a += a;
        self.shown.b += b;
        self.shown.bytes += bytes;
    }

    fn into_shown(self) -> DiffNode {
        let (a, b, bytes) = self.sums();
        DiffNode {
            kind: DiffKind::from_bytes(a, b),
            a,
            b,
            change: difference(b, a),
            own_change: difference(self.own[1], self.own[0]),
            bytes,
            ..self.shown
        }
    }
}

impl TreeNode for DiffNode {
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
        let sum = |of: fn(&Self) -> Bytes| small.iter().map(of).sum::<Bytes>();
        let (a, b) = (sum(|node| node.a), sum(|node| node.b));
        let change = difference(b, a);
        Self {
            name: "smaller".to_owned(),
            kind: DiffKind::from_bytes(a, b),
            a,
            b,
            change,
            own_change: change,
            bytes: sum(|node| node.bytes),
            ..Self::default()
        }
    }
}

/// The tree of both traces, while what one of them has is added.
struct Joined<'a> {
    aligner: Aligner<'a>,
    tree: TreeBuilder<Key, Node>,
    side: Side,
    trace: &'a Trace,
}

impl<'a> LiveTree<'a> for Joined<'a> {
    fn named(&mut self, parent: usize, name: &'a str) -> usize {
        self.tree.child(parent, Key::Text(name.to_owned()), || Node {
            shown: DiffNode { name: name.to_owned(), ..DiffNode::default() },
            ..Node::default()
        })
    }

    fn frame(&mut self, parent: usize, id: StackId, _frame: &Stack) -> Option<usize> {
        let spot = self.aligner.spot(self.side, self.trace, id)?;
        let found = frame(self.trace, id)?;
        let node = self.tree.child(parent, Key::Spot(spot), Node::default);
        let shown = &mut self.tree.part(node).shown;
        // The second trace is added last: it decides the name of a node.
        (shown.name, shown.file, shown.line) = (found.function, Some(found.file), Some(found.line));
        Some(node)
    }

    fn add(&mut self, node: usize, _id: Option<AllocationId>, bytes: Bytes) {
        let [a, b] = &mut self.tree.part(node).own;
        *match self.side {
            Side::A => a,
            Side::B => b,
        } += bytes;
    }
}
