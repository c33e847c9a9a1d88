//! Expandable segments: address space that is mapped page by page, as requests need it.

use super::driver::EXPANDABLE_SPACE;
use crate::heap::{Block, BlockId, BlockState};
use crate::sizes::SMALL_BUFFER;

use super::{AllocParams, Observer, Simulator};

impl<O: Observer> Simulator<O> {
    fn page(&self, is_small: bool) -> u64 {
        if is_small { SMALL_BUFFER } else { self.config.large_segment }
    }

    /// Follows `try_allocate_expandable_block`. The block is in no index.
    pub(super) fn try_allocate_expandable(&mut self, params: &AllocParams) -> Option<BlockId> {
        if params.size > EXPANDABLE_SPACE {
            return None;
        }
        let mut id = self.find_expandable(params);
        if self.heap.block(id).state == BlockState::Unmapped {
            let bytes = self.heap.block(id).size.min(params.size);
            self.map_block(id, bytes)?;
        }
        while self.heap.block(id).size < params.size {
            let missing = params.size - self.heap.block(id).size;
            let next = self.heap.block(id).next;
            let bytes = self.heap.block(next).size.min(missing);
            // `map_block` merges it with the block before it, and it keeps its id.
            self.map_block(next, bytes)?;
            id = next;
        }
        self.heap.take_from_index(id);
        Some(id)
    }

    /// The first of the lowest adjacent free and unmapped blocks that are large enough together, or else a new segment.
    fn find_expandable(&mut self, params: &AllocParams) -> BlockId {
        let pool = self.heap.index.pool(params.pool, params.is_small);
        for &unmapped in pool.unmapped[usize::from(params.stream)].values() {
            let before = self.heap.block(unmapped).prev.some();
            let start = before.filter(|&id| self.heap.block(id).state == BlockState::Free);
            let start = start.unwrap_or(unmapped);
            let mut total = 0;
            let mut next = Some(start);
            while let Some(id) = next {
                let block = self.heap.block(id);
                if !matches!(block.state, BlockState::Free | BlockState::Unmapped) {
                    break;
                }
                total += block.size;
                if total >= params.size {
                    return start;
                }
                next = block.next.some();
            }
        }
        let addr = self.driver.reserve_addresses();
        let mut block =
            Block::new(addr, EXPANDABLE_SPACE, params.stream, params.pool, params.is_small);
        block.is_expandable = true;
        block.state = BlockState::Unmapped;
        block.age = self.new_age();
        let id = self.heap.add(block);
        self.heap.put_in_index(id);
        id
    }

    /// Follows `map_block`: maps the first `bytes` of an unmapped block, in whole pages.
    fn map_block(&mut self, id: BlockId, bytes: u64) -> Option<()> {
        let small = self.heap.block(id).is_small;
        let mapped = bytes.next_multiple_of(self.page(small));
        if self.is_device_full(mapped) {
            return None;
        }
        self.heap.take_from_index(id);
        let block = *self.heap.block(id);
        if mapped < block.size {
            let mut rest = block;
            rest.addr += mapped;
            rest.size -= mapped;
            rest.prev = id;
            let rest = self.heap.add(rest);
            if let Some(next) = block.next.some() {
                self.heap.block_mut(next).prev = rest;
            }
            let front = self.heap.block_mut(id);
            front.size = mapped;
            front.next = rest;
            self.heap.put_in_index(rest);
        }
        let addr = block.addr;
        self.heap.block_mut(id).state = BlockState::Free;
        self.heap.merge(id);
        self.heap.put_in_index(id);
        self.reserved += mapped;
        self.heap.stats.reserved_bytes.increase(small, mapped);
        self.heap.stats.num_device_alloc += 1;
        self.observer.segment_allocated(addr, mapped, true);
        Some(())
    }

    /// Follows `unmap_block`: unmaps the whole pages inside a free block.
    pub(super) fn unmap_block(&mut self, id: BlockId) {
        let block = *self.heap.block(id);
        let page = self.page(block.is_small);
        // Segments begin at multiples of `EXPANDABLE_SPACE`, which is a multiple of each page size.
        let start = block.addr / EXPANDABLE_SPACE * EXPANDABLE_SPACE;
        let low = start + (block.addr - start).next_multiple_of(page);
        let high = start + (block.end() - start) / page * page;
        if low >= high {
            return;
        }
        self.heap.take_from_index(id);
        if low > block.addr {
            let front = self.heap.split_front(id, low - block.addr);
            self.heap.put_in_index(front);
        }
        if high < block.end() {
            // The unmapped part keeps the id, as above.
            let tail =
                Block { addr: high, size: block.end() - high, requested: 0, prev: id, ..block };
            let tail = self.heap.add(tail);
            if let Some(next) = block.next.some() {
                self.heap.block_mut(next).prev = tail;
            }
            let middle = self.heap.block_mut(id);
            middle.size = high - low;
            middle.next = tail;
            self.heap.put_in_index(tail);
        }
        self.heap.block_mut(id).state = BlockState::Unmapped;
        self.heap.merge(id);
        self.heap.put_in_index(id);
        let bytes = high - low;
        self.reserved -= bytes;
        self.heap.stats.reserved_bytes.decrease(block.is_small, bytes);
        self.heap.stats.num_device_free += 1;
        self.observer.segment_freed(low, bytes, true);
        if !self.heap.block(id).is_split() {
            self.heap.take_from_index(id);
            self.heap.remove(id);
        }
    }
}
