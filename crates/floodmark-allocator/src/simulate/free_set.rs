//! The free blocks of one stream in one pool, in the order in which the allocator searches them.

use crate::heap::BlockId;

/// Orders blocks by size, then by age (from 2.12 on), then by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) size: u64,
    pub(crate) age: u32,
    pub(crate) addr: u64,
    pub(crate) block: BlockId,
}

impl Key {
    /// Before every block of this size.
    fn first_of(size: u64) -> Self {
        Self { size, age: 0, addr: 0, block: BlockId(0) }
    }
}

/// A chunk with more keys is split in two.
const MOST: usize = 256;

/// A sorted list in chunks. A change takes a binary search and a short move, whatever the length of the list.
#[derive(Debug, Clone, Default)]
pub(crate) struct FreeSet {
    chunks: Vec<Vec<Key>>,
}

/// The position of a key: its chunk and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    chunk: usize,
    at: usize,
}

impl FreeSet {
    fn search(&self, key: &Key) -> Position {
        let chunk =
            self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last < key));
        let at = self.chunks.get(chunk).map_or(0, |keys| keys.partition_point(|other| other < key));
        Position { chunk, at }
    }

    pub(crate) fn insert(&mut self, key: Key) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::with_capacity(MOST + 1));
        }
        let mut position = self.search(&key);
        if position.chunk == self.chunks.len() {
            position.chunk -= 1;
            position.at = self.chunks[position.chunk].len();
        }
        let keys = &mut self.chunks[position.chunk];
        keys.insert(position.at, key);
        if keys.len() > MOST {
            let tail = keys.split_off(MOST / 2);
            self.chunks.insert(position.chunk + 1, tail);
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        let position = self.search(key);
        let Some(keys) = self.chunks.get_mut(position.chunk) else { return };
        if keys.get(position.at) == Some(key) {
            keys.remove(position.at);
            if keys.is_empty() && self.chunks.len() > 1 {
                self.chunks.remove(position.chunk);
            }
        }
    }

    /// The first block that is not smaller than `size`.
    pub(crate) fn lower_bound(&self, size: u64) -> Option<Position> {
        let position = self.search(&Key::first_of(size));
        self.at(position).map(|_| position)
    }

    pub(crate) fn at(&self, position: Position) -> Option<BlockId> {
        self.chunks.get(position.chunk)?.get(position.at).map(|key| key.block)
    }

    pub(crate) fn next(&self, position: Position) -> Option<Position> {
        let mut next = Position { chunk: position.chunk, at: position.at + 1 };
        if next.at >= self.chunks.get(next.chunk)?.len() {
            next = Position { chunk: position.chunk + 1, at: 0 };
        }
        self.at(next).map(|_| next)
    }

    /// All blocks, smallest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockId> + '_ {
        self.chunks.iter().flatten().map(|key| key.block)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_set(changes in proptest::collection::vec((any::<bool>(), 0_u64..40, 0_u32..40), 1..2000)) {
            let mut set = FreeSet::default();
            let mut model = BTreeSet::new();
            for (inserts, size, block) in changes {
                let key = Key { size, age: 0, addr: u64::from(block) * 7, block: BlockId(block) };
                if inserts && model.insert(key) {
                    set.insert(key);
                } else if !inserts && model.remove(&key) {
                    set.remove(&key);
                }
            }
            let expected: Vec<BlockId> = model.iter().map(|key| key.block).collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), expected);
            for size in 0..41 {
                let expected = model.iter().find(|key| key.size >= size).map(|key| key.block);
                prop_assert_eq!(set.lower_bound(size).and_then(|position| set.at(position)), expected);
            }
        }
    }
}
