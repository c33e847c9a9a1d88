//! Builds the trees of icicles: nodes are found by their keys, sums go from the leaves to the root, and nodes that are too
//! small to see become one child `smaller`.

use std::hash::Hash;

use floodmark_trace::Bytes;
use hashbrown::HashMap;

use crate::grouping::by_module::Tree;

/// A node is shown when it has at least this part of all.
const SMALLEST_PART: u64 = 2000;

/// A node while the tree is built.
pub(crate) trait TreePart {
    /// The node as the answer has it.
    type Shown: TreeNode;

    /// Adds the sums of a node that lies inside.
    fn add_inside(&mut self, inside: &Self);

    /// The node without its children.
    fn into_shown(self) -> Self::Shown;
}

/// A node as an answer has it.
pub(crate) trait TreeNode: Sized {
    /// How wide it is: its bytes, with all that is inside.
    fn width(&self) -> Bytes;

    /// The order of nodes with the same width.
    fn order(&self) -> (&str, Option<u32>);

    fn children(&mut self) -> &mut Vec<Self>;

    /// The node that stands for several small ones.
    fn smaller(small: &[Self]) -> Self;
}

/// A tree that is built. Node 0 is its root.
pub(crate) struct TreeBuilder<K, P> {
    nodes: Vec<BuiltNode<P>>,
    known: HashMap<(usize, K), usize>,
}

struct BuiltNode<P> {
    parent: Option<usize>,
    part: P,
}

impl<K: Hash + Eq, P: TreePart> TreeBuilder<K, P> {
    pub(crate) fn new(root: P) -> Self {
        Self { nodes: vec![BuiltNode { parent: None, part: root }], known: HashMap::new() }
    }

    /// The child of a node with a key; made where there is none.
    pub(crate) fn child(&mut self, parent: usize, key: K, make: impl FnOnce() -> P) -> usize {
        *self.known.entry((parent, key)).or_insert_with(|| {
            self.nodes.push(BuiltNode { parent: Some(parent), part: make() });
            self.nodes.len() - 1
        })
    }

    pub(crate) fn part(&mut self, node: usize) -> &mut P {
        &mut self.nodes[node].part
    }

    /// Sums up from the leaves; children come after their parents.
    pub(crate) fn into_tree(mut self) -> P::Shown {
        for at in (1..self.nodes.len()).rev() {
            let (before, rest) = self.nodes.split_at_mut(at);
            let parent = rest[0].parent.unwrap_or(0);
            before[parent].part.add_inside(&rest[0].part);
        }
        let mut shown: Vec<(Option<usize>, P::Shown)> =
            self.nodes.into_iter().map(|node| (node.parent, node.part.into_shown())).collect();
        let smallest = shown[0].1.width().0 / SMALLEST_PART;
        loop {
            let (parent, mut node) = shown.pop().expect("the root returns");
            gather(node.children(), smallest);
            match parent {
                Some(parent) if node.width() > Bytes(0) => shown[parent].1.children().push(node),
                Some(_) => {}
                None => return node,
            }
        }
    }
}

/// Puts the widest first, and what is too small into one.
fn gather<N: TreeNode>(children: &mut Vec<N>, smallest: u64) {
    let (mut shown, small): (Vec<N>, Vec<N>) =
        std::mem::take(children).into_iter().partition(|node| node.width().0 >= smallest);
    shown.sort_by(|one, other| (other.width(), one.order()).cmp(&(one.width(), other.order())));
    if !small.is_empty() {
        shown.push(N::smaller(&small));
    }
    *children = shown;
}

/// The nodes of all modules so far, in the order of `tree`; `child` finds the node of a name inside a node.
pub(crate) fn module_nodes<'a>(
    tree: &Tree<'a>,
    mut child: impl FnMut(usize, &'a str) -> usize,
) -> Vec<usize> {
    let mut known: Vec<usize> = Vec::new();
    // A parent comes before its children.
    for (path, parent) in tree.paths().zip(tree.parents()) {
        let around = parent.map_or(0, |parent| known[parent]);
        let name = match parent {
            Some(_) => path.rsplit_once('.').map_or(path, |(_, last)| last),
            None => path,
        };
        known.push(child(around, name));
    }
    known
}
