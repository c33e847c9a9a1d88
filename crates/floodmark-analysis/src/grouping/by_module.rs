//! Live memory by module: a tree, with each module's own allocations and those inside it.
//!
//! [`crate::allocation::tensor_module`] finds the module of an allocation. Containers whose `forward` never runs
//! (`layers` of `layers.0`) are nodes too.

use floodmark_trace::{Allocation, Bytes, LabelId, StackId, Trace};
use hashbrown::HashMap;

use crate::allocation::location::BEFORE_RECORDING;
use crate::allocation::tensor_module::{TensorModules, parent};
use crate::grouping::live_groups::{Group, Live};
use crate::grouping::row::{Detail, Row};

const NO_MODULE: &str = "(no module)";

pub(crate) fn rows(live: &Live<'_>, top: usize) -> (usize, Vec<Row>) {
    let mut tree = Tree::new(live.trace);
    let before = tree.node(BEFORE_RECORDING);
    let groups = live.group_by_with_unseen(before, |_, allocation| tree.node_of(allocation));
    let mut rows = tree.rows(live, &groups);
    let total = rows.len();
    if top < total {
        let mut order: Vec<usize> = (0..total).collect();
        // A module is never smaller than the modules inside it, so the kept rows are a tree.
        order.sort_by_key(|&at| std::cmp::Reverse(rows[at].bytes));
        let mut kept = vec![false; total];
        order[..top].iter().for_each(|&at| kept[at] = true);
        let mut kept = kept.into_iter();
        rows.retain(|_| kept.next() == Some(true));
    }
    (total, rows)
}

/// What each module made itself, with the module's path.
pub(crate) fn own<'a>(live: &Live<'a>) -> Vec<(&'a str, Group<usize>)> {
    let mut tree = Tree::new(live.trace);
    let before = tree.node(BEFORE_RECORDING);
    let groups = live.group_by_with_unseen(before, |_, allocation| tree.node_of(allocation));
    groups.into_iter().map(|group| (tree.nodes[group.key].path, group)).collect()
}

#[derive(Debug)]
struct Node<'a> {
    path: &'a str,
    parent: Option<usize>,
    depth: u32,
    class: Option<&'a str>,
}

/// Nodes in the order in which they were first needed: a parent before its children.
pub(crate) struct Tree<'a> {
    trace: &'a Trace,
    nodes: Vec<Node<'a>>,
    by_path: HashMap<&'a str, usize>,
    /// Per stack: 1 + its node, or 0 while not known.
    of_stack: Vec<usize>,
    of_label: HashMap<LabelId, usize>,
    modules: TensorModules<'a>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            nodes: Vec::new(),
            by_path: HashMap::new(),
            of_stack: vec![0; trace.stack_count()],
            of_label: HashMap::new(),
            modules: TensorModules::new(trace),
        }
    }

    /// The node of blocks from before the recording without a known module.
    pub(crate) fn before_recording(&mut self) -> usize {
        self.node(BEFORE_RECORDING)
    }

    /// The qualified name of every node so far.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.nodes.iter().map(|node| node.path)
    }

    /// The node around every node so far.
    pub(crate) fn parents(&self) -> impl Iterator<Item = Option<usize>> {
        self.nodes.iter().map(|node| node.parent)
    }

    pub(crate) fn node_of(&mut self, allocation: &Allocation) -> usize {
        let by_stack = self.node_of_stack(allocation.stack);
        if self.nodes[by_stack].path != NO_MODULE {
            return by_stack;
        }
        match self.node_of_label(allocation.label) {
            Some(node) => node,
            None if allocation.before_recording => self.node(BEFORE_RECORDING),
            None => by_stack,
        }
    }

    fn node_of_stack(&mut self, stack: StackId) -> usize {
        match self.of_stack.get(stack.index()) {
            Some(0) => {}
            Some(&known) => return known - 1,
            None => return self.node(NO_MODULE),
        }
        let node = match self.trace.module_path(stack) {
            Some(path) => {
                let node = self.node(path);
                let class = &mut self.nodes[node].class;
                *class = class.or(self.trace.module_class(stack));
                node
            }
            None => self.node(NO_MODULE),
        };
        self.of_stack[stack.index()] = node + 1;
        node
    }

    fn node_of_label(&mut self, id: LabelId) -> Option<usize> {
        if let Some(&node) = self.of_label.get(&id) {
            return Some(node);
        }
        let module = self.modules.module_of_label(self.trace.label(id)?)?;
        let node = self.node(module);
        self.of_label.insert(id, node);
        Some(node)
    }

    fn node(&mut self, path: &'a str) -> usize {
        // From the inside out, until a module that is known.
        let mut missing = Vec::new();
        let mut known = None;
        let mut next = Some(path);
        while let Some(path) = next {
            known = self.by_path.get(path).copied();
            if known.is_some() {
                break;
            }
            missing.push(path);
            next = self.around(path);
        }
        while let Some(path) = missing.pop() {
            let depth = known.map_or(0, |parent| self.nodes[parent].depth + 1);
            let node = self.nodes.len();
            self.nodes.push(Node { path, parent: known, depth, class: None });
            self.by_path.insert(path, node);
            known = Some(node);
        }
        known.expect("the path itself is known by now")
    }

    /// The module around another: shorter, or the model, which has none around it.
    fn around(&self, path: &'a str) -> Option<&'a str> {
        if path == NO_MODULE || path == BEFORE_RECORDING || self.trace.is_root(path) {
            return None;
        }
        parent(path).or_else(|| self.trace.main_root())
    }

    /// Depth first, the larger child first; `groups` has what each node made itself.
    fn rows(&self, live: &Live<'_>, groups: &[Group<usize>]) -> Vec<Row> {
        let mut own: Vec<Option<&Group<usize>>> = vec![None; self.nodes.len()];
        let mut bytes = vec![Bytes(0); self.nodes.len()];
        for group in groups {
            own[group.key] = Some(group);
            bytes[group.key] = group.bytes;
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len() + 1];
        let root = self.nodes.len();
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent {
                let inside = bytes[at];
                bytes[parent] += inside;
            }
            if own[at].is_some() || !children[at].is_empty() {
                children[node.parent.unwrap_or(root)].push(at);
            }
        }
        for siblings in &mut children {
            siblings.sort_by_key(|&at| (std::cmp::Reverse(bytes[at]), self.nodes[at].path));
        }
        let mut walk =
            Walk { tree: self, live, own, bytes, children, sizes: Vec::new(), rows: Vec::new() };
        walk.visit_children(root);
        walk.rows
    }
}

struct Walk<'a, 'b> {
    tree: &'b Tree<'a>,
    live: &'b Live<'b>,
    own: Vec<Option<&'b Group<usize>>>,
    bytes: Vec<Bytes>,
    children: Vec<Vec<usize>>,
    /// Of every allocation so far: those inside a module are next to each other.
    sizes: Vec<Bytes>,
    rows: Vec<Row>,
}

impl Walk<'_, '_> {
    fn visit_children(&mut self, at: usize) {
        for child in std::mem::take(&mut self.children[at]) {
            self.visit(child);
        }
    }

    fn visit(&mut self, at: usize) {
        let node = &self.tree.nodes[at];
        let own = self.own[at];
        let (first_size, row) = (self.sizes.len(), self.rows.len());
        let members = own.into_iter().flat_map(|group| &group.members);
        self.sizes.extend(members.map(|&id| self.live.get(id).rounded));
        self.rows.push(Row {
            bytes: self.bytes[at],
            cumulative: Bytes(0),
            count: 0,
            median: Bytes(0),
            location: node.path.to_owned(),
            detail: Detail::Module {
                own: own.map_or(Bytes(0), |group| group.bytes),
                depth: node.depth,
                class: node.class.map(str::to_owned),
            },
        });
        self.visit_children(at);
        let inside = &mut self.sizes[first_size..];
        self.rows[row].count = inside.len() as u64;
        if !inside.is_empty() {
            let middle = inside.len() / 2;
            // Reorders only the rows inside this module, so its parent's range stays valid.
            self.rows[row].median = *inside.select_nth_unstable(middle).1;
        }
    }
}
