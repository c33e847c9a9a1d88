//! The memory before the history began.
//!
//! Torch's history is a ring buffer and has nearly always lost its beginning, but the snapshot has the segments and blocks at
//! the end. A block was live before the history if it is live at the end and the history does not allocate it, or if the
//! history frees it and does not allocate it.

use hashbrown::{HashMap, HashSet};

use crate::address_ranges::AddressRanges;
use crate::contents::snapshot::{Block, BlockState, Segment};
use crate::contents::trace_entries::{Action, EntryCursor, TraceEntries, TraceEntry};

/// Every block is a multiple of this: `kMinBlockSize` of the caching allocator.
const BLOCK_BYTES: u64 = 512;

/// The smallest block for a request. The history does not have the size of the real block.
pub(crate) fn rounded(requested: u64) -> u64 {
    requested.max(1).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(requested)
}

/// A block that was live before the history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InitialBlock {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) requested: u64,
    pub(crate) stream: u64,
    pub(crate) pool: Option<u32>,
    pub(crate) stack: u32,
}

/// The attributes of a range of memory that was reserved before the history.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SegmentPart {
    pub(crate) stream: u64,
    pub(crate) pool: Option<u32>,
    pub(crate) stack: u32,
}

/// The memory of one device before its history, and the size of the history.
#[derive(Debug, Default)]
pub(crate) struct InitialMemory {
    pub(crate) blocks: Vec<InitialBlock>,
    pub(crate) segments: AddressRanges<SegmentPart>,
    pub(crate) allocations: usize,
    /// In the order of their first events.
    pub(crate) streams: Vec<u64>,
    known_streams: HashSet<u64>,
    /// For segments at the end: the number of earlier segments that the history frees at the same addresses.
    pub(crate) earlier_segments: HashMap<u64, u32>,
}

/// The segments and blocks of a device at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinalMemory<'a> {
    /// In the order of their addresses.
    pub(crate) segments: &'a [Segment],
    pub(crate) blocks: &'a [Block],
}

impl<'a> FinalMemory<'a> {
    /// The segment that contains an address.
    pub(crate) fn segment_of(&self, addr: u64) -> Option<&'a Segment> {
        let after = self.segments.partition_point(|segment| segment.addr <= addr);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        (addr - segment.addr < segment.bytes).then_some(segment)
    }

    /// The blocks of a segment.
    pub(crate) fn blocks_of(&self, segment: &Segment) -> &'a [Block] {
        segment.blocks.slice(self.blocks)
    }
}

/// Reads the history of a device and finds the memory before it.
pub(crate) fn find_initial_memory(
    entries: &mut TraceEntries,
    cursor: Option<EntryCursor>,
    end: FinalMemory<'_>,
) -> InitialMemory {
    let mut before = InitialMemory::default();
    let mut seen = HistoryAddresses::default();
    if let Some(mut cursor) = cursor {
        while let Some(entry) = entries.next(&mut cursor, false) {
            seen.add_entry(&entry, &mut before, end);
        }
    }
    for segment in end.segments {
        before.add_stream(segment.stream);
        before.add_survivors(segment, end.blocks_of(segment), &seen);
        let Segment { addr, bytes, stream, pool, stack, .. } = *segment;
        before.segments.add(addr, bytes, SegmentPart { stream, pool, stack });
    }
    for entry in seen.segment_events.iter().rev() {
        if matches!(entry.action, Action::SegmentAlloc | Action::SegmentMap) {
            before.segments.remove(entry.addr, entry.size);
        } else {
            let (stream, pool) = (entry.repeated.stream, entry.pool());
            before.segments.add(entry.addr, entry.size, SegmentPart { stream, pool, stack: 0 });
        }
    }
    for block in &mut before.blocks {
        let around = end.segment_of(block.addr);
        if around.is_some_and(|segment| before.earlier_segments.contains_key(&segment.addr)) {
            block.pool = None;
        }
    }
    before.blocks.sort_by_key(|block| block.addr);
    before
}

/// The addresses that the history allocates and frees.
#[derive(Debug, Default)]
struct HistoryAddresses {
    live: HashSet<u64>,
    /// Addresses that are freed before they are allocated.
    freed_first: HashSet<u64>,
    segment_events: Vec<TraceEntry>,
}

impl HistoryAddresses {
    fn add_entry(&mut self, entry: &TraceEntry, before: &mut InitialMemory, end: FinalMemory<'_>) {
        before.add_stream(entry.repeated.stream);
        match entry.action {
            Action::Alloc => {
                self.live.insert(entry.addr);
                before.allocations += 1;
            }
            Action::FreeRequested => {
                if !self.live.remove(&entry.addr) && self.freed_first.insert(entry.addr) {
                    let around = end.segment_of(entry.addr);
                    before.blocks.push(InitialBlock {
                        addr: entry.addr,
                        bytes: rounded(entry.size),
                        requested: entry.size,
                        stream: entry.repeated.stream,
                        pool: entry.pool().or_else(|| around.and_then(|segment| segment.pool)),
                        stack: 0,
                    });
                }
            }
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap => {
                self.segment_events.push(*entry);
                let around = end.segment_of(entry.addr);
                if let Some(segment) = around.filter(|_| entry.action == Action::SegmentFree) {
                    *before.earlier_segments.entry(segment.addr).or_default() += 1;
                }
            }
            Action::FreeCompleted | Action::Oom | Action::Annotate => {}
        }
    }
}

impl InitialMemory {
    fn add_stream(&mut self, stream: u64) {
        if self.streams.first() != Some(&stream) && self.known_streams.insert(stream) {
            self.streams.push(stream);
        }
    }

    /// Adds the blocks that are live at the end and that the history does not allocate.
    fn add_survivors(&mut self, segment: &Segment, blocks: &[Block], seen: &HistoryAddresses) {
        for block in blocks {
            let is_initial = block.state == BlockState::Allocated
                && !seen.live.contains(&block.addr)
                && !seen.freed_first.contains(&block.addr);
            if is_initial {
                self.blocks.push(InitialBlock {
                    addr: block.addr,
                    bytes: block.size,
                    requested: block.requested,
                    stream: segment.stream,
                    pool: segment.pool,
                    stack: block.stack,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_rounded_as_the_allocator_does() {
        assert_eq!([0, 1, 512, 513].map(rounded), [512, 512, 512, 1024]);
        assert_eq!(rounded(u64::MAX), u64::MAX);
    }
}
