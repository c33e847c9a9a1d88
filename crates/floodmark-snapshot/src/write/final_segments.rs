//! The segments and blocks of a device at the end of a trace.

use floodmark_trace::{Allocation, Device, Segment, SegmentChange, StackId, Subject, Trace};

use crate::address_ranges::AddressRanges;

/// A block at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinalBlock {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) requested: u64,
    pub(crate) stack: StackId,
    pub(crate) state: &'static str,
}

/// The attributes of a segment at the end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SegmentAttributes {
    pub(crate) stream: u64,
    pub(crate) pool: (u64, u64),
    pub(crate) stack: StackId,
    pub(crate) is_expandable: bool,
}

/// A segment at the end. Its blocks cover all of it.
#[derive(Debug, Clone)]
pub(crate) struct FinalSegment {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) attributes: SegmentAttributes,
    pub(crate) blocks: Vec<FinalBlock>,
}

pub(crate) const ALLOCATED: &str = "active_allocated";
pub(crate) const PENDING_FREE: &str = "active_pending_free";
pub(crate) const INACTIVE: &str = "inactive";

/// The segments of a device after the last event, in the order of their addresses.
pub(crate) fn segments_at_end(trace: &Trace, device: Device) -> Vec<FinalSegment> {
    let mut blocks = blocks_at_end(trace, device);
    blocks.sort_by_key(|block| block.addr);
    let mut segments = reserved_at_end(trace, device);
    segments = join_parts(segments, &blocks);
    add_missing_segments(&mut segments, &blocks);
    for segment in &mut segments {
        fill_segment(segment, &blocks);
    }
    segments
}

fn blocks_at_end(trace: &Trace, device: Device) -> Vec<FinalBlock> {
    let block = |allocation: &Allocation| {
        let freed = allocation.freed_at.and_then(|at| trace.events.get(at.get() as usize));
        let state = match freed.map(|event| event.subject) {
            None => ALLOCATED,
            Some(Subject::Free { deferred: true, .. }) if allocation.completed_at.is_none() => {
                PENDING_FREE
            }
            Some(_) => return None,
        };
        Some(FinalBlock {
            addr: allocation.addr.0,
            bytes: allocation.rounded.0,
            requested: allocation.requested.0,
            stack: allocation.stack,
            state,
        })
    };
    let of_device = trace.allocations.iter().filter(|allocation| allocation.device == device);
    of_device.filter_map(block).collect()
}

fn reserved_at_end(trace: &Trace, device: Device) -> Vec<FinalSegment> {
    let mut ranges: AddressRanges<SegmentAttributes> = AddressRanges::default();
    for event in trace.events.iter().filter(|event| event.device == device) {
        let Some(change) = event.subject.segment_change() else { continue };
        let (index, is_expandable, is_added) = match change {
            SegmentChange::Initial(index) | SegmentChange::Alloc(index) => (index, false, true),
            SegmentChange::Map(index) => (index, true, true),
            SegmentChange::Free(index) | SegmentChange::Unmap(index) => (index, false, false),
        };
        let Some(segment) = trace.segments.get(index as usize) else { continue };
        if is_added {
            let attributes = SegmentAttributes { is_expandable, ..attributes(trace, segment) };
            ranges.add(segment.addr.0, segment.bytes.0, attributes);
        } else {
            ranges.remove(segment.addr.0, segment.bytes.0);
        }
    }
    let segment =
        |(addr, bytes, attributes)| FinalSegment { addr, bytes, attributes, blocks: Vec::new() };
    ranges.iter().map(segment).collect()
}

fn attributes(trace: &Trace, segment: &Segment) -> SegmentAttributes {
    SegmentAttributes {
        stream: stream_number(trace.text(segment.stream.into())),
        pool: pool_numbers(trace.text(segment.pool.into())),
        stack: segment.stack,
        is_expandable: false,
    }
}

/// Joins adjacent parts of an expandable segment, and parts that a block spans.
fn join_parts(parts: Vec<FinalSegment>, blocks: &[FinalBlock]) -> Vec<FinalSegment> {
    let mut joined: Vec<FinalSegment> = Vec::with_capacity(parts.len());
    for part in parts {
        if let Some(before) = joined.last_mut() {
            let at = blocks.partition_point(|block| block.addr < part.addr);
            let spans = at
                .checked_sub(1)
                .and_then(|at| blocks.get(at))
                .is_some_and(|block| block.addr.saturating_add(block.bytes) > part.addr);
            let grew = part.attributes.is_expandable || before.attributes.is_expandable;
            let is_same = before.attributes.stream == part.attributes.stream
                && before.attributes.pool == part.attributes.pool;
            if before.addr.saturating_add(before.bytes) == part.addr && is_same && (grew || spans) {
                before.bytes = before.bytes.saturating_add(part.bytes);
                before.attributes.is_expandable = true;
                continue;
            }
        }
        joined.push(part);
    }
    joined
}

/// Adds a segment for each range of blocks that lie in no segment, as all blocks of the CPU.
fn add_missing_segments(segments: &mut Vec<FinalSegment>, blocks: &[FinalBlock]) {
    let known = segments.len();
    for block in blocks {
        let after = segments[..known].partition_point(|segment| segment.addr <= block.addr);
        let around = after.checked_sub(1).and_then(|at| segments.get(at));
        if around.is_some_and(|segment| block.addr - segment.addr < segment.bytes) {
            continue;
        }
        let end = block.addr.saturating_add(block.bytes);
        match segments.get_mut(known..).and_then(<[_]>::last_mut) {
            Some(last) if last.addr.saturating_add(last.bytes) >= block.addr => {
                last.bytes = last.bytes.max(end - last.addr);
            }
            _ => segments.push(FinalSegment {
                addr: block.addr,
                bytes: block.bytes,
                attributes: SegmentAttributes::default(),
                blocks: Vec::new(),
            }),
        }
    }
    segments.sort_by_key(|segment| segment.addr);
}

/// Adds its blocks to a segment, and inactive blocks between them.
fn fill_segment(segment: &mut FinalSegment, blocks: &[FinalBlock]) {
    let end = segment.addr.saturating_add(segment.bytes);
    let first = blocks.partition_point(|block| block.addr < segment.addr);
    let last = blocks.partition_point(|block| block.addr < end);
    let mut at = segment.addr;
    let gap = |addr: u64, bytes: u64| FinalBlock {
        addr,
        bytes,
        requested: 0,
        stack: StackId(0),
        state: INACTIVE,
    };
    let inside = blocks.get(first..last).unwrap_or_default();
    for (number, block) in inside.iter().enumerate() {
        if block.addr > at {
            segment.blocks.push(gap(at, block.addr - at));
        }
        // A size may be an estimate: a block ends before the next one begins.
        let limit = inside.get(number + 1).map_or(end, |next| next.addr);
        let bytes = block.bytes.min(limit - block.addr);
        if bytes > 0 {
            segment.blocks.push(FinalBlock { bytes, ..*block });
            at = block.addr + bytes;
        }
    }
    if at < end {
        segment.blocks.push(gap(at, end - at));
    }
}

/// The handle of a stream, from its text in a trace.
pub(crate) fn stream_number(text: Option<&str>) -> u64 {
    let digits = text.and_then(|text| text.strip_prefix("0x"));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// The id of a pool, from its text in a trace.
pub(crate) fn pool_numbers(text: Option<&str>) -> (u64, u64) {
    let inside = text.and_then(|text| text.strip_prefix('(')?.strip_suffix(')'));
    let numbers = inside.and_then(|inside| inside.split_once(", "));
    let parse = |(first, second): (&str, &str)| Some((first.parse().ok()?, second.parse().ok()?));
    numbers.and_then(parse).unwrap_or_default()
}
