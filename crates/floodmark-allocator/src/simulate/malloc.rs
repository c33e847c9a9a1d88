//! From a request to a block: the cache, a new segment, or cached segments that can be freed to make room for one.

use crate::heap::{Block, BlockId};
use crate::sizes;

use super::{Observer, Simulator, Wanted};

impl<O: Observer> Simulator<O> {
    /// Follows `malloc`. The cache is searched once: what is freed to make room is not looked at.
    pub(super) fn malloc(&mut self, wanted: &Wanted, owner: u32) -> Option<BlockId> {
        let found = self.get_free_block(wanted).or_else(|| self.find_room(wanted));
        let Some(id) = found else {
            self.heap.stats.num_ooms += 1;
            return None;
        };
        let size = self.heap.block(id).size;
        let is_fine = wanted.is_small || self.config.expandable_segments;
        let split_bytes =
            sizes::should_split(size, wanted.size, is_fine, &self.config).then_some(wanted.size);
        let taken = self.heap.allocate(id, split_bytes, wanted.requested, owner);
        if split_bytes.is_some() && self.config.version == crate::TorchVersion::new(2, 12) {
            // The front is a new object there, the rest keeps the old one's age.
            let age = self.new_age();
            self.heap.block_mut(taken).age = age;
        }
        Some(taken)
    }

    fn find_room(&mut self, wanted: &Wanted) -> Option<BlockId> {
        if wanted.requested >= sizes::ABSURD {
            return None;
        }
        if self.collects_garbage() {
            self.garbage_collect();
        }
        if let Some(id) = self.alloc_block(wanted, false) {
            return Some(id);
        }
        if self.is_rejected_early(wanted) {
            self.heap.stats.num_oom_rejections += 1;
            return None;
        }
        if self.release_available(wanted)
            && let Some(id) = self.alloc_block(wanted, false)
        {
            return Some(id);
        }
        // Within a private pool a graph is being captured, and nothing may be waited for.
        if wanted.pool != 0 {
            return None;
        }
        self.release_cached_blocks();
        self.alloc_block(wanted, true)
    }

    fn is_beyond_limit(&self, bytes: u64) -> bool {
        self.limit.is_some_and(|limit| self.reserved.saturating_add(bytes) > limit.bytes.0)
    }

    fn is_rejected_early(&self, wanted: &Wanted) -> bool {
        self.config.rejects_early && self.is_beyond_limit(wanted.segment)
    }

    /// Whether the device itself has no more; a limit that the program set was asked before.
    pub(super) fn is_device_full(&self, bytes: u64) -> bool {
        self.limit.is_some_and(|limit| !limit.is_fraction) && self.is_beyond_limit(bytes)
    }

    /// Follows `alloc_block`: memory from the driver. The limit is asked with the size of the segment,
    /// also where an expandable one would grow by less.
    fn alloc_block(&mut self, wanted: &Wanted, is_retry: bool) -> Option<BlockId> {
        if is_retry {
            self.heap.stats.num_alloc_retries += 1;
        }
        let is_fraction = self.limit.is_some_and(|limit| limit.is_fraction);
        if is_fraction && self.is_beyond_limit(wanted.segment) {
            return None;
        }
        let is_private = wanted.pool != 0;
        let may_expand = !is_private || self.config.version.is_at_least(2, 5);
        if self.config.expandable_segments && may_expand {
            return self.try_allocate_expandable(wanted);
        }
        if self.is_device_full(wanted.segment) {
            return None;
        }
        let addr = self.driver.place(wanted.segment)?;
        let mut block =
            Block::new(addr, wanted.segment, wanted.stream, wanted.pool, wanted.is_small);
        block.age = self.new_age();
        self.reserved += wanted.segment;
        self.heap.count_segment(wanted.segment, wanted.is_small);
        self.observer.segment_allocated(addr, wanted.segment, false);
        Some(self.heap.add(block))
    }
}
