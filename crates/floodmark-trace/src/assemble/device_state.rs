//! The assembler's state of one device: its live blocks, its segments and its totals.

use std::collections::BTreeMap;

use super::step_totals::StepTotals;
use crate::event::{AllocationId, Bytes, Device};

/// A live block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    pub(crate) bytes: u64,
    pub(crate) slack: u64,
    pub(crate) allocation: AllocationId,
    /// The last name it had; 0 for none.
    pub(crate) label: u32,
    /// Whether autograd has saved it.
    pub(crate) is_saved: bool,
}

impl Live {
    pub(crate) fn new(bytes: u64, slack: u64, allocation: AllocationId) -> Self {
        Self { bytes, slack, allocation, label: 0, is_saved: false }
    }
}

/// The memory of one device.
#[derive(Debug, Default)]
pub(crate) struct DeviceState {
    pub(crate) live: BTreeMap<u64, Live>,
    /// The sum of our events.
    pub(crate) allocated: u64,
    /// torch's total minus ours: blocks from before the recording that no event names.
    pub(crate) unseen: Option<u64>,
    pub(crate) reserved: u64,
    /// Segments by address, with their bytes. Parts of an expandable one are entries of their own.
    pub(crate) segments: BTreeMap<u64, u64>,
    /// The highest total of all.
    pub(crate) highest: u64,
    /// The highest totals since the last step ended.
    pub(crate) peak: u64,
    pub(crate) reserved_peak: u64,
}

impl DeviceState {
    /// The block that contains an address: a tensor may lie inside a larger block.
    pub(crate) fn around(&mut self, addr: u64) -> Option<&mut Live> {
        let (&start, live) = self.live.range_mut(..=addr).next_back()?;
        (addr - start < live.bytes.max(1)).then_some(live)
    }

    /// Adds a block, and returns the earlier block at that address.
    pub(crate) fn insert(&mut self, addr: u64, live: Live) -> Option<Live> {
        let stale = self.live.insert(addr, live);
        self.allocated = self.allocated.saturating_sub(stale.map_or(0, |stale| stale.bytes));
        self.allocated = self.allocated.saturating_add(live.bytes);
        stale
    }

    /// A segment was allocated or grew.
    pub(crate) fn add_segment(&mut self, addr: u64, bytes: u64) {
        self.segments.insert(addr, bytes);
    }

    /// A segment, or a part of an expandable one, was freed.
    pub(crate) fn remove_segment(&mut self, addr: u64, bytes: u64) {
        let end = addr.saturating_add(bytes);
        let touched: Vec<(u64, u64)> = self
            .segments
            .range(..end)
            .rev()
            .map(|(&start, &bytes)| (start, start.saturating_add(bytes)))
            .take_while(|&(_, stop)| stop > addr)
            .collect();
        for (start, stop) in touched {
            self.segments.remove(&start);
            if start < addr {
                self.segments.insert(start, addr - start);
            }
            if stop > end {
                self.segments.insert(end, stop - end);
            }
        }
    }

    /// torch's total; without one, the sum of the events.
    pub(crate) fn total(&self) -> u64 {
        self.allocated.saturating_add(self.unseen.unwrap_or(0))
    }

    pub(crate) fn note_height(&mut self) {
        self.peak = self.peak.max(self.total());
        self.highest = self.highest.max(self.peak);
        self.reserved_peak = self.reserved_peak.max(self.reserved);
    }

    /// Returns the figures of the step that ends; the next step begins with its final values.
    pub(crate) fn end_step(&mut self, step: u32, device: Device) -> StepTotals {
        let (end, reserved) = (self.total(), self.reserved);
        StepTotals {
            step,
            device,
            peak: Bytes(std::mem::replace(&mut self.peak, end).max(end)),
            end: Bytes(end),
            reserved_peak: Bytes(std::mem::replace(&mut self.reserved_peak, reserved)),
            reserved: Bytes(reserved),
        }
    }
}
