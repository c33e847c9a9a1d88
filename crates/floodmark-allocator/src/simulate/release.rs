//! Frees segments to the driver: to make room, to stay below a threshold, or in `empty_cache`.
//!
//! Where single segments are chosen, expandable ones are left out. Up to 2.4 `PyTorch` chose them too, and failed.

use super::free_set::FreeSet;
use crate::heap::BlockId;

use super::{AllocParams, Observer, Simulator};

impl<O: Observer> Simulator<O> {
    /// Follows `release_block`: frees a block that is a whole segment.
    fn release_block(&mut self, id: BlockId) {
        self.heap.take_from_index(id);
        let block = *self.heap.block(id);
        self.heap.discount_segment(block.size, block.is_small);
        self.reserved -= block.size;
        self.driver.free(block.addr, block.size);
        self.observer.segment_freed(block.addr, block.size, false);
        self.heap.remove(id);
    }

    /// Follows `release_available_cached_blocks`: with `max_split_size`, frees an oversize block of this stream that is large
    /// enough, or several, largest first. Returns whether enough was freed.
    pub(super) fn release_available(&mut self, params: &AllocParams) -> bool {
        let max_split = self.config.max_split;
        if max_split == u64::MAX {
            return false;
        }
        let needed = params.size.max(max_split);
        let pool = self.heap.index.pool(params.pool, params.is_small);
        let free = &pool.free[usize::from(params.stream)];
        let fits = free.lower_bound(needed).and_then(|place| free.at(place));
        let fits = fits.filter(|&id| !self.heap.block(id).is_expandable);
        if let Some(id) = fits {
            self.release_block(id);
            return true;
        }
        let mut released = 0;
        let mut chosen = Vec::new();
        for id in free.iter().rev() {
            let block = self.heap.block(id);
            if released >= needed || block.size < max_split {
                break;
            }
            if block.is_expandable {
                continue;
            }
            released += block.size;
            chosen.push(id);
        }
        for id in chosen {
            self.release_block(id);
        }
        released >= needed
    }

    /// Follows `release_cached_blocks`: waits for all streams, then frees every segment without allocated blocks, large ones
    /// first. Private pools keep their segments.
    pub(super) fn release_cached_blocks(&mut self) {
        self.heap.stats.num_sync_all_streams += 1;
        while let Some(owner) = self.pending.pop_front() {
            self.complete(owner);
        }
        for is_small in [false, true] {
            let pool = self.heap.index.pool(0, is_small);
            let blocks: Vec<BlockId> = pool.free.iter().flat_map(FreeSet::iter).collect();
            let (expandable, ordinary): (Vec<BlockId>, Vec<BlockId>) =
                blocks.into_iter().partition(|&id| self.heap.block(id).is_expandable);
            for id in ordinary {
                if !self.heap.block(id).is_split() {
                    self.release_block(id);
                }
            }
            for id in expandable {
                self.unmap_block(id);
            }
        }
    }

    /// Follows `garbage_collect_cached_blocks`: while more than the threshold is reserved, frees large segments that were unused
    /// for longer than the average.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "PyTorch computes these figures in floating point too"
    )]
    pub(super) fn garbage_collect(&mut self) {
        let Some(limit) = self.limit else { return };
        let threshold = (self.config.gc_threshold * limit.bytes.0 as f64) as u64;
        if self.reserved <= threshold {
            return;
        }
        let target = self.reserved - threshold;
        let searches = self.heap.index.pool(0, false).searches;
        let age =
            |simulator: &Self, id: BlockId| (searches - simulator.heap.block(id).searches) as f64;
        let candidates = |simulator: &Self| -> Vec<BlockId> {
            let pool = simulator.heap.index.pool(0, false);
            let is_whole = |&id: &BlockId| {
                let block = simulator.heap.block(id);
                !block.is_split() && !block.is_expandable
            };
            pool.free.iter().flat_map(FreeSet::iter).filter(is_whole).collect()
        };
        let mut left = candidates(self);
        let mut total_age: f64 = left.iter().map(|&id| age(self, id)).sum();
        let mut reclaimed = 0;
        while reclaimed < target && !left.is_empty() {
            let average = total_age / left.len() as f64;
            let (old, young): (Vec<BlockId>, Vec<BlockId>) =
                left.iter().partition(|&&id| age(self, id) >= average);
            if old.is_empty() {
                break;
            }
            for id in old {
                reclaimed += self.heap.block(id).size;
                total_age -= age(self, id);
                self.release_block(id);
            }
            left = young;
        }
    }
}
