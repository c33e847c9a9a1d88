//! The blocks of a device: split, freed, merged and counted.
//!
//! Replay and simulation use the same heap with different indexes of free blocks. [`replay`](mod@crate::replay) knows the
//! address of each block and has an [`Index`] by address. [`simulate`](mod@crate::simulate) chooses blocks and has one by size.

use crate::stats::Statistics;

/// A block of the heap. The id of a removed block is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(pub(crate) u32);

impl BlockId {
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// The state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// Allocated and not yet freed (`active_allocated`).
    Allocated,
    /// Freed by the program, still used by a stream (`active_pending_free`).
    Pending,
    /// Free, in the cache (`inactive`).
    Free,
    /// Address space of an expandable segment without memory behind it.
    Unmapped,
}

/// `Block` in `CUDACachingAllocator.cpp`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) prev: BlockId,
    pub(crate) next: BlockId,
    /// The number of its allocation; `u32::MAX` for none.
    pub(crate) owner: u32,
    pub(crate) stream: u16,
    pub(crate) pool: u16,
    /// Orders blocks of one size, from 2.12 on.
    pub(crate) age: u32,
    /// The pool's count of searches when it became free.
    pub(crate) searches: u64,
    pub(crate) state: BlockState,
    pub(crate) is_small: bool,
    pub(crate) is_expandable: bool,
}

impl Block {
    /// A free block that covers a segment.
    pub(crate) fn new(addr: u64, size: u64, stream: u16, pool: u16, is_small: bool) -> Self {
        Self {
            addr,
            size,
            requested: 0,
            prev: BlockId::NONE,
            next: BlockId::NONE,
            owner: u32::MAX,
            stream,
            pool,
            age: 0,
            searches: 0,
            state: BlockState::Free,
            is_small,
            is_expandable: false,
        }
    }

    pub(crate) fn is_split(&self) -> bool {
        self.prev != BlockId::NONE || self.next != BlockId::NONE
    }

    pub(crate) fn end(&self) -> u64 {
        self.addr + self.size
    }
}

/// Finds free blocks.
pub(crate) trait Index {
    fn insert(&mut self, id: BlockId, block: &Block);
    fn remove(&mut self, id: BlockId, block: &Block);
    /// The number of searches in the pool of this block.
    fn searches(&self, _block: &Block) -> u64 {
        0
    }
}

/// All blocks of one device.
#[derive(Debug, Clone)]
pub(crate) struct Heap<I> {
    blocks: Vec<Block>,
    vacant: Vec<BlockId>,
    pub(crate) index: I,
    pub(crate) stats: Statistics,
    /// `max_split_size`: blocks of at least this size count as oversize.
    pub(crate) oversize_from: u64,
}

impl<I: Index> Heap<I> {
    pub(crate) fn new(index: I, oversize_from: u64) -> Self {
        let (blocks, vacant) = (Vec::new(), Vec::new());
        Self { blocks, vacant, index, stats: Statistics::default(), oversize_from }
    }

    pub(crate) fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    pub(crate) fn block_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.0 as usize]
    }

    pub(crate) fn add(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.vacant.pop() {
            self.blocks[id.0 as usize] = block;
            return id;
        }
        let id = BlockId(u32::try_from(self.blocks.len()).expect("fewer than 2^32 blocks"));
        self.blocks.push(block);
        id
    }

    pub(crate) fn remove(&mut self, id: BlockId) {
        self.block_mut(id).size = 0;
        self.vacant.push(id);
    }

    /// The highest number of blocks at a time.
    pub(crate) fn capacity(&self) -> usize {
        self.blocks.len()
    }

    /// All blocks, in use or free.
    pub(crate) fn ids(&self) -> impl Iterator<Item = BlockId> + '_ {
        (0..).map(BlockId).zip(&self.blocks).filter(|(_, block)| block.size > 0).map(|(id, _)| id)
    }

    pub(crate) fn put_in_index(&mut self, id: BlockId) {
        let searches = self.index.searches(self.block(id));
        self.block_mut(id).searches = searches;
        let block = *self.block(id);
        self.index.insert(id, &block);
    }

    pub(crate) fn take_from_index(&mut self, id: BlockId) {
        let block = *self.block(id);
        self.index.remove(id, &block);
    }

    /// Splits the first `size` bytes off a block. The rest keeps the block's id; the front gets a new one.
    pub(crate) fn split_front(&mut self, id: BlockId, size: u64) -> BlockId {
        let rest = *self.block(id);
        let front = self.add(Block { size, next: id, requested: 0, ..rest });
        if let Some(prev) = rest.prev.some() {
            self.block_mut(prev).next = front;
        }
        let block = self.block_mut(id);
        block.prev = front;
        block.addr += size;
        block.size -= size;
        front
    }

    /// Allocates a block that is not in the index, or its first `split_bytes`.
    ///
    /// Follows `alloc_found_block`.
    pub(crate) fn allocate(
        &mut self,
        id: BlockId,
        split_bytes: Option<u64>,
        requested: u64,
        owner: u32,
    ) -> BlockId {
        let was_split = self.block(id).is_split();
        let (small, expandable) = (self.block(id).is_small, self.block(id).is_expandable);
        let taken = if let Some(size) = split_bytes {
            let front = self.split_front(id, size);
            self.put_in_index(id);
            if !expandable && was_split {
                self.stats.inactive_split_bytes.decrease(small, size);
            } else if !expandable {
                let rest = self.block(id).size;
                self.stats.inactive_split_bytes.increase(small, rest);
                self.stats.inactive_split.increase(small, 1);
            }
            front
        } else {
            if was_split && !expandable {
                let size = self.block(id).size;
                self.stats.inactive_split_bytes.decrease(small, size);
                self.stats.inactive_split.decrease(small, 1);
            }
            id
        };
        let block = self.block_mut(taken);
        block.state = BlockState::Allocated;
        block.requested = requested;
        block.owner = owner;
        let size = block.size;
        self.stats.allocation.increase(small, 1);
        self.stats.allocated_bytes.increase(small, size);
        self.stats.active.increase(small, 1);
        self.stats.active_bytes.increase(small, size);
        self.stats.requested_bytes.increase(small, requested);
        if size >= self.oversize_from {
            self.stats.oversize_allocations.increase(1);
        }
        taken
    }

    /// Frees a block. The free is pending until [`Self::complete`].
    ///
    /// Follows `free`.
    pub(crate) fn request_free(&mut self, id: BlockId) {
        let block = self.block_mut(id);
        block.state = BlockState::Pending;
        let (size, small) = (block.size, block.is_small);
        self.stats.allocation.decrease(small, 1);
        self.stats.allocated_bytes.decrease(small, size);
        if size >= self.oversize_from {
            self.stats.oversize_allocations.decrease(1);
        }
    }

    /// Completes the free of a block that no stream uses: merges it with free neighbours, and adds it to the index.
    ///
    /// Follows `free_block`.
    pub(crate) fn complete(&mut self, id: BlockId) -> BlockId {
        let before = *self.block(id);
        let block = self.block_mut(id);
        block.state = BlockState::Free;
        block.owner = u32::MAX;
        let (count, bytes) = self.merge(id);
        let (mut count, mut bytes) = (-count, -bytes);
        if self.block(id).is_split() {
            count += 1;
            bytes += self.block(id).size.cast_signed();
        }
        self.put_in_index(id);
        let small = before.is_small;
        if !before.is_expandable {
            self.stats.inactive_split.change(small, count);
            self.stats.inactive_split_bytes.change(small, bytes);
        }
        self.stats.active.decrease(small, 1);
        self.stats.active_bytes.decrease(small, before.size);
        self.stats.requested_bytes.decrease(small, before.requested);
        id
    }

    /// Merges a block that is not in the index with neighbours of its state. Returns their number and their bytes.
    pub(crate) fn merge(&mut self, id: BlockId) -> (i64, i64) {
        let (mut count, mut bytes) = (0, 0);
        let block = *self.block(id);
        if let Some(prev) = block.prev.some()
            && self.block(prev).state == block.state
        {
            self.take_from_index(prev);
            let other = *self.block(prev);
            let block = self.block_mut(id);
            block.addr = other.addr;
            block.size += other.size;
            block.prev = other.prev;
            if let Some(outer) = other.prev.some() {
                self.block_mut(outer).next = id;
            }
            self.remove(prev);
            (count, bytes) = (count + 1, bytes + other.size.cast_signed());
        }
        if let Some(next) = block.next.some()
            && self.block(next).state == block.state
        {
            self.take_from_index(next);
            let other = *self.block(next);
            let block = self.block_mut(id);
            block.size += other.size;
            block.next = other.next;
            if let Some(outer) = other.next.some() {
                self.block_mut(outer).prev = id;
            }
            self.remove(next);
            (count, bytes) = (count + 1, bytes + other.size.cast_signed());
        }
        (count, bytes)
    }

    /// Counts a segment that was allocated with `cudaMalloc`.
    pub(crate) fn count_segment(&mut self, bytes: u64, is_small: bool) {
        self.stats.segment.increase(is_small, 1);
        self.stats.reserved_bytes.increase(is_small, bytes);
        self.stats.num_device_alloc += 1;
        if bytes >= self.oversize_from {
            self.stats.oversize_segments.increase(1);
        }
    }

    /// Counts a segment that was freed.
    pub(crate) fn discount_segment(&mut self, bytes: u64, is_small: bool) {
        self.stats.segment.decrease(is_small, 1);
        self.stats.reserved_bytes.decrease(is_small, bytes);
        self.stats.num_device_free += 1;
        if bytes >= self.oversize_from {
            self.stats.oversize_segments.decrease(1);
        }
    }
}
