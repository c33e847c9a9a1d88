//! What happened: the recorded events, block by block.
//!
//! Nothing is decided here but one thing. A recording that has only requested bytes (a torch
//! snapshot) does not say where a block was cut; the allocator's rule for it does, since the free block
//! that was used is known.

mod index;

use std::collections::BTreeMap;

use floodmark_trace::{AllocationId, Bytes, Device, HandleId, Subject, Trace};
use hashbrown::HashMap;

use crate::config::AllocatorConfig;
use crate::heap::{Block, BlockId, BlockState, Heap, Index};
use crate::layout::Layout;
use crate::program::Program;
use crate::sizes;
use crate::stats::Statistics;
use crate::version::TorchVersion;

pub use index::ReplayIndex;

/// Where the sizes of blocks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// The recording has them.
    Recorded,
    /// From the requested bytes and the free block that was used.
    Derived,
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The figures of `memory_stats()`.
    pub stats: Statistics,
    /// How blocks lie.
    pub layout: Layout,
    /// Blocks that lie where no free memory was known, and are therefore not in the layout.
    pub unplaced: u64,
}

/// The memory right after an event.
#[derive(Debug)]
pub struct Now<'a>(&'a Heap<ByAddress>);

impl Now<'_> {
    /// The figures of `memory_stats()`.
    pub fn stats(&self) -> &Statistics {
        &self.0.stats
    }

    /// Sizes of all free blocks, in no order.
    pub fn free(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.0.index.0.values().map(|&id| Bytes(self.0.block(id).size))
    }
}

/// Follows the events of a device, the first `count` of the trace, and says of each what it led to.
pub fn replay(
    trace: &Trace,
    device: Device,
    config: &AllocatorConfig,
    count: u32,
    after: impl FnMut(u32, Now<'_>),
) -> Replay {
    let mut follower = Follower::new(trace, device, config, Sizes::Recorded);
    follower.follow(0, count, after);
    follower.memory.into_replay(&Program::streams_of(trace, device))
}

/// Fills in the sizes of blocks where a trace has only requested bytes.
pub fn complete(trace: &mut Trace) {
    let version = TorchVersion::last_in(&trace.header.torch).unwrap_or(TorchVersion::CHECKED);
    let config = AllocatorConfig::of_recording(&trace.header.allocator_conf, version);
    let mut sizes: Vec<(AllocationId, u64)> = Vec::new();
    for device in trace.devices() {
        let mut follower = Follower::new(trace, device, &config, Sizes::Derived);
        follower.follow(0, u32::MAX, |_, _| {});
        sizes.append(&mut follower.memory.sizes);
    }
    for (id, bytes) in sizes {
        trace.set_block_bytes(id, Bytes(bytes));
    }
    trace.seal();
}

/// Free blocks by where they begin: a block is always cut from the front of a free one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByAddress(HashMap<u64, BlockId>);

impl Index for ByAddress {
    fn insert(&mut self, id: BlockId, block: &Block) {
        self.0.insert(block.addr, id);
    }

    fn remove(&mut self, _: BlockId, block: &Block) {
        self.0.remove(&block.addr);
    }
}

/// What a follower has come to.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) heap: Heap<ByAddress>,
    /// The live ones: far fewer than all of the trace.
    blocks: HashMap<AllocationId, BlockId>,
    /// Those that are not what was recorded.
    sizes: Vec<(AllocationId, u64)>,
    stream_of: HashMap<HandleId, u16>,
    pool_of: HashMap<HandleId, u16>,
    pub(crate) unplaced: u64,
}

impl Memory {
    /// How blocks lie, and the figures.
    pub(crate) fn into_replay(self, streams: &[u64]) -> Replay {
        let layout = Layout::from_heap(&self.heap, streams, |_| true);
        Replay { stats: self.heap.stats, layout, unplaced: self.unplaced }
    }
}

/// Follows events, and does to a memory what they say.
pub(crate) struct Follower<'a> {
    trace: &'a Trace,
    device: Device,
    config: &'a AllocatorConfig,
    sizes_from: Sizes,
    pub(crate) memory: Memory,
}

impl<'a> Follower<'a> {
    /// Before the first event: with what was live before the recording.
    pub(crate) fn new(
        trace: &'a Trace,
        device: Device,
        config: &'a AllocatorConfig,
        sizes_from: Sizes,
    ) -> Self {
        let memory = Memory {
            heap: Heap::new(ByAddress::default(), config.max_split),
            blocks: HashMap::new(),
            sizes: Vec::new(),
            stream_of: Program::stream_numbers(trace, device),
            pool_of: HashMap::new(),
            unplaced: 0,
        };
        let mut follower = Self { trace, device, config, sizes_from, memory };
        follower.place_initial_blocks();
        follower
    }

    /// From where another has come to.
    pub(crate) fn resume(
        trace: &'a Trace,
        device: Device,
        config: &'a AllocatorConfig,
        memory: Memory,
    ) -> Self {
        Self { trace, device, config, sizes_from: Sizes::Recorded, memory }
    }

    /// Follows the events from one number on and below another.
    pub(crate) fn follow(&mut self, from: u32, to: u32, mut after: impl FnMut(u32, Now<'_>)) {
        let events = self.trace.events.get(from as usize..).unwrap_or_default();
        for (at, event) in (from..to).zip(events) {
            if event.device == self.device {
                self.apply(event.subject);
                after(at, Now(&self.memory.heap));
            }
        }
    }

    fn pool(&mut self, text: HandleId) -> u16 {
        if text == HandleId(0) {
            return 0;
        }
        let next = u16::try_from(self.memory.pool_of.len() + 1).unwrap_or(u16::MAX);
        *self.memory.pool_of.entry(text).or_insert(next)
    }

    fn apply(&mut self, subject: Subject) {
        match subject {
            Subject::Alloc(id) => self.allocate(id),
            Subject::Free { allocation, deferred } => self.free(allocation, deferred),
            Subject::FreeCompleted(id) => {
                if let Some(block) = self.take(id) {
                    self.memory.heap.complete(block);
                }
            }
            Subject::SegmentAlloc(segment) => self.add_segment(segment),
            Subject::SegmentMap(segment) => self.map(segment),
            Subject::SegmentFree(segment) => self.remove_segment(segment),
            Subject::SegmentUnmap(segment) => self.unmap(segment),
            Subject::Oom(_) => self.memory.heap.stats.num_ooms += 1,
            Subject::InitialSegment(_)
            | Subject::FreeUnknown(_)
            | Subject::Reserved(_)
            | Subject::Label { .. }
            | Subject::Saved(_)
            | Subject::Unpacked(_)
            | Subject::Step(_)
            | Subject::Mark(_)
            | Subject::PhaseBegin(_)
            | Subject::PhaseEnd(_)
            | Subject::OptimizerBegin
            | Subject::OptimizerEnd => {}
        }
    }

    fn take(&mut self, id: AllocationId) -> Option<BlockId> {
        self.memory.blocks.remove(&id)
    }

    fn allocate(&mut self, id: AllocationId) {
        let made = &self.trace.allocations[id.index()];
        if made.before_recording {
            return;
        }
        let requested = made.requested.0;
        let recorded = made.rounded.0;
        let rounded = sizes::round(requested, self.config);
        if self.sizes_from == Sizes::Derived && sizes::is_small(rounded) {
            // Small blocks are cut to the last 512 bytes: their places do not matter.
            if rounded != recorded {
                self.memory.sizes.push((id, rounded));
            }
            return;
        }
        let Some(&free) = self.memory.heap.index.0.get(&made.addr.0) else {
            self.memory.unplaced += 1;
            return;
        };
        let there = *self.memory.heap.block(free);
        let split_bytes = match self.sizes_from {
            Sizes::Recorded => (recorded < there.size).then_some(recorded),
            Sizes::Derived => {
                let is_fine = there.is_small || there.is_expandable;
                sizes::should_split(there.size, rounded, is_fine, self.config).then_some(rounded)
            }
        };
        if there.size < rounded.min(recorded) {
            self.memory.unplaced += 1;
            return;
        }
        self.memory.heap.take_from_index(free);
        let block = self.memory.heap.allocate(free, split_bytes, requested, id.0);
        self.memory.blocks.insert(id, block);
        let size = self.memory.heap.block(block).size;
        if self.sizes_from == Sizes::Derived && size != recorded {
            self.memory.sizes.push((id, size));
        }
    }

    fn free(&mut self, id: AllocationId, is_deferred: bool) {
        if is_deferred {
            if let Some(&block) = self.memory.blocks.get(&id) {
                self.memory.heap.request_free(block);
            }
        } else if let Some(block) = self.take(id) {
            self.memory.heap.request_free(block);
            self.memory.heap.complete(block);
        }
    }

    /// A segment of the trace as one free block.
    fn block_of(&mut self, segment: u32, is_expandable: bool) -> Option<Block> {
        let segment = *self.trace.segments.get(segment as usize)?;
        let stream = self.memory.stream_of.get(&segment.stream).copied().unwrap_or(0);
        let pool = self.pool(segment.pool);
        // Segments of small blocks have one size, which no other has. Of expandable ones, the page does.
        let page = if is_expandable { self.config.large_segment } else { 0 };
        let is_small =
            segment.bytes.0 == sizes::SMALL_BUFFER || (page > 0 && segment.bytes.0 % page != 0);
        let mut block = Block::new(segment.addr.0, segment.bytes.0, stream, pool, is_small);
        block.is_expandable = is_expandable;
        (block.size > 0).then_some(block)
    }

    fn add_segment(&mut self, segment: u32) {
        let Some(block) = self.block_of(segment, false) else { return };
        self.memory.heap.count_segment(block.size, block.is_small);
        let id = self.memory.heap.add(block);
        self.memory.heap.put_in_index(id);
    }

    fn remove_segment(&mut self, segment: u32) {
        let Some(block) = self.block_of(segment, false) else { return };
        self.memory.heap.discount_segment(block.size, block.is_small);
        let Some(&id) = self.memory.heap.index.0.get(&block.addr) else { return };
        if self.memory.heap.block(id).size == block.size && !self.memory.heap.block(id).is_split() {
            self.memory.heap.take_from_index(id);
            self.memory.heap.forget(id);
        }
    }

    /// An expandable segment grew: the new pages join what they touch.
    fn map(&mut self, segment: u32) {
        let Some(mut block) = self.block_of(segment, true) else { return };
        let touching = |heap: &Heap<ByAddress>, found: &dyn Fn(&Block) -> bool| {
            let mut ids = heap.ids();
            ids.find(|&id| heap.block(id).is_expandable && found(heap.block(id)))
        };
        let before = touching(&self.memory.heap, &|other| other.end() == block.addr);
        let behind = touching(&self.memory.heap, &|other| other.addr == block.end());
        block.prev = before.unwrap_or(BlockId::NONE);
        block.next = behind.unwrap_or(BlockId::NONE);
        if let Some(other) = before.or(behind) {
            block.is_small = self.memory.heap.block(other).is_small;
        }
        self.memory.heap.stats.reserved_bytes.increase(block.is_small, block.size);
        self.memory.heap.stats.num_device_alloc += 1;
        let id = self.memory.heap.add(block);
        if let Some(before) = before {
            self.memory.heap.block_mut(before).next = id;
        }
        if let Some(behind) = behind {
            self.memory.heap.block_mut(behind).prev = id;
        }
        self.memory.heap.merge(id);
        self.memory.heap.put_in_index(id);
    }

    /// An expandable segment shrank: the pages leave the free block that they are part of.
    fn unmap(&mut self, segment: u32) {
        let Some(gone) = self.block_of(segment, true) else { return };
        let holds = |block: &Block| {
            block.state == BlockState::Free && block.addr <= gone.addr && block.end() >= gone.end()
        };
        let Some(id) = self.memory.heap.ids().find(|&id| holds(self.memory.heap.block(id))) else {
            return;
        };
        self.memory.heap.take_from_index(id);
        let block = *self.memory.heap.block(id);
        self.memory.heap.stats.reserved_bytes.decrease(block.is_small, gone.size);
        self.memory.heap.stats.num_device_free += 1;
        if gone.addr > block.addr {
            let front = self.memory.heap.split_front(id, gone.addr - block.addr);
            self.memory.heap.block_mut(front).next = BlockId::NONE;
            self.memory.heap.put_in_index(front);
        } else if let Some(before) = block.prev.some() {
            self.memory.heap.block_mut(before).next = BlockId::NONE;
        }
        if gone.end() < block.end() {
            let rest = self.memory.heap.block_mut(id);
            rest.addr = gone.end();
            rest.size = block.end() - gone.end();
            rest.prev = BlockId::NONE;
            self.memory.heap.put_in_index(id);
        } else {
            if let Some(behind) = block.next.some() {
                self.memory.heap.block_mut(behind).prev = BlockId::NONE;
            }
            self.memory.heap.forget(id);
        }
    }

    /// Segments and blocks from before the recording: what no block covers is free.
    fn place_initial_blocks(&mut self) {
        let trace = self.trace;
        let mut blocks: BTreeMap<u64, AllocationId> = BTreeMap::new();
        let mut segments: Vec<u32> = Vec::new();
        for event in trace.events.iter().filter(|event| event.device == self.device) {
            if let Some(id) = event.subject.allocated() {
                let allocation = &trace.allocations[id.index()];
                if allocation.before_recording {
                    blocks.insert(allocation.addr.0, id);
                }
            } else if let Subject::InitialSegment(segment) = event.subject {
                segments.push(segment);
            }
        }
        for segment in segments {
            let is_expandable = self.config.expandable_segments;
            let Some(block) = self.block_of(segment, is_expandable) else { continue };
            if is_expandable {
                self.memory.heap.stats.reserved_bytes.increase(block.is_small, block.size);
            } else {
                self.memory.heap.count_segment(block.size, block.is_small);
            }
            let inside = blocks.range(block.addr..block.end()).map(|(_, &id)| id);
            self.place_segment(block, &inside.collect::<Vec<_>>());
        }
    }

    fn place_segment(&mut self, whole: Block, inside: &[AllocationId]) {
        let mut rest = self.memory.heap.add(whole);
        for (at, &id) in inside.iter().enumerate() {
            let made = &self.trace.allocations[id.index()];
            let here = *self.memory.heap.block(rest);
            let room = inside
                .get(at + 1)
                .map_or(here.end(), |&next| self.trace.allocations[next.index()].addr.0)
                - made.addr.0;
            if made.addr.0 > here.addr {
                let gap = self.memory.heap.split_front(rest, made.addr.0 - here.addr);
                self.memory.heap.put_in_index(gap);
            }
            let bytes = made.rounded.0.clamp(1, room.max(1));
            let left = self.memory.heap.block(rest).size;
            let split_bytes = (bytes < left).then_some(bytes);
            // `allocate` puts what is left into the index; it is cut further below.
            let block = self.memory.heap.allocate(rest, split_bytes, made.requested.0, id.0);
            self.memory.blocks.insert(id, block);
            if split_bytes.is_none() {
                return;
            }
            self.memory.heap.take_from_index(rest);
            rest = self.memory.heap.block(block).next;
        }
        self.memory.heap.put_in_index(rest);
    }
}
