//! Blocks that were live before recording started, listed while the program runs.
//!
//! A list of live blocks is out of date as soon as it is made: another thread may free a block that is on it. So hooks
//! store what is freed from before the list is made until it is recorded, and these blocks are left out.

use std::sync::Arc;

use floodmark_trace::journal::Record;
use floodmark_trace::{Device, EventKind};

use crate::recorder::Recording;
use crate::recorder::freed_blocks::FreedBlocks;
use crate::recorder::{Local, with_recording};

/// A block, or a segment, that was live before recording began.
#[derive(Debug, Clone, Copy)]
pub struct InitialBlock {
    /// Where.
    pub device: Device,
    /// Its address.
    pub addr: u64,
    /// Its size.
    pub bytes: u64,
    /// The requested bytes; 0 when unknown.
    pub requested: u64,
    /// A segment, not a block.
    pub is_segment: bool,
}

/// Device type, device index, address, size, requested size, is it a segment.
impl From<(String, i32, u64, u64, u64, bool)> for InitialBlock {
    fn from(block: (String, i32, u64, u64, u64, bool)) -> Self {
        let (kind, index, addr, bytes, requested, is_segment) = block;
        Self { device: Device::of_torch(&kind, index), addr, bytes, requested, is_segment }
    }
}

/// An open list of live blocks.
#[derive(Debug)]
pub struct InitialBlocks {
    freed: Option<Arc<FreedBlocks>>,
}

impl InitialBlocks {
    /// Starts a list, before the first block is examined.
    pub fn begin() -> Self {
        let freed = with_recording(|recording, _| Arc::clone(&recording.freed_blocks));
        if let Some(freed) = &freed {
            freed.begin_list();
        }
        Self { freed }
    }

    /// Records the blocks of the list that are still live.
    pub fn record(&self, blocks: &[InitialBlock]) {
        with_recording(|recording, local| {
            for block in blocks.iter().filter(|block| recording.wants(block.device.canonical())) {
                self.record_one(recording, local, block);
            }
        });
    }

    fn record_one(&self, recording: &Recording, local: &mut Local, block: &InitialBlock) {
        let kind =
            if block.is_segment { EventKind::InitialSegment } else { EventKind::InitialBlock };
        let device = block.device.canonical();
        // Locked until the record is written: a thread that frees the block waits, so its event is later.
        let freed = self.freed.as_ref().map(|freed| freed.lock());
        let is_freed = freed.as_ref().is_some_and(|freed| freed.contains(&(device, block.addr)));
        if is_freed && !block.is_segment {
            return;
        }
        let mut record = Record::block(kind, device, block.addr, block.bytes);
        record.set_requested(block.requested);
        local.write(recording, record, &[]);
    }
}

impl Drop for InitialBlocks {
    fn drop(&mut self) {
        if let Some(freed) = &self.freed {
            freed.end_list();
        }
    }
}

#[cfg(test)]
mod tests {
    use floodmark_trace::Window;

    use super::*;
    use crate::test_recorder::{Installed, MAX_MEMORY, records};

    fn installed() -> Installed {
        Installed::new(MAX_MEMORY, &[Window { cpu: true, cuda: 1, ..Window::default() }])
    }

    fn block(device: Device, addr: u64, is_segment: bool) -> InitialBlock {
        InitialBlock { device, addr, bytes: 512, requested: 500, is_segment }
    }

    fn written(installed: &Installed) -> Vec<(u8, u64, u64)> {
        let written = records(installed.recording).concat();
        written.iter().map(|(record, _)| (record.kind, record.addr(), record.requested())).collect()
    }

    #[test]
    fn a_block_that_is_freed_while_the_list_is_made_is_left_out() {
        let installed = installed();
        let freed = &installed.recording.freed_blocks;
        freed.add(Device::CPU, 0x20);
        let list = InitialBlocks::begin();
        freed.add(Device::CPU, 0x40);
        freed.add(Device::cuda(0), 0x60);
        let [cpu, gpu] = [Device::CPU, Device::cuda(0)];
        let blocks = [(cpu, 0x20), (cpu, 0x40), (cpu, 0x60), (gpu, 0x60)];
        list.record(&blocks.map(|(device, addr)| block(device, addr, false)));
        let kind = EventKind::InitialBlock as u8;
        assert_eq!(written(&installed), [(kind, 0x20, 500), (kind, 0x60, 500)]);
    }

    /// A segment may begin where its first block does.
    #[test]
    fn a_segment_is_no_block() {
        let installed = installed();
        let list = InitialBlocks::begin();
        installed.recording.freed_blocks.add(Device::cuda(0), 0x40);
        list.record(&[block(Device::cuda(0), 0x40, true), block(Device::cuda(0), 0x40, false)]);
        assert_eq!(written(&installed), [(EventKind::InitialSegment as u8, 0x40, 500)]);
    }

    #[test]
    fn nothing_is_noted_after_the_last_list() {
        let installed = installed();
        let freed = &installed.recording.freed_blocks;
        let (one, other) = (InitialBlocks::begin(), InitialBlocks::begin());
        freed.add(Device::CPU, 0x40);
        drop(one);
        assert_eq!(freed.lock().len(), 1, "the other list may have the block");
        drop(other);
        freed.add(Device::CPU, 0x60);
        assert!(freed.lock().is_empty());
    }
}
