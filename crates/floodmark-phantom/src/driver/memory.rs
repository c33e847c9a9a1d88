//! The driver's memory functions: those of the runtime, under other names.

use std::ffi::{c_int, c_uint, c_void};

use crate::copies::{self, Direction};
use crate::guard::OrNull;
use crate::machine::{AddressKind, HostKind, current_device, machine};
use crate::runtime::{allocate, free_host, give_device_pointer, give_host, release};
use crate::status::{INVALID_VALUE, NOT_FOUND, OUT_OF_MEMORY, SUCCESS, put};
use crate::streams::note_work;

/// The flags that `cuMemHostAlloc` has.
const HOST_FLAGS: c_uint = 7;

#[crate::entry_point]
unsafe extern "C" fn cuMemAlloc_v2(to: *mut u64, bytes: usize) -> i32 {
    if to.is_null() || bytes == 0 {
        return INVALID_VALUE;
    }
    let Some(addr) = allocate(current_device(), bytes as u64) else { return OUT_OF_MEMORY };
    // SAFETY: it is not null, and the caller's.
    unsafe { to.write(addr) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuMemFree_v2(addr: u64) -> i32 {
    let is_freed = addr == 0 || release(addr) || free_host(addr, HostKind::Managed);
    if is_freed { SUCCESS } else { INVALID_VALUE }
}

#[crate::entry_point]
unsafe extern "C" fn cuMemGetInfo_v2(free: OrNull<usize>, total: OrNull<usize>) -> i32 {
    let Some(machine) = machine() else { return INVALID_VALUE };
    let Some(memory) = machine.memory(current_device()) else { return INVALID_VALUE };
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(free, usize::try_from(memory.free_bytes()).unwrap_or(usize::MAX));
        put(total, usize::try_from(machine.settings.memory).unwrap_or(usize::MAX));
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuMemHostAlloc(to: *mut u64, bytes: usize, flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { give_host(to, bytes, HostKind::Allocated, flags, HOST_FLAGS) }
}

#[crate::entry_point]
unsafe extern "C" fn cuMemAllocHost_v2(to: *mut u64, bytes: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuMemHostAlloc(to, bytes, 0) }
}

#[crate::entry_point]
extern "C" fn cuMemFreeHost(addr: u64) -> i32 {
    if addr == 0 || free_host(addr, HostKind::Allocated) { SUCCESS } else { INVALID_VALUE }
}

#[crate::entry_point]
unsafe extern "C" fn cuMemHostGetDevicePointer_v2(to: *mut u64, addr: u64, flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { give_device_pointer(to, addr, flags) }
}

#[crate::entry_point]
unsafe extern "C" fn cuMemGetAddressRange_v2(
    start: OrNull<u64>,
    bytes: OrNull<usize>,
    addr: u64,
) -> i32 {
    let block = machine().and_then(|machine| {
        let device = machine.device_of(addr)?;
        machine.memory(device)?.block_of(addr)
    });
    let Some((found, length)) = block else { return NOT_FOUND };
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(start, found);
        put(bytes, usize::try_from(length).unwrap_or(usize::MAX));
    }
    SUCCESS
}

/// Attributes of an address: context, kind of memory, pointers, number, device.
#[crate::entry_point]
unsafe extern "C" fn cuPointerGetAttribute(to: *mut c_void, which: c_int, addr: u64) -> i32 {
    let Some(machine) = machine().filter(|_| !to.is_null()) else { return INVALID_VALUE };
    let kind = machine.address_kind(addr);
    let device = match kind {
        AddressKind::Device(device) => c_int::try_from(device).unwrap_or(0),
        AddressKind::Host(block) => block.device,
        AddressKind::Other => return INVALID_VALUE,
    };
    let is_device = matches!(kind, AddressKind::Device(_));
    // SAFETY: the caller's memory is as large as the attribute that it asks for.
    unsafe {
        match which {
            1 => put(to.cast::<u64>(), 0x5000 + u64::try_from(device).unwrap_or(0) * 64),
            2 => put(to.cast::<c_uint>(), if is_device { 2 } else { 1 }),
            3 | 4 => put(to.cast::<u64>(), addr),
            6 => put(to.cast::<c_int>(), 0),
            7 => put(to.cast::<u64>(), addr >> 9),
            8 => put(to.cast::<c_uint>(), 0),
            9 => put(to.cast::<c_int>(), device),
            11 => put(to.cast::<u64>(), start_of(addr).unwrap_or(addr)),
            _ => return INVALID_VALUE,
        }
    }
    SUCCESS
}

fn start_of(addr: u64) -> Option<u64> {
    let machine = machine()?;
    let device = machine.device_of(addr)?;
    Some(machine.memory(device)?.block_of(addr)?.0)
}

/// Copies by their names: which side must be a device's.
macro_rules! copies {
    ($($sync:ident, $async:ident: $direction:ident;)*) => {$(
        #[crate::entry_point]
        extern "C" fn $sync(to: u64, from: u64, bytes: usize) -> i32 {
            copies::copy(to, from, bytes as u64, Direction::$direction)
        }

        #[crate::entry_point]
        extern "C" fn $async(to: u64, from: u64, bytes: usize, stream: u64) -> i32 {
            note_work(stream);
            $sync(to, from, bytes)
        }
    )*};
}

copies! {
    cuMemcpy, cuMemcpyAsync: ANY;
    cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2: TO_DEVICE;
    cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2: FROM_DEVICE;
    cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2: ON_DEVICES;
}

#[crate::entry_point]
extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> i32 {
    copies::fill(to, value, count as u64)
}

#[crate::entry_point]
extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: u64) -> i32 {
    note_work(stream);
    cuMemsetD8_v2(to, value, count)
}

#[crate::entry_point]
extern "C" fn cuMemsetD16_v2(to: u64, value: u16, count: usize) -> i32 {
    copies::fill_numbers(to, &value.to_le_bytes(), count as u64)
}

#[crate::entry_point]
extern "C" fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: u64) -> i32 {
    note_work(stream);
    cuMemsetD16_v2(to, value, count)
}

#[crate::entry_point]
extern "C" fn cuMemsetD32_v2(to: u64, value: u32, count: usize) -> i32 {
    copies::fill_numbers(to, &value.to_le_bytes(), count as u64)
}

#[crate::entry_point]
extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: u64) -> i32 {
    note_work(stream);
    cuMemsetD32_v2(to, value, count)
}
