//! What happened: the recorded events, block by block.
//!
//! A replay makes one decision only. A torch snapshot has requested bytes, not the sizes of blocks. There the allocator's
//! rule decides whether a block was split, since the free block that was used is known.

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

/// The source of the sizes of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// The recording has the sizes.
    Recorded,
    /// They follow from the requested bytes and the free block that was used.
    Derived,
}

/// The memory after a replay.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The figures of `memory_stats()`.
    pub stats: Statistics,
    /// The segments and blocks.
    pub layout: Layout,
    /// The number of blocks at addresses without known free memory, which are not in the layout.
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

/// Replays the events of a device among the first `count` of the trace, and calls `after` with the memory after each.
pub fn replay(
    trace: &Trace,
    device: Device,
    config: &AllocatorConfig,
    count: u32,
    after: impl FnMut(u32, Now<'_>),
) -> Replay {
    let mut replayer = Replayer::new(trace, device, config, Sizes::Recorded);
    replayer.apply_events(0, count, after);
    replayer.memory.into_replay(&Program::streams_of(trace, device))
}

/// Computes the sizes of blocks in a trace that has only requested bytes.
pub fn complete(trace: &mut Trace) {
    let version = TorchVersion::last_in(&trace.header.torch).unwrap_or(TorchVersion::CHECKED);
    let config = AllocatorConfig::of_recording(&trace.header.allocator_conf, version);
    let mut sizes: Vec<(AllocationId, u64)> = Vec::new();
    for device in trace.devices() {
        let mut replayer = Replayer::new(trace, device, &config, Sizes::Derived);
        replayer.apply_events(0, u32::MAX, |_, _| {});
        sizes.append(&mut replayer.memory.sizes);
    }
    for (id, bytes) in sizes {
        trace.set_block_bytes(id, Bytes(bytes));
    }
    trace.seal();
}

/// Free blocks by address: an allocation always uses the front of a free block.
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

/// The state of a replay.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) heap: Heap<ByAddress>,
    /// The blocks of live allocations.
    blocks: HashMap<AllocationId, BlockId>,
    /// The computed sizes that differ from the recorded ones.
    sizes: Vec<(AllocationId, u64)>,
    stream_of: HashMap<HandleId, u16>,
    pool_of: HashMap<HandleId, u16>,
    pub(crate) unplaced: u64,
}

impl Memory {
    /// The memory after the events so far.
    pub(crate) fn into_replay(self, streams: &[u64]) -> Replay {
        let layout = Layout::from_heap(&self.heap, streams, |_| true);
        Replay { stats: self.heap.stats, layout, unplaced: self.unplaced }
    }
}

/// Applies events to a memory.
pub(crate) struct Replayer<'a> {
    trace: &'a Trace,
    device: Device,
    config: &'a AllocatorConfig,
    sizes_from: Sizes,
    pub(crate) memory: Memory,
}

impl<'a> Replayer<'a> {
    /// Begins with the blocks that were live before the recording.
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
        let mut replayer = Self { trace, device, config, sizes_from, memory };
        replayer.place_initial_blocks();
        replayer
    }

    /// Continues from a memory.
    pub(crate) fn resume(
        trace: &'a Trace,
        device: Device,
        config: &'a AllocatorConfig,
        memory: Memory,
    ) -> Self {
        Self { trace, device, config, sizes_from: Sizes::Recorded, memory }
    }

    /// Applies the events with the numbers `from..to`.
    pub(crate) fn apply_events(&mut self, from: u32, to: u32, mut after: impl FnMut(u32, Now<'_>)) {
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
            // A small block is split to a multiple of 512 bytes, whatever free block it comes from.
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
        // Only segments of small blocks have this size. Of expandable segments, the page size shows it.
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
            self.memory.heap.remove(id);
        }
    }

    /// Maps pages of an expandable segment, and joins them with adjacent blocks.
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

    /// Unmaps pages of an expandable segment, which are part of a free block.
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
            self.memory.heap.remove(id);
        }
    }

    /// Adds the segments and blocks from before the recording. Memory between the blocks is free.
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
            // `allocate` adds the rest to the index. The next blocks are split off the rest.
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
