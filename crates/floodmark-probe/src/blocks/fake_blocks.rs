//! Blocks of fake tensors: torch does not allocate them, so the engine of fake tensors reports them.
//!
//! A record is the one that a hook would write, with the call stack, the backward pass and the phase of
//! the call.

use floodmark_trace::journal::{FLAG_FAKE_TENSOR, FLAG_NAME_LEFT_OUT, Record};
use floodmark_trace::{Category, Device, EventKind, TextKind};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::recorder::TextNumber;
use crate::recorder::names::{handle_id, label_id, text_id};
use crate::recorder::{RunningOp, with_recording};
use crate::stacks::autograd_nodes::{self, BackwardState};

/// Whether the backward pass runs on this thread.
pub fn is_backward() -> bool {
    autograd_nodes::backward_state() != BackwardState::NotRunning
}

/// A block, and the totals of its device after it.
#[derive(Debug, Clone, Copy)]
pub struct FakeBlock {
    /// Where.
    pub device: Device,
    /// Its address.
    pub addr: u64,
    /// Its size.
    pub bytes: u64,
    /// The requested bytes.
    pub requested: u64,
    /// Allocated bytes of the device after it; 0 for the host.
    pub allocated: u64,
    /// Reserved bytes of the device after it; 0 for the host.
    pub reserved: u64,
}

fn set_stream(record: &mut Record, stream: TextNumber) {
    record.stream = stream.number;
    if stream.is_left_out {
        record.flags |= FLAG_NAME_LEFT_OUT;
    }
}

/// Addresses of storages without memory, by the address of their C++ object.
static STORAGES: Mutex<Option<HashMap<usize, (Device, u64)>>> = Mutex::new(None);

/// Sets the address of a storage without memory; `None` when its block was freed.
pub fn set_fake_storage(storage: usize, place: Option<(Device, u64)>) {
    let mut storages = STORAGES.lock();
    let storages = storages.get_or_insert_default();
    match place {
        Some((device, addr)) => storages.insert(storage, (device.canonical(), addr)),
        None => storages.remove(&storage),
    };
}

/// The address of a storage without memory.
pub(crate) fn address_of_fake_storage(storage: usize) -> Option<(Device, u64)> {
    STORAGES.lock().as_ref()?.get(&storage).copied()
}

/// Starts a call of an operator on fake tensors: later blocks of this thread belong to it.
pub fn begin_fake_op_call() {
    with_recording(|_, local| local.begin_op_call());
}

/// A block was allocated, for this operator; a library's own block has a name.
pub fn record_fake_alloc(block: &FakeBlock, op: &str, workspace: Option<&str>) {
    with_recording(|recording, local| {
        let device = block.device.canonical();
        if !recording.wants_fake(device) {
            return;
        }
        let mut record = Record::block(EventKind::Alloc, device, block.addr, block.bytes);
        record.flags = FLAG_FAKE_TENSOR;
        record.set_requested(block.requested);
        record.set_totals(block.allocated, block.reserved);
        if !device.is_cpu() {
            let default = || "0x0".to_owned();
            set_stream(&mut record, handle_id(recording, local, TextKind::Stream, 0, default));
        }
        local.note_block(device, block.addr);
        let name = text_id(recording, local, TextKind::Op, op);
        let call = local.latest_op_call();
        local.ops.push(RunningOp { name, call });
        local.write_alloc(recording, record);
        local.ops.pop();
        if let Some(name) = workspace {
            let (shape, dtype) = (String::new(), String::new());
            let label =
                label_id(recording, local, Category::Workspace, name.to_owned(), shape, dtype);
            local.write(recording, Record::label(device, block.addr, label), &[]);
        }
    });
}

/// A block was freed; `block` has the totals after it.
pub fn record_fake_free(block: &FakeBlock) {
    with_recording(|recording, local| {
        let device = block.device.canonical();
        if recording.wants_fake(device) {
            let mut record = Record::block(EventKind::Free, device, block.addr, block.bytes);
            record.flags = FLAG_FAKE_TENSOR;
            record.set_totals(block.allocated, block.reserved);
            local.write(recording, record, &[]);
        }
    });
}

/// A change of a segment of fake tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeSegmentChange {
    /// Allocated from the driver.
    Alloc,
    /// Freed to the driver.
    Free,
    /// An expandable segment grew.
    Map,
    /// An expandable segment shrank.
    Unmap,
}

/// A segment was allocated, freed, mapped or unmapped.
pub fn record_fake_segment(device: Device, change: FakeSegmentChange, addr: u64, bytes: u64) {
    let kind = match change {
        FakeSegmentChange::Alloc => EventKind::SegmentAlloc,
        FakeSegmentChange::Free => EventKind::SegmentFree,
        FakeSegmentChange::Map => EventKind::SegmentMap,
        FakeSegmentChange::Unmap => EventKind::SegmentUnmap,
    };
    with_recording(|recording, local| {
        let device = device.canonical();
        if recording.wants_fake(device) {
            let mut record = Record::block(kind, device, addr, bytes);
            record.flags = FLAG_FAKE_TENSOR;
            let default = || "0x0".to_owned();
            set_stream(&mut record, handle_id(recording, local, TextKind::Stream, 0, default));
            record.set_stack(local.stack(recording, false).0.id);
            local.write(recording, record, &[]);
        }
    });
}

/// Records a failed allocation; `block` has the requested bytes and the totals, `device_free` the
/// free bytes of the device.
pub fn record_fake_oom(block: &FakeBlock, device_free: u64) {
    with_recording(|recording, local| {
        let device = block.device.canonical();
        if recording.wants_fake(device) {
            let mut record = Record::oom(device, block.requested, device_free);
            record.flags = FLAG_FAKE_TENSOR;
            record.set_totals(block.allocated, block.reserved);
            local.write_alloc(recording, record);
        }
    });
}
