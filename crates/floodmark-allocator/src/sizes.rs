//! The rounding of requests, and the size of their segments.
//!
//! Follows `round_size`, `roundup_power2_next_division`, `get_allocation_size` and `should_split` in
//! `CUDACachingAllocator.cpp`.

use crate::config::AllocatorConfig;

/// `kMinBlockSize`: the unit of rounding.
pub const MIN_BLOCK: u64 = 512;
/// `kSmallSize`: rounded requests up to this size come from the small pool.
pub const SMALL_SIZE: u64 = 1 << 20;
/// `kSmallBuffer`: a segment for small requests, and a page of a small expandable segment.
pub const SMALL_BUFFER: u64 = 2 << 20;
/// `kMinLargeAlloc`: requests of at least this size get a segment of their own.
pub const MIN_LARGE_ALLOC: u64 = 10 << 20;
/// `kRoundLarge`: the unit to which such segments are rounded.
pub const ROUND_LARGE: u64 = 2 << 20;
/// Requests of at least this size fail at once.
pub const ABSURD: u64 = 1 << 60;

/// Whether a rounded request comes from the small pool.
pub fn is_small(rounded: u64) -> bool {
    rounded <= SMALL_SIZE
}

/// `round_size`: the rounded size of a request.
pub fn round(requested: u64, config: &AllocatorConfig) -> u64 {
    if requested < MIN_BLOCK {
        return MIN_BLOCK;
    }
    let divisions = config.divisions(requested);
    // Up to 2.3, one division leaves the request as it is.
    let least = u64::from(config.version.is_at_least(2, 4));
    if divisions > least && requested > MIN_BLOCK * divisions {
        return round_to_division(requested, divisions);
    }
    requested.next_multiple_of(MIN_BLOCK)
}

fn round_to_division(requested: u64, divisions: u64) -> u64 {
    if requested.is_power_of_two() || divisions == 1 {
        return requested;
    }
    let floor = 1_u64 << requested.ilog2();
    let step = floor >> divisions.ilog2();
    if step == 0 { floor * 2 } else { requested.next_multiple_of(step) }
}

/// The size of a new segment for a rounded request.
pub fn segment_for(rounded: u64, config: &AllocatorConfig) -> u64 {
    if is_small(rounded) {
        SMALL_BUFFER
    } else if rounded < MIN_LARGE_ALLOC {
        config.large_segment
    } else {
        rounded.next_multiple_of(ROUND_LARGE)
    }
}

/// Whether a free block is split to allocate its first `rounded` bytes.
///
/// Small and expandable blocks (`is_fine`) are split if at least 512 bytes remain; other large blocks if more than 1 MiB
/// remains.
pub(crate) fn should_split(
    block: u64,
    rounded: u64,
    is_fine: bool,
    config: &AllocatorConfig,
) -> bool {
    let Some(rest) = block.checked_sub(rounded) else { return false };
    if is_fine { rest >= MIN_BLOCK } else { rounded < config.max_split && rest > SMALL_SIZE }
}
