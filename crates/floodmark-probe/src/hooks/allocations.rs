//! Allocations and frees that torch reports.

use std::os::raw::c_void;

use floodmark_trace::journal::{FLAG_DEFERRED, Record};
use floodmark_trace::{Device, EventKind};

use super::hook::{Hook, original};
use super::tracker;
use crate::blocks::own_blocks;
use crate::recorder::with_recording;

pub(super) type Report = unsafe extern "C-unwind" fn(*mut c_void, i64, usize, usize, u16);
pub(super) type ReportOom = unsafe extern "C-unwind" fn(i64, usize, usize, u16);
pub(super) type CpuNew = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize);
pub(super) type CpuDelete = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);
pub(super) type CpuOom = unsafe extern "C-unwind" fn(*mut c_void, usize);

pub(super) static REPORT: Hook =
    Hook::new(c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
pub(super) static REPORT_OOM: Hook =
    Hook::new(c"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
pub(super) static CPU_NEW: Hook = Hook::new(c"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
pub(super) static CPU_DELETE: Hook = Hook::new(c"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv");
pub(super) static CPU_OOM: Hook = Hook::new(c"_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm");

fn device_from(bits: u16) -> Device {
    let [kind, index] = bits.to_le_bytes();
    Device { kind: kind.cast_signed(), index: index.cast_signed() }.canonical()
}

/// Whether a report repeats one of [`cpu_new`] or [`cpu_delete`]: while a profiler is on, the CPU
/// allocator reports its blocks too. Its reports have no reserved bytes; those of other host
/// allocators do.
fn is_from_cpu_allocator(device: Device, reserved: usize) -> bool {
    device.is_cpu() && reserved == 0
}

/// `c10::reportMemoryUsageToProfiler`: every CUDA block, and host memory outside the CPU allocator.
pub(super) unsafe extern "C-unwind" fn report(
    ptr: *mut c_void,
    size: i64,
    allocated: usize,
    reserved: usize,
    device_bits: u16,
) {
    let device = device_from(device_bits);
    if !is_from_cpu_allocator(device, reserved) {
        with_recording(|recording, local| {
            if !recording.wants_torch(device) {
                return;
            }
            let kind = if size >= 0 { EventKind::Alloc } else { EventKind::Free };
            let addr = ptr as u64;
            let mut record = Record::block(kind, device, addr, size.unsigned_abs());
            record.set_totals(allocated as u64, reserved as u64);
            if size >= 0 {
                local.note_block(device, addr);
                tracker::complete(recording, local, &mut record);
                local.write_alloc(recording, record);
            } else {
                if tracker::is_deferred(addr) {
                    record.flags |= FLAG_DEFERRED;
                }
                recording.freed_blocks.add(device, addr);
                local.write(recording, record, &[]);
            }
        });
    }
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<Report>(&REPORT) {
            original(ptr, size, allocated, reserved, device_bits);
        }
    }
}

/// `c10::reportOutOfMemoryToProfiler`: a CUDA allocation that failed.
pub(super) unsafe extern "C-unwind" fn report_oom(
    size: i64,
    allocated: usize,
    reserved: usize,
    device_bits: u16,
) {
    let device = device_from(device_bits);
    if !device.is_cpu() {
        record_oom(device, size.unsigned_abs(), allocated, reserved);
    }
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<ReportOom>(&REPORT_OOM) {
            original(size, allocated, reserved, device_bits);
        }
    }
}

fn record_oom(device: Device, bytes: u64, allocated: usize, reserved: usize) {
    with_recording(|recording, local| {
        if recording.wants_torch(device) {
            let device_free = if device.is_cpu() { 0 } else { tracker::take_device_free() };
            let mut record = Record::oom(device, bytes, device_free);
            record.set_totals(allocated as u64, reserved as u64);
            local.write_alloc(recording, record);
        }
    });
}

/// `c10::ProfiledCPUMemoryReporter::New`: the CPU allocator allocated a block.
///
/// It is called whether or not a profiler is on. Hooking it, and not the report that it sends when
/// one is on, avoids torch's own table of blocks and its warning about blocks that are not in it.
pub(super) unsafe extern "C-unwind" fn cpu_new(
    reporter: *mut c_void,
    ptr: *mut c_void,
    bytes: usize,
) {
    if own_blocks::note_new(ptr as usize) {
        return;
    }
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<CpuNew>(&CPU_NEW) {
            original(reporter, ptr, bytes);
        }
    }
    if bytes == 0 {
        return;
    }
    with_recording(|recording, local| {
        if recording.wants_torch(Device::CPU) {
            let record = Record::block(EventKind::Alloc, Device::CPU, ptr as u64, bytes as u64);
            local.write_alloc(recording, record);
        }
    });
}

/// `c10::ProfiledCPUMemoryReporter::Delete`: the CPU allocator is about to free a block.
pub(super) unsafe extern "C-unwind" fn cpu_delete(reporter: *mut c_void, ptr: *mut c_void) {
    if own_blocks::note_delete(ptr as usize) {
        return;
    }
    with_recording(|recording, local| {
        if recording.wants_torch(Device::CPU) {
            recording.freed_blocks.add(Device::CPU, ptr as u64);
            let record = Record::block(EventKind::Free, Device::CPU, ptr as u64, 0);
            local.write(recording, record, &[]);
        }
    });
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<CpuDelete>(&CPU_DELETE) {
            original(reporter, ptr);
        }
    }
}

/// `c10::ProfiledCPUMemoryReporter::OutOfMemory`: the system had no memory for the CPU allocator.
pub(super) unsafe extern "C-unwind" fn cpu_oom(reporter: *mut c_void, bytes: usize) {
    record_oom(Device::CPU, bytes as u64, 0, 0);
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<CpuOom>(&CPU_OOM) {
            original(reporter, bytes);
        }
    }
}

#[cfg(test)]
mod tests;
