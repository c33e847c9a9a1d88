//! The address space of a device at a time: the segments and their blocks.

pub(crate) mod block_owners;
pub(crate) mod simulated_segments;

use floodmark_allocator::{
    AllocatorConfig, BlockState, BlockView, Layout, ReplayIndex, SegmentView, TorchVersion,
};
use floodmark_trace::{AllocationId, Bytes, Category, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category_names;
use crate::allocator::fragmentation::{Fragmentation, fragmentation_of, largest_request};
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::moment::at::At;
use crate::moment::{Moment, check_device};
use crate::question_error::QuestionError;
use crate::segments::block_owners::{BlockOwner, BlockOwners};

/// The most blocks in an answer.
const MOST_BLOCKS: usize = 50_000;

/// The heap of a device at some moments: what is kept to answer for any other.
#[derive(Debug, Clone)]
pub struct SegmentsIndex {
    replay: ReplayIndex,
    largest_request: Bytes,
}

impl SegmentsIndex {
    /// Replays all events of a device once.
    pub fn new(trace: &Trace, device: Device) -> Result<Self, QuestionError> {
        let device = device.canonical();
        check_device(trace, device)?;
        if device.is_cpu() || trace.segments.is_empty() {
            return Err(QuestionError::NoSegments);
        }
        let version = TorchVersion::last_in(&trace.header.torch).unwrap_or(TorchVersion::CHECKED);
        let config = AllocatorConfig::of_recording(&trace.header.allocator_conf, version);
        let largest_request = largest_request(trace, device);
        Ok(Self { replay: ReplayIndex::new(trace, device, config), largest_request })
    }
}

/// The state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SegmentBlockState {
    /// It is allocated.
    Live,
    /// Pending free: freed by the program, still used by a stream.
    PendingFree,
    /// Free: kept in the cache.
    Free,
    /// Address space without memory behind it.
    Unmapped,
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SegmentBlock {
    /// Where it begins in its segment.
    pub offset: u64,
    /// How long it is.
    pub bytes: Bytes,
    /// Its state.
    pub state: SegmentBlockState,
    /// Its category, as an index into `categories`; null for a free block.
    pub category: Option<usize>,
    /// The allocation in it.
    pub allocation: Option<u32>,
    /// The line and tensor that have it, as an index into `owners`; null for a free block.
    pub owner: Option<usize>,
}

/// A stretch of memory from the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SegmentRow {
    /// Where it begins: a page's numbers are too short for an address.
    pub address: String,
    /// How long it is.
    pub bytes: Bytes,
    /// The pool; 0 is the default one.
    pub pool: u16,
    /// The stream that it serves.
    pub stream: String,
    /// `small` or `large`, and whether it is `expandable`.
    pub kind: &'static str,
    /// Its blocks in the order of addresses, without gaps; null where there are too many in all.
    pub blocks: Vec<SegmentBlock>,
}

/// torch's totals at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SegmentTotals {
    /// Allocated bytes.
    pub allocated: Bytes,
    /// Active bytes.
    pub active: Option<Bytes>,
    /// Reserved bytes.
    pub reserved: Option<Bytes>,
    /// What the program requested; null while that is unknown for some blocks.
    pub requested: Option<Bytes>,
}

/// The address space.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Segments {
    /// The moment.
    pub at: Moment,
    /// torch's totals.
    pub totals: SegmentTotals,
    /// In the order of addresses.
    pub segments: Vec<SegmentRow>,
    /// The names of the categories.
    pub categories: Vec<&'static str>,
    /// The lines and tensors that have the blocks.
    pub owners: Vec<BlockOwner>,
    /// Wasted memory.
    pub fragmentation: Fragmentation,
    /// How many blocks are left out: those of the smallest segments.
    pub skipped: usize,
}

/// The address space at a moment. All indexes must be of this trace, and the last two of one device.
pub fn segments(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    heaps: &SegmentsIndex,
    at: At,
) -> Result<Segments, QuestionError> {
    let at = moments.moment(trace, &index.context, at)?;
    let layout = heaps.replay.after(trace, at.after).layout;
    let (allocated, active) = (at.allocated, at.active);
    let totals =
        SegmentTotals { allocated, active, reserved: at.reserved, requested: at.requested };
    Ok(segments_of(trace, index, at, totals, &layout, heaps.largest_request))
}

/// A layout, with the categories and owners of its blocks.
pub(crate) fn segments_of(
    trace: &Trace,
    index: &TraceIndex,
    at: Moment,
    totals: SegmentTotals,
    layout: &Layout,
    largest_request: Bytes,
) -> Segments {
    let mut owners = BlockOwners::new(trace);
    let mut segments: Vec<SegmentRow> =
        layout.segments.iter().map(|segment| row(index, &mut owners, segment)).collect();
    let skipped = leave_out(&mut segments);
    Segments {
        at,
        totals,
        segments,
        categories: category_names(),
        owners: owners.into_owners(),
        fragmentation: fragmentation_of(layout, largest_request),
        skipped,
    }
}

fn row(index: &TraceIndex, owners: &mut BlockOwners<'_>, segment: &SegmentView) -> SegmentRow {
    let kind = match (segment.is_small, segment.is_expandable) {
        (true, false) => "small",
        (false, false) => "large",
        (true, true) => "small expandable",
        (false, true) => "large expandable",
    };
    SegmentRow {
        address: format!("0x{:x}", segment.addr),
        bytes: segment.bytes,
        pool: segment.pool,
        stream: format!("0x{:x}", segment.stream),
        kind,
        blocks: segment.blocks.iter().map(|one| block(index, owners, segment.addr, one)).collect(),
    }
}

fn block(
    index: &TraceIndex,
    owners: &mut BlockOwners<'_>,
    start: u64,
    block: &BlockView,
) -> SegmentBlock {
    let state = match block.state {
        BlockState::Allocated => SegmentBlockState::Live,
        BlockState::Pending => SegmentBlockState::PendingFree,
        BlockState::Free => SegmentBlockState::Free,
        BlockState::Unmapped => SegmentBlockState::Unmapped,
    };
    let category = block.owner.map(|owner| index.category(AllocationId(owner)));
    let index_of = |category| Category::ALL.iter().position(|&one| one == category);
    SegmentBlock {
        offset: block.addr - start,
        bytes: block.bytes,
        state,
        category: category.and_then(index_of),
        allocation: block.owner,
        owner: block.owner.and_then(|owner| owners.add(AllocationId(owner), block.bytes)),
    }
}

/// Removes the blocks of the smallest segments if there are too many; returns how many.
fn leave_out(segments: &mut [SegmentRow]) -> usize {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(segments[at].bytes));
    let (mut kept, mut skipped) = (0, 0);
    for at in order {
        let blocks = segments[at].blocks.len();
        if kept + blocks > MOST_BLOCKS {
            skipped += blocks;
            segments[at].blocks.clear();
        } else {
            kept += blocks;
        }
    }
    skipped
}
