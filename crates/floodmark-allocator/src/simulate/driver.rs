//! The addresses of segments.
//!
//! `floodmark-cuda-model` has the driver's rules. A simulation under the recorded settings uses the recorded addresses
//! instead, as long as the same segments are requested.

use std::collections::VecDeque;

use floodmark_cuda_model::AddressSpace;

/// The driver reserves ranges downwards from this address.
const TOP: u64 = 0x7f00_0000_0000;
/// Expandable segments reserve address space upwards from this address.
const EXPANDABLE: u64 = 0x1000_0000_0000;
/// Address space for one expandable segment: more than any device has.
pub(crate) const EXPANDABLE_SPACE: u64 = 1 << 42;

/// The address space of a device.
#[derive(Debug, Clone)]
pub(crate) struct Driver {
    space: AddressSpace,
    expandable: u64,
    /// The recorded addresses of segments with their sizes, in order.
    recorded: VecDeque<(u64, u64)>,
}

impl Driver {
    pub(crate) fn new(recorded: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let recorded = recorded.into_iter().collect();
        Self { space: AddressSpace::new(0..TOP), expandable: EXPANDABLE, recorded }
    }

    /// `cudaMalloc`: the recorded address, else the one that the driver would choose. `None` when there are no
    /// more addresses.
    pub(crate) fn place(&mut self, bytes: u64) -> Option<u64> {
        match self.recorded.pop_front() {
            Some((addr, recorded)) if recorded == bytes => return Some(addr),
            // The program differs from the recording: the other recorded addresses do not apply.
            Some(_) => self.recorded.clear(),
            None => {}
        }
        self.space.place(bytes)
    }

    /// `cudaFree`.
    pub(crate) fn free(&mut self, addr: u64, bytes: u64) {
        self.space.free(addr, bytes);
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
    fn recorded_addresses_are_used_until_another_size_is_requested() {
        let mut driver = Driver::new([(100, 2 * MIB), (200, 4 * MIB), (300, 2 * MIB)]);
        assert_eq!(driver.place(2 * MIB), Some(100));
        assert_eq!(driver.place(20 * MIB), Some(TOP - 32 * MIB));
        assert_eq!(driver.place(2 * MIB), Some(TOP - 12 * MIB));
    }
}
