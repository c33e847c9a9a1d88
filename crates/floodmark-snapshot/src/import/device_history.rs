//! The history of one device: its events, its segments at the end, and the blocks that are live while it is imported.

use std::collections::BTreeMap;

use floodmark_trace::{AllocationId, Bytes, Device, Total};
use hashbrown::HashMap;

use super::initial_blocks::{FinalMemory, InitialMemory, find_initial_memory};
use crate::contents::snapshot::{Block, BlockState, Contents, Segment};
use crate::contents::trace_entries::{EntryCursor, TraceEntries, TraceEntry};
use crate::contents::value::IndexRange;

/// The history of one device.
#[derive(Debug)]
pub(super) struct DeviceHistory {
    pub(super) device: Device,
    /// The segments at the end, in the order of their addresses.
    pub(super) segments: Vec<Segment>,
    /// Whether a segment at the end belongs to another pool than the default one.
    has_pools: bool,
    cursor: Option<EntryCursor>,
    pub(super) initial: InitialMemory,
    /// The next event.
    pub(super) next: Option<TraceEntry>,
    /// Allocations by address.
    pub(super) live: HashMap<u64, AllocationId>,
    /// Pending frees by address.
    pub(super) pending: HashMap<u64, AllocationId>,
    pub(super) reserved: u64,
}

/// The histories of all devices, with the memory before their first events.
pub(super) fn device_histories(
    contents: &mut Contents,
    segments: IndexRange,
    traces: &[IndexRange],
) -> Vec<DeviceHistory> {
    let mut by_device: BTreeMap<i8, (Vec<Segment>, IndexRange)> = BTreeMap::new();
    for segment in segments.slice(&contents.segments) {
        by_device.entry(segment.device).or_default().0.push(*segment);
    }
    for (device, &events) in (0..=i8::MAX).zip(traces) {
        if events != IndexRange::default() {
            by_device.entry(device).or_default().1 = events;
        }
    }
    let (entries, blocks) = (&mut contents.entries, &contents.blocks);
    let default_pool = contents.pools.iter().position(|&pool| pool == (0, 0));
    by_device
        .into_iter()
        .map(|(device, (mut segments, events))| {
            segments.sort_by_key(|segment| segment.addr);
            let cursor = entries.cursor(events.first..events.end);
            let initial = find_initial_memory(
                entries,
                cursor.clone(),
                FinalMemory { segments: &segments, blocks },
            );
            let is_other = |segment: &Segment| {
                segment.pool.is_some_and(|pool| Some(pool as usize) != default_pool)
            };
            DeviceHistory {
                device: Device::cuda(device),
                has_pools: segments.iter().any(is_other),
                segments,
                cursor,
                initial,
                next: None,
                live: HashMap::new(),
                pending: HashMap::new(),
                reserved: 0,
            }
        })
        .collect()
}

impl DeviceHistory {
    /// Returns the next event, and reads the one after it.
    pub(super) fn advance(&mut self, entries: &mut TraceEntries) -> Option<TraceEntry> {
        let next = self.cursor.as_mut().and_then(|cursor| entries.next(cursor, true));
        std::mem::replace(&mut self.next, next)
    }

    /// The pool of an event. Before torch 2.12 only the segments at the end have a pool. Earlier segments at the same addresses
    /// may have belonged to another one.
    pub(super) fn pool_of(&self, entry: &TraceEntry) -> Option<u32> {
        entry.pool().or_else(|| {
            if !self.has_pools {
                return None;
            }
            let segment = self.segment_of(entry)?;
            let is_final = !self.initial.earlier_segments.contains_key(&segment.addr);
            segment.pool.filter(|_| is_final)
        })
    }

    /// The segment at the end that has the address of an event.
    fn segment_of(&self, entry: &TraceEntry) -> Option<&Segment> {
        FinalMemory { segments: &self.segments, blocks: &[] }.segment_of(entry.addr)
    }

    /// Counts a freed segment. After the last one, the events at its addresses belong to the segment at the end.
    pub(super) fn count_freed_segment(&mut self, entry: &TraceEntry) {
        let Some(addr) = self.segment_of(entry).map(|segment| segment.addr) else { return };
        if let Some(left) = self.initial.earlier_segments.get_mut(&addr) {
            *left -= 1;
            if *left == 0 {
                self.initial.earlier_segments.remove(&addr);
            }
        }
    }

    /// The totals of the snapshot at the end.
    pub(super) fn total(&self, blocks: &[Block]) -> Total {
        let end = FinalMemory { segments: &self.segments, blocks };
        let all = self.segments.iter().flat_map(|segment| end.blocks_of(segment));
        let allocated = all.filter(|block| block.state == BlockState::Allocated);
        Total {
            device: self.device,
            allocated: allocated.map(|block| Bytes(block.size)).sum(),
            reserved: self.segments.iter().map(|segment| Bytes(segment.bytes)).sum(),
        }
    }
}
