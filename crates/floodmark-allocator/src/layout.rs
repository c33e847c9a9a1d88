//! The segments and blocks of a device at a chosen time.

use floodmark_trace::Bytes;

use crate::heap::{Block, BlockId, BlockState, Heap, Index};

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockView {
    /// Its address.
    pub addr: u64,
    /// Its size.
    pub bytes: Bytes,
    /// Requested bytes. A free block has those of its last allocation.
    pub requested: Bytes,
    /// Its state.
    pub state: BlockState,
    /// The number of its allocation.
    pub owner: Option<u32>,
}

/// A segment. Of an expandable segment, a range of mapped pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentView {
    /// Its address.
    pub addr: u64,
    /// Its size.
    pub bytes: Bytes,
    /// Its stream.
    pub stream: u64,
    /// Its pool; 0 is the default one.
    pub pool: u16,
    /// Whether it is for requests of at most 1 MiB.
    pub is_small: bool,
    /// Whether it can grow.
    pub is_expandable: bool,
    /// Its blocks, in the order of addresses, without gaps.
    pub blocks: Vec<BlockView>,
}

/// All segments of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// In the order of addresses.
    pub segments: Vec<SegmentView>,
}

impl Layout {
    pub(crate) fn from_heap<I: Index>(
        heap: &Heap<I>,
        streams: &[u64],
        is_mapped: impl Fn(&Block) -> bool,
    ) -> Self {
        let mut segments = Vec::new();
        for head in heap.ids().filter(|&id| heap.block(id).prev == BlockId::NONE) {
            let mut open: Option<SegmentView> = None;
            let mut next = Some(head);
            while let Some(id) = next {
                let block = heap.block(id);
                next = block.next.some();
                if is_mapped(block) {
                    let segment = open.get_or_insert_with(|| view_of(block, streams));
                    segment.bytes += Bytes(block.size);
                    segment.blocks.push(BlockView {
                        addr: block.addr,
                        bytes: Bytes(block.size),
                        requested: Bytes(block.requested),
                        state: block.state,
                        owner: (block.owner != u32::MAX).then_some(block.owner),
                    });
                } else {
                    segments.extend(open.take());
                }
            }
            segments.extend(open);
        }
        segments.sort_by_key(|segment| segment.addr);
        Self { segments }
    }

    /// The largest free block.
    pub fn largest_free(&self) -> Bytes {
        self.free().max().unwrap_or_default()
    }

    /// Sizes of all free blocks.
    pub fn free(&self) -> impl Iterator<Item = Bytes> + '_ {
        let blocks = self.segments.iter().flat_map(|segment| &segment.blocks);
        blocks.filter(|block| block.state == BlockState::Free).map(|block| block.bytes)
    }
}

fn view_of(block: &Block, streams: &[u64]) -> SegmentView {
    SegmentView {
        addr: block.addr,
        bytes: Bytes(0),
        stream: streams.get(usize::from(block.stream)).copied().unwrap_or(0),
        pool: block.pool,
        is_small: block.is_small,
        is_expandable: block.is_expandable,
        blocks: Vec::new(),
    }
}
