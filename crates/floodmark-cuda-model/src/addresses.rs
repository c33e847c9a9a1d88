//! The address of a `cudaMalloc`, and the bytes of the device that it uses.
//!
//! The driver reserves address space in ranges of 32 MiB, each below all earlier ones. An allocation gets the lowest
//! hole that is long enough. This matters because up to torch 2.11 the caching allocator uses the block with the lowest
//! address among free blocks of one size. The rules were observed with one driver on one kind of GPU. NVIDIA does not
//! guarantee them.

use std::collections::BTreeMap;
use std::ops::Range;

/// The driver reserves address space in multiples of this.
pub const RANGE_BYTES: u64 = 32 << 20;
/// The size of a page of device memory.
pub const PAGE_BYTES: u64 = 2 << 20;
/// Allocations of at least this size have pages of their own; smaller ones share pages.
const OWN_PAGES: u64 = 1 << 20;
/// The alignment of allocations that share pages.
const ALIGNMENT: u64 = 512;

/// The bytes of address space and of device memory that an allocation uses; `None` for more than 2^64.
pub fn granted_bytes(requested: u64) -> Option<u64> {
    let unit = if requested >= OWN_PAGES { PAGE_BYTES } else { ALIGNMENT };
    requested.max(1).checked_next_multiple_of(unit)
}

/// The address space that the driver places allocations in.
#[derive(Debug, Clone)]
pub struct AddressSpace {
    start: u64,
    /// The lowest range that was reserved.
    lowest: u64,
    /// The holes in reserved ranges: address and length.
    holes: BTreeMap<u64, u64>,
}

impl AddressSpace {
    /// A space without reserved ranges. The driver reserves from the end downwards.
    pub fn new(addresses: Range<u64>) -> Self {
        Self { start: addresses.start, lowest: addresses.end, holes: BTreeMap::new() }
    }

    /// The address of a new allocation: the lowest hole that is long enough, or else a new range. `None` if no address space is
    /// left.
    pub fn place(&mut self, bytes: u64) -> Option<u64> {
        let hole = self.holes.iter().find(|&(_, &length)| length >= bytes);
        let (addr, length) = if let Some((&addr, &length)) = hole {
            self.holes.remove(&addr);
            (addr, length)
        } else {
            let length = bytes.checked_next_multiple_of(RANGE_BYTES)?;
            let addr = self.lowest.checked_sub(length).filter(|&addr| addr >= self.start)?;
            self.lowest = addr;
            (addr, length)
        };
        if length > bytes {
            self.holes.insert(addr + bytes, length - bytes);
        }
        Some(addr)
    }

    /// Frees an allocation, and merges it with adjacent holes. An address outside the reserved ranges is ignored.
    pub fn free(&mut self, addr: u64, bytes: u64) {
        if addr < self.lowest {
            return;
        }
        let (mut addr, mut length) = (addr, bytes);
        if let Some(next) = self.holes.remove(&(addr + length)) {
            length += next;
        }
        if let Some((&before, &size)) = self.holes.range(..addr).next_back()
            && before + size == addr
        {
            self.holes.remove(&before);
            (addr, length) = (before, length + size);
        }
        self.holes.insert(addr, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const END: u64 = 1 << 40;

    #[test]
    fn the_lowest_hole_is_used_first_and_ranges_grow_downwards() {
        let mut space = AddressSpace::new(0..END);
        assert_eq!(space.place(20 * MIB), Some(END - 32 * MIB));
        assert_eq!(space.place(20 * MIB), Some(END - 64 * MIB));
        assert_eq!(space.place(2 * MIB), Some(END - 44 * MIB));
        space.free(END - 64 * MIB, 20 * MIB);
        assert_eq!(space.place(2 * MIB), Some(END - 64 * MIB));
        assert_eq!(space.place(64 * MIB), Some(END - 128 * MIB));
    }

    #[test]
    fn freed_neighbours_are_one_hole() {
        let mut space = AddressSpace::new(0..END);
        let blocks = [8, 8, 8, 8].map(|mib| space.place(mib * MIB).expect("there is room"));
        for block in [blocks[1], blocks[3], blocks[2]] {
            space.free(block, 8 * MIB);
        }
        assert_eq!(space.place(24 * MIB), Some(blocks[1]));
    }

    #[test]
    fn a_full_space_has_no_address() {
        let mut space = AddressSpace::new(END - 64 * MIB..END);
        assert_eq!(space.place(65 * MIB), None);
        assert_eq!(space.place(u64::MAX), None);
        assert_eq!(space.place(64 * MIB), Some(END - 64 * MIB));
        assert_eq!(space.place(1), None);
    }

    #[test]
    fn an_address_that_was_never_reserved_leaves_no_hole() {
        let mut space = AddressSpace::new(0..END);
        space.free(4096, 64 * MIB);
        assert_eq!(space.place(2 * MIB), Some(END - 32 * MIB));
    }

    #[test]
    fn large_allocations_take_whole_pages() {
        let table = [
            (0, Some(512)),
            (1, Some(512)),
            (513, Some(1024)),
            (MIB - 1, Some(MIB)),
            (MIB, Some(2 * MIB)),
            (5 * MIB, Some(6 * MIB)),
            (u64::MAX, None),
        ];
        for (requested, granted) in table {
            assert_eq!(granted_bytes(requested), granted, "{requested}");
        }
    }
}
