//! The live storages, and their blocks.
//!
//! A storage on a CUDA device has a block of that device's simulated allocator, one on the host has its
//! bytes. Every change is reported to the recorder as torch would report it.

use std::fmt;

use floodmark_allocator::{AllocatorConfig, Limit, Observer, Online, Settings};
use floodmark_probe::{
    FakeBlock, FakeSegmentChange, record_fake_alloc, record_fake_free, record_fake_oom,
    record_fake_segment, set_fake_storage,
};
use floodmark_trace::{Bytes, Device};
use hashbrown::HashMap;

use crate::call::{Call, Machine};
use crate::hidden::{self, Hidden, Stays};
use crate::libraries::{Called, Libraries};

/// Whether a call of an operator may take more memory than its results.
pub fn takes_memory(op: &str) -> bool {
    hidden::has_rule(op) || Called::by(op).is_some()
}

/// A request that did not fit on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Where.
    pub device: Device,
    /// The requested bytes.
    pub requested: u64,
    /// The device's memory that torch may have.
    pub capacity: u64,
    /// The allocated bytes.
    pub allocated: u64,
    /// The reserved bytes.
    pub reserved: u64,
}

impl fmt::Display for OutOfMemory {
    /// torch's message, with the known figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / 1_048_576.0);
        write!(
            f,
            "CUDA out of memory. Tried to allocate {}. GPU {} has {} for torch, of which {} is reserved \
             and {} allocated (an estimate with fake tensors).",
            mib(self.requested),
            self.device.index,
            mib(self.capacity),
            mib(self.reserved),
            mib(self.allocated),
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// The memory of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// Allocated now.
    pub allocated: u64,
    /// Peak of allocated bytes.
    pub peak_allocated: u64,
    /// Reserved now.
    pub reserved: u64,
    /// Peak of reserved bytes.
    pub peak_reserved: u64,
}

/// The allocators of all devices, and the storages that have their blocks.
#[derive(Debug)]
pub struct Memory {
    machine: Machine,
    settings: Settings,
    devices: Vec<Option<Online<SegmentReporter>>>,
    host: Host,
    storages: HashMap<usize, Storage>,
    /// Workspaces that libraries keep: by device, what it is for, and whether backward has it.
    kept: HashMap<(Device, &'static str, bool), u64>,
    libraries: Libraries,
}

#[derive(Debug, Clone, Copy)]
struct Storage {
    device: Device,
    bytes: u64,
    block: Option<Block>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    owner: u32,
    addr: u64,
    bytes: u64,
}

/// Reports segments to the recorder.
#[derive(Debug)]
struct SegmentReporter(Device);

impl Observer for SegmentReporter {
    fn segment_allocated(&mut self, addr: u64, bytes: u64, maps: bool) {
        let change = if maps { FakeSegmentChange::Map } else { FakeSegmentChange::Alloc };
        record_fake_segment(self.0, change, addr, bytes);
    }

    fn segment_freed(&mut self, addr: u64, bytes: u64, maps: bool) {
        let change = if maps { FakeSegmentChange::Unmap } else { FakeSegmentChange::Free };
        record_fake_segment(self.0, change, addr, bytes);
    }
}

/// The host: every block has the requested size.
#[derive(Debug, Default)]
struct Host {
    level: Level,
    next_addr: u64,
}

impl Host {
    fn alloc(&mut self, bytes: u64) -> Block {
        self.next_addr += 64;
        let addr = self.next_addr;
        self.next_addr += bytes.next_multiple_of(64);
        self.level.allocated += bytes;
        self.level.peak_allocated = self.level.peak_allocated.max(self.level.allocated);
        Block { owner: 0, addr, bytes }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for &storage in self.storages.keys() {
            set_fake_storage(storage, None);
        }
    }
}

impl Memory {
    /// Empty devices, each with this much memory for torch; `None` for no limit.
    pub fn new(machine: Machine, config: AllocatorConfig, capacity: Option<u64>) -> Self {
        let limit = capacity.map(|bytes| Limit { bytes: Bytes(bytes), is_fraction: false });
        Self {
            machine,
            settings: Settings { config, limit, uses_recorded_addresses: false },
            devices: Vec::new(),
            host: Host::default(),
            storages: HashMap::new(),
            kept: HashMap::new(),
            libraries: Libraries::new(machine.capability),
        }
    }

    /// The last known size of a storage; `None` if it is unknown.
    pub fn bytes_of(&self, storage: usize) -> Option<u64> {
        self.storages.get(&storage).map(|storage| storage.bytes)
    }

    /// The device of a storage that is known.
    pub fn device_of(&self, storage: usize) -> Option<Device> {
        self.storages.get(&storage).map(|storage| storage.device)
    }

    /// The address of a storage's block; 0 when it has none.
    pub fn address_of(&self, storage: usize) -> u64 {
        self.storages.get(&storage).and_then(|storage| storage.block).map_or(0, |block| block.addr)
    }

    /// The memory of a device.
    pub fn level(&self, device: Device) -> Level {
        if device.is_cpu() {
            return self.host.level;
        }
        let Some(allocator) = self.devices.get(index_of(device)).and_then(Option::as_ref) else {
            return Level::default();
        };
        let (allocated, reserved) =
            (allocator.stats().allocated_bytes.all, allocator.stats().reserved_bytes.all);
        Level {
            allocated: allocated.current,
            peak_allocated: allocated.peak,
            reserved: reserved.current,
            peak_reserved: reserved.peak,
        }
    }

    /// Gives a storage that is new or was resized a block for its bytes.
    ///
    /// As in torch, a growing storage keeps its old block until it has the new one.
    pub fn place(
        &mut self,
        storage: usize,
        device: Device,
        bytes: u64,
        op: &str,
    ) -> Result<(), OutOfMemory> {
        self.place_as(storage, device, bytes, bytes, op)
    }

    /// The same for a storage whose real counterpart has `real_bytes`.
    pub fn place_as(
        &mut self,
        storage: usize,
        device: Device,
        bytes: u64,
        real_bytes: u64,
        op: &str,
    ) -> Result<(), OutOfMemory> {
        let before = self.storages.get(&storage).copied();
        if before.is_some_and(|before| before.bytes == bytes) {
            return Ok(());
        }
        let block = match real_bytes {
            0 => None,
            real_bytes => Some(self.alloc(device, real_bytes, op, None)?),
        };
        self.storages.insert(storage, Storage { device, bytes, block });
        set_fake_storage(storage, block.map(|block| (device, block.addr)));
        if let Some(Storage { device, block: Some(block), .. }) = before {
            self.free(device, block);
        }
        Ok(())
    }

    /// Frees the block of a destroyed storage.
    pub fn remove(&mut self, storage: usize) {
        if let Some(Storage { device, block: Some(block), .. }) = self.storages.remove(&storage) {
            set_fake_storage(storage, None);
            self.free(device, block);
        }
    }

    /// Allocates the hidden memory of a call: to be freed with [`Self::free_hidden`] once the results have
    /// their blocks. If the kernel's own host code reported its temporary memory, that is `own_bytes`; the
    /// rest follows the rules.
    pub fn take_hidden(
        &mut self,
        call: &CallFacts<'_>,
        own_bytes: Option<u64>,
        device: Device,
    ) -> Result<CallMemory, OutOfMemory> {
        let CallFacts { op, args, results, is_backward } = *call;
        if let Some(called) = Called::by(op)
            && self.libraries.note_call(called, device, is_backward)
        {
            self.leave_room(device);
        }
        let machine = self.machine;
        let call = Call { op, args, results, is_backward, machine: &machine };
        let mut held =
            CallMemory { device, blocks: Vec::new(), moments: Vec::new(), results: Vec::new() };
        if let Some(bytes) = own_bytes.filter(|bytes| *bytes > 0) {
            held.moments.push(("kernel's own", bytes));
        }
        for Hidden { what, bytes, stays } in hidden::hidden(&call) {
            match stays {
                Stays::Moment | Stays::Call if own_bytes.is_some() => {}
                Stays::Moment => held.moments.push((what, bytes)),
                Stays::Result(at) => held.results.push((at, bytes)),
                Stays::Thread => {
                    let key = (device, what, call.is_backward);
                    if self.kept.get(&key).is_none_or(|&kept| kept < bytes) {
                        self.alloc(device, bytes, call.op, Some(what))?;
                        self.kept.insert(key, bytes);
                    }
                }
                Stays::Call => {
                    held.blocks.push(self.alloc(device, bytes, call.op, Some(what))?);
                }
            }
        }
        Ok(held)
    }

    /// Ends a call once its results have their blocks: frees its hidden memory.
    pub fn free_hidden(&mut self, held: CallMemory, op: &str) -> Result<(), OutOfMemory> {
        let mut passed = Ok(());
        for (what, bytes) in held.moments {
            passed = self.alloc(held.device, bytes, op, Some(what)).map(|block| {
                self.free(held.device, block);
            });
            if passed.is_err() {
                break;
            }
        }
        for block in held.blocks {
            self.free(held.device, block);
        }
        passed
    }

    /// What CUDA's libraries hold on a device outside torch, by their names.
    pub fn libraries(&self, device: Device) -> Vec<(&'static str, u64)> {
        self.libraries.by_name(device)
    }

    /// Torch gets what the libraries leave.
    fn leave_room(&mut self, device: Device) {
        if let Some(limit) = self.limit_on(device) {
            self.allocator(device).set_limit(limit);
        }
    }

    fn limit_on(&self, device: Device) -> Option<Limit> {
        let held = Bytes(self.libraries.bytes(device));
        self.settings.limit.map(|limit| Limit { bytes: limit.bytes.saturating_sub(held), ..limit })
    }

    /// `torch.cuda.reset_peak_memory_stats()`.
    pub fn reset_peaks(&mut self) {
        self.host.level.peak_allocated = self.host.level.allocated;
        for allocator in self.devices.iter_mut().flatten() {
            allocator.reset_peaks();
        }
    }

    /// `torch.cuda.empty_cache()`.
    pub fn empty_cache(&mut self) {
        for allocator in self.devices.iter_mut().flatten() {
            allocator.empty_cache();
        }
    }

    fn fake_block(&self, device: Device, block: Block, requested: u64) -> FakeBlock {
        let mut failed = FakeBlock {
            device,
            addr: block.addr,
            bytes: block.bytes,
            requested,
            allocated: 0,
            reserved: 0,
        };
        // The host allocator reports no totals.
        if !device.is_cpu() {
            let level = self.level(device);
            (failed.allocated, failed.reserved) = (level.allocated, level.reserved);
        }
        failed
    }

    fn alloc(
        &mut self,
        device: Device,
        bytes: u64,
        op: &str,
        workspace: Option<&str>,
    ) -> Result<Block, OutOfMemory> {
        let block = if device.is_cpu() {
            self.host.alloc(bytes)
        } else {
            match self.allocator(device).alloc(bytes) {
                Ok(placed) => Block { owner: placed.owner, addr: placed.addr, bytes: placed.bytes },
                Err(_) => return Err(self.fail(device, bytes)),
            }
        };
        record_fake_alloc(&self.fake_block(device, block, bytes), op, workspace);
        Ok(block)
    }

    fn free(&mut self, device: Device, block: Block) {
        if device.is_cpu() {
            self.host.level.allocated -= block.bytes;
        } else {
            self.allocator(device).free(block.owner);
        }
        record_fake_free(&self.fake_block(device, block, 0));
    }

    fn fail(&mut self, device: Device, requested: u64) -> OutOfMemory {
        let level = self.level(device);
        let capacity = self.limit_on(device).map_or(u64::MAX, |limit| limit.bytes.0);
        let nothing = Block { owner: 0, addr: 0, bytes: 0 };
        let failed = self.fake_block(device, nothing, requested);
        record_fake_oom(&failed, capacity.saturating_sub(level.reserved));
        let Level { allocated, reserved, .. } = level;
        OutOfMemory { device, requested, capacity, allocated, reserved }
    }

    fn allocator(&mut self, device: Device) -> &mut Online<SegmentReporter> {
        let index = index_of(device);
        if index >= self.devices.len() {
            self.devices.resize_with(index + 1, || None);
        }
        if self.devices[index].is_none() {
            self.libraries.note_block(device);
            let settings = Settings { limit: self.limit_on(device), ..self.settings.clone() };
            let reporter = SegmentReporter(device.canonical());
            self.devices[index] = Some(Online::new(&settings, reporter));
        }
        self.devices[index].as_mut().expect("it was just set")
    }
}

/// A call without the machine, which [`Memory`] has.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// See [`Call::op`].
    pub op: &'a str,
    /// See [`Call::args`].
    pub args: &'a [crate::Value],
    /// See [`Call::results`].
    pub results: &'a [crate::Value],
    /// See [`Call::is_backward`].
    pub is_backward: bool,
}

/// The memory that a call retains until it returns.
#[derive(Debug)]
pub struct CallMemory {
    device: Device,
    blocks: Vec<Block>,
    /// Taken one after the other, at the end.
    moments: Vec<(&'static str, u64)>,
    /// Results whose storage is larger than it seems: which, and its bytes.
    results: Vec<(usize, u64)>,
}

impl CallMemory {
    /// The bytes of a result's storage, where they are not those that its fake tensor shows.
    pub fn bytes_of_result(&self, at: usize) -> Option<u64> {
        self.results.iter().find(|(result, _)| *result == at).map(|(_, bytes)| *bytes)
    }
}

fn index_of(device: Device) -> usize {
    usize::try_from(device.index).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_allocator::TorchVersion;

    const GPU: Device = Device::cuda(0);

    fn memory(capacity: Option<u64>) -> Memory {
        let machine = Machine {
            torch: (2, 11),
            capability: 90,
            multiprocessors: 132,
            cublas_workspace: None,
        };
        Memory::new(machine, AllocatorConfig::default_of(TorchVersion::new(2, 11)), capacity)
    }

    #[test]
    fn a_storage_is_rounded_as_the_allocator_rounds() {
        let mut memory = memory(None);
        memory.place(1, GPU, 1000, "aten::empty").unwrap();
        assert_eq!(memory.level(GPU).allocated, 1024);
        memory.place(2, Device::CPU, 1000, "aten::empty").unwrap();
        assert_eq!(memory.level(Device::CPU).allocated, 1000);
    }

    #[test]
    fn a_storage_that_shrinks_to_nothing_has_no_block_until_it_grows_again() {
        let mut memory = memory(None);
        memory.place(1, GPU, 4 << 20, "aten::empty").unwrap();
        memory.place(1, GPU, 0, "resize").unwrap();
        assert_eq!((memory.level(GPU).allocated, memory.address_of(1)), (0, 0));
        memory.place(1, GPU, 8 << 20, "resize").unwrap();
        assert_eq!(memory.level(GPU).allocated, 8 << 20);
        assert_eq!(memory.bytes_of(1), Some(8 << 20));
    }

    #[test]
    fn a_growing_storage_has_both_blocks_for_a_moment() {
        let mut memory = memory(None);
        memory.place(1, GPU, 4 << 20, "aten::empty").unwrap();
        memory.place(1, GPU, 8 << 20, "aten::resize_").unwrap();
        let level = memory.level(GPU);
        assert_eq!((level.allocated, level.peak_allocated), (8 << 20, 12 << 20));
    }

    #[test]
    fn a_request_beyond_the_capacity_fails_and_changes_nothing() {
        // torch's kernels take 92 MiB of it.
        let mut memory = memory(Some(156 << 20));
        memory.place(1, GPU, 40 << 20, "aten::empty").unwrap();
        let error = memory.place(2, GPU, 40 << 20, "aten::empty").unwrap_err();
        assert_eq!((error.requested, error.allocated), (40 << 20, 40 << 20));
        let message = "CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has 64.00 MiB for torch, of which \
            40.00 MiB is reserved and 40.00 MiB allocated (an estimate with fake tensors).";
        assert_eq!(error.to_string(), message);
        assert_eq!(memory.bytes_of(2), None);
        memory.remove(1);
        memory.place(2, GPU, 40 << 20, "aten::empty").unwrap();
    }
}
