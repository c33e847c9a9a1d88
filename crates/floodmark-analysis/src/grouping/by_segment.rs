//! Rows by segment: the memory that torch took from the driver, and how blocks lie in it.

use floodmark_allocator::{BlockState, Layout, SegmentView};
use floodmark_trace::Bytes;

use crate::grouping::row::{Detail, Row};

/// How many characters the picture of a segment has.
const WIDTH: usize = 32;

pub(crate) fn rows(layout: &Layout, top: usize) -> (usize, Vec<Row>) {
    let mut segments: Vec<&SegmentView> = layout.segments.iter().collect();
    segments.sort_by_key(|segment| (std::cmp::Reverse(segment.bytes), segment.addr));
    let total = segments.len();
    (total, segments.into_iter().take(top).map(row).collect())
}

fn row(segment: &SegmentView) -> Row {
    let mut sizes: Vec<Bytes> = Vec::new();
    let (mut pending, mut free, mut largest) = (Bytes(0), Bytes(0), Bytes(0));
    for block in &segment.blocks {
        match block.state {
            BlockState::Allocated => sizes.push(block.bytes),
            BlockState::Pending => pending += block.bytes,
            BlockState::Free | BlockState::Unmapped => {
                free += block.bytes;
                largest = largest.max(block.bytes);
            }
        }
    }
    sizes.sort_unstable();
    let kind = if segment.is_small { "small" } else { "large" };
    let expandable = if segment.is_expandable { ", expandable" } else { "" };
    let pool = if segment.pool == 0 { String::new() } else { format!(", pool {}", segment.pool) };
    let stream = segment.stream;
    let stream = if stream == 0 { String::new() } else { format!(", stream 0x{stream:x}") };
    Row {
        bytes: sizes.iter().copied().sum(),
        cumulative: Bytes(0),
        count: sizes.len() as u64,
        median: sizes.get(sizes.len() / 2).copied().unwrap_or_default(),
        location: format!("0x{:x} {kind}{expandable}{pool}{stream}", segment.addr),
        detail: Detail::Segment {
            address: segment.addr,
            segment: segment.bytes,
            pending_free: pending,
            free,
            largest_free: largest,
            picture: picture(segment),
        },
    }
}

/// `████▒▒··`: what most of each part is: allocated, waiting for a stream, free.
fn picture(segment: &SegmentView) -> String {
    let mut text = String::new();
    let whole = u128::from(segment.bytes.0.max(1));
    let mut blocks = segment.blocks.iter().peekable();
    for part in 0..WIDTH as u128 {
        let from = segment.addr + u64::try_from(whole * part / WIDTH as u128).unwrap_or(0);
        let to = segment.addr + u64::try_from(whole * (part + 1) / WIDTH as u128).unwrap_or(0);
        let mut covered = [0_u64; 3];
        while let Some(block) = blocks.peek() {
            let (start, end) = (block.addr.max(from), (block.addr + block.bytes.0).min(to));
            let kind = match block.state {
                BlockState::Allocated => 0,
                BlockState::Pending => 1,
                BlockState::Free | BlockState::Unmapped => 2,
            };
            covered[kind] += end.saturating_sub(start);
            if block.addr + block.bytes.0 > to {
                break;
            }
            blocks.next();
        }
        let most = (0..3).max_by_key(|&kind| (covered[kind], 3 - kind)).unwrap_or(2);
        text.push(['█', '▒', '·'][most]);
    }
    text
}
