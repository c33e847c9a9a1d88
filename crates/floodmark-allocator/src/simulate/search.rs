//! Finds a free block for a request.

use super::free_set::Position;
use crate::heap::{BlockId, BlockState};

use super::{AllocParams, Observer, Simulator};

impl<O: Observer> Simulator<O> {
    /// Whether `garbage_collection_threshold` has an effect: only with a limit that the program set.
    pub(super) fn collects_garbage(&self) -> bool {
        self.config.gc_threshold > 0.0 && self.limit.is_some_and(|limit| limit.is_fraction)
    }

    /// Follows `get_free_block`: the best fit on the request's stream. Removes the block from the index.
    pub(super) fn get_free_block(&mut self, params: &AllocParams) -> Option<BlockId> {
        if self.collects_garbage() {
            self.heap.index.pool_mut(params.pool, params.is_small).searches += 1;
        }
        let pool = self.heap.index.pool(params.pool, params.is_small);
        let free = &pool.free[usize::from(params.stream)];
        let mut position = free.lower_bound(params.size)?;
        let mut id = free.at(position)?;
        if self.heap.block(id).is_expandable {
            if self.config.expandable_segments {
                id = self.avoid_the_growing_end(params, position, id);
            } else {
                while self.heap.block(id).is_expandable {
                    position = free.next(position)?;
                    id = free.at(position)?;
                }
            }
        }
        let size = self.heap.block(id).size;
        if params.size < self.config.max_split && size >= self.config.max_split {
            return None;
        }
        if params.size >= self.config.max_split
            && size >= params.size.saturating_add(self.config.max_non_split_rounding)
        {
            return None;
        }
        self.heap.take_from_index(id);
        Some(id)
    }

    /// Prefers an enclosed free block that is slightly larger to one before unmapped space: takes the next block while it is
    /// smaller than this one, each with the unmapped space behind it.
    fn avoid_the_growing_end(
        &self,
        params: &AllocParams,
        mut position: Position,
        mut id: BlockId,
    ) -> BlockId {
        let pool = self.heap.index.pool(params.pool, params.is_small);
        let free = &pool.free[usize::from(params.stream)];
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
