//! Frames and call stacks, each once, as a call tree.
//!
//! Torch repeats one list of frames for a million events. So a list is looked up as a whole, and walked frame by frame only
//! if it is new.

use hashbrown::{HashMap, HashTable};

use crate::contents::hash::{finish_hash, hash_step, random_seed};
use crate::format::known_strings::StringId;

/// A frame: a function and the line that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) file: StringId,
    pub(crate) name: StringId,
    pub(crate) line: u32,
}

/// A frame with its callers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// 0 for the outermost frame.
    pub(crate) parent: u32,
    pub(crate) frame: u32,
    depth: u32,
}

/// All call stacks.
#[derive(Debug)]
pub(crate) struct CallTree {
    pub(crate) frames: Vec<Frame>,
    by_frame: HashMap<Frame, u32>,
    /// Node 0 is the empty stack.
    pub(crate) nodes: Vec<Node>,
    children: HashMap<(u32, u32), u32>,
    known_lists: HashTable<(u64, u32)>,
    /// Seed of the hashes of lists.
    seed: u64,
}

impl Default for CallTree {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            by_frame: HashMap::new(),
            nodes: vec![Node { parent: 0, frame: 0, depth: 0 }],
            children: HashMap::new(),
            known_lists: HashTable::new(),
            seed: random_seed(),
        }
    }
}

impl CallTree {
    pub(crate) fn add_frame(&mut self, frame: Frame) -> u32 {
        *self.by_frame.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            u32::try_from(self.frames.len() - 1).unwrap_or(0)
        })
    }

    /// The node of a list of frames, innermost first.
    pub(crate) fn add_stack(&mut self, list: &[u32]) -> u32 {
        if list.is_empty() {
            return 0;
        }
        let hash =
            finish_hash(list.iter().fold(self.seed, |hash, &frame| hash_step(hash, frame.into())));
        let is_list = |&(_, node): &(u64, u32)| self.is_list(node, list);
        if let Some(&(_, node)) = self.known_lists.find(hash, is_list) {
            return node;
        }
        let node = list.iter().rev().fold(0, |parent, &frame| self.child(parent, frame));
        self.known_lists.insert_unique(hash, (hash, node), |&(hash, _)| hash);
        node
    }

    fn is_list(&self, node: u32, list: &[u32]) -> bool {
        let mut here = self.nodes[node as usize];
        here.depth as usize == list.len()
            && list.iter().all(|&frame| {
                let is_same = here.frame == frame;
                here = self.nodes[here.parent as usize];
                is_same
            })
    }

    fn child(&mut self, parent: u32, frame: u32) -> u32 {
        *self.children.entry((parent, frame)).or_insert_with(|| {
            let depth = self.nodes[parent as usize].depth + 1;
            self.nodes.push(Node { parent, frame, depth });
            u32::try_from(self.nodes.len() - 1).unwrap_or(0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_share_their_callers() {
        let mut tree = CallTree::default();
        let [a, b, c] = [1, 2, 3].map(|line| tree.add_frame(Frame { file: 1, name: 2, line }));
        let (inner, outer) = (tree.add_stack(&[a, b, c]), tree.add_stack(&[b, c]));
        assert_eq!(tree.nodes[inner as usize].parent, outer);
        assert_eq!(tree.add_stack(&[a, b, c]), inner);
        assert_eq!(tree.add_stack(&[]), 0);
        assert_ne!(tree.add_stack(&[a, c]), inner);
        assert_eq!(tree.nodes.len(), 5);
    }
}
