//! Where the driver puts segments, and how much it has.
//!
//! Up to 2.11 the lowest address decides between free blocks of one size, so what the driver does
//! matters a little. What is modelled here was seen with one driver and one kind of GPU; it is an
//! observation, not a contract.

use std::collections::BTreeMap;

/// The driver reserves address space in ranges of this size.
const RANGE: u64 = 32 << 20;
/// Ranges are made downwards from here.
const TOP: u64 = 0x7f00_0000_0000;
/// Expandable segments reserve address space upwards from here, each as much as the device has and more.
const EXPANDABLE: u64 = 0x1000_0000_0000;
/// Address space for one expandable segment: more than any device has.
pub(crate) const EXPANDABLE_SPACE: u64 = 1 << 42;

/// The address space of a device.
#[derive(Debug, Clone)]
pub(crate) struct Driver {
    /// Free stretches of reserved ranges: address and length.
    holes: BTreeMap<u64, u64>,
    lowest: u64,
    expandable: u64,
    /// Addresses that a recording saw, with the requested sizes, in order.
    recorded: std::collections::VecDeque<(u64, u64)>,
}

impl Driver {
    pub(crate) fn new(recorded: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let recorded = recorded.into_iter().collect();
        Self { holes: BTreeMap::new(), lowest: TOP, expandable: EXPANDABLE, recorded }
    }

    /// `cudaMalloc`: the lowest hole that is long enough, else a new range below all others.
    pub(crate) fn place(&mut self, bytes: u64) -> u64 {
        match self.recorded.pop_front() {
            Some((addr, recorded)) if recorded == bytes => return addr,
            // What happens is not what was recorded: from here on its addresses mean nothing.
            Some(_) => self.recorded.clear(),
            None => {}
        }
        let hole = self.holes.iter().find(|&(_, &length)| length >= bytes);
        let (addr, length) = if let Some((&addr, &length)) = hole {
            self.holes.remove(&addr);
            (addr, length)
        } else {
            let length = bytes.next_multiple_of(RANGE);
            self.lowest -= length;
            (self.lowest, length)
        };
        if length > bytes {
            self.holes.insert(addr + bytes, length - bytes);
        }
        addr
    }

    /// `cudaFree`.
    pub(crate) fn give_back(&mut self, addr: u64, bytes: u64) {
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

    /// `cuMemAddressReserve`.
    pub(crate) fn reserve_addresses(&mut self) -> u64 {
        let addr = self.expandable;
        self.expandable += EXPANDABLE_SPACE;
        addr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_lowest_hole_is_taken_first_and_ranges_grow_downwards() {
        let mut driver = Driver::new([]);
        let first = driver.place(20 * MIB);
        let second = driver.place(20 * MIB);
        assert_eq!(second, first - 32 * MIB);
        assert_eq!(driver.place(2 * MIB), second + 20 * MIB);
        driver.give_back(second, 20 * MIB);
        assert_eq!(driver.place(2 * MIB), second);
        assert_eq!(driver.place(64 * MIB), second - 64 * MIB);
    }

    #[test]
    fn recorded_addresses_count_until_something_else_happens() {
        let mut driver = Driver::new([(100, 2 * MIB), (200, 4 * MIB), (300, 2 * MIB)]);
        assert_eq!(driver.place(2 * MIB), 100);
        assert!(driver.place(20 * MIB) > 1000);
        assert!(driver.place(2 * MIB) > 1000);
    }
}
