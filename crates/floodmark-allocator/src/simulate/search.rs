//! A free block that fits.

use super::free_set::Position;
use crate::heap::{BlockId, BlockState};

use super::{Observer, Simulator, Wanted};

impl<O: Observer> Simulator<O> {
    /// Whether `garbage_collection_threshold` does anything: it needs a limit of the program's own.
    pub(super) fn collects_garbage(&self) -> bool {
        self.config.gc_threshold > 0.0 && self.limit.is_some_and(|limit| limit.is_fraction)
    }

    /// Follows `get_free_block`: best fit on the request's own stream. The block leaves the pool.
    pub(super) fn get_free_block(&mut self, wanted: &Wanted) -> Option<BlockId> {
        if self.collects_garbage() {
            self.heap.index.pool_mut(wanted.pool, wanted.is_small).searches += 1;
        }
        let pool = self.heap.index.pool(wanted.pool, wanted.is_small);
        let free = &pool.free[usize::from(wanted.stream)];
        let mut position = free.lower_bound(wanted.size)?;
        let mut id = free.at(position)?;
        if self.heap.block(id).is_expandable {
            if self.config.expandable_segments {
                id = self.avoid_the_growing_end(wanted, position, id);
            } else {
                while self.heap.block(id).is_expandable {
                    position = free.next(position)?;
                    id = free.at(position)?;
                }
            }
        }
        let size = self.heap.block(id).size;
        if wanted.size < self.config.max_split && size >= self.config.max_split {
            return None;
        }
        if wanted.size >= self.config.max_split
            && size >= wanted.size.saturating_add(self.config.max_non_split_rounding)
        {
            return None;
        }
        self.heap.take_from_index(id);
        Some(id)
    }

    /// A free block before unmapped space is left alone while a slightly larger enclosed one exists:
    /// goes on while the next block, with the space behind it, is smaller.
    fn avoid_the_growing_end(
        &self,
        wanted: &Wanted,
        mut position: Position,
        mut id: BlockId,
    ) -> BlockId {
        let pool = self.heap.index.pool(wanted.pool, wanted.is_small);
        let free = &pool.free[usize::from(wanted.stream)];
        while self.heap.block(id).is_expandable {
            let next = free.next(position).and_then(|next| Some((next, free.at(next)?)));
            let Some((next, next_id)) = next else { break };
            if self.with_space_behind(next_id) >= self.with_space_behind(id) {
                break;
            }
            (position, id) = (next, next_id);
        }
        id
    }

    fn with_space_behind(&self, id: BlockId) -> u64 {
        let block = self.heap.block(id);
        let behind = block.next.some().map(|next| self.heap.block(next));
        let space = behind.filter(|next| next.state == BlockState::Unmapped);
        block.size + space.map_or(0, |space| space.size)
    }
}
