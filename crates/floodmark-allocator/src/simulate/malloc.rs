//! From a request to a block: a cached block, or a new segment, for which cached segments may have to be freed.

use crate::heap::{Block, BlockId};
use crate::sizes;

use super::{AllocParams, Observer, Simulator};

impl<O: Observer> Simulator<O> {
    /// Follows `malloc`. The cache is searched once, and not again after segments were freed.
    pub(super) fn malloc(&mut self, params: &AllocParams, owner: u32) -> Option<BlockId> {
        let found = self.get_free_block(params).or_else(|| self.find_room(params));
        let Some(id) = found else {
            self.heap.stats.num_ooms += 1;
            return None;
        };
        let size = self.heap.block(id).size;
        let is_fine = params.is_small || self.config.expandable_segments;
        let split_bytes =
            sizes::should_split(size, params.size, is_fine, &self.config).then_some(params.size);
        let taken = self.heap.allocate(id, split_bytes, params.requested, owner);
        if split_bytes.is_some() && self.config.version == crate::TorchVersion::new(2, 12) {
            // In 2.12 the front is a new block, and the rest keeps its age.
            let age = self.new_age();
            self.heap.block_mut(taken).age = age;
        }
        Some(taken)
    }

    fn find_room(&mut self, params: &AllocParams) -> Option<BlockId> {
        if params.requested >= sizes::ABSURD {
            return None;
        }
        if self.collects_garbage() {
            self.garbage_collect();
        }
        if let Some(id) = self.alloc_block(params, false) {
            return Some(id);
        }
        if self.is_rejected_early(params) {
            self.heap.stats.num_oom_rejections += 1;
            return None;
        }
        if self.release_available(params)
            && let Some(id) = self.alloc_block(params, false)
        {
            return Some(id);
        }
        // A private pool belongs to a graph that is being captured: the allocator may not wait for streams.
        if params.pool != 0 {
            return None;
        }
        self.release_cached_blocks();
        self.alloc_block(params, true)
    }

    fn is_beyond_limit(&self, bytes: u64) -> bool {
        self.limit.is_some_and(|limit| self.reserved.saturating_add(bytes) > limit.bytes.0)
    }

    fn is_rejected_early(&self, params: &AllocParams) -> bool {
        self.config.rejects_early && self.is_beyond_limit(params.segment)
    }

    /// Whether the device has no room. A limit that the program set is checked elsewhere.
    pub(super) fn is_device_full(&self, bytes: u64) -> bool {
        self.limit.is_some_and(|limit| !limit.is_fraction) && self.is_beyond_limit(bytes)
    }

    /// Follows `alloc_block`: allocates from the driver. The limit is compared with the size of a whole segment, also if an
    /// expandable segment would grow by less.
    fn alloc_block(&mut self, params: &AllocParams, is_retry: bool) -> Option<BlockId> {
        if is_retry {
            self.heap.stats.num_alloc_retries += 1;
        }
        let is_fraction = self.limit.is_some_and(|limit| limit.is_fraction);
        if is_fraction && self.is_beyond_limit(params.segment) {
            return None;
        }
        let is_private = params.pool != 0;
        let may_expand = !is_private || self.config.version.is_at_least(2, 5);
        if self.config.expandable_segments && may_expand {
            return self.try_allocate_expandable(params);
        }
        if self.is_device_full(params.segment) {
            return None;
        }
        let addr = self.driver.place(params.segment)?;
        let mut block =
            Block::new(addr, params.segment, params.stream, params.pool, params.is_small);
        block.age = self.new_age();
        self.reserved += params.segment;
        self.heap.count_segment(params.segment, params.is_small);
        self.observer.segment_allocated(addr, params.segment, false);
        Some(self.heap.add(block))
    }
}
