//! Devices: their number, the current one, their properties.

use std::ffi::{CStr, c_char, c_int, c_uint};

use super::{attribute, version as cuda_version};
use crate::guard::OrNull;
use crate::loaded_libraries;
use crate::machine::{current_device, machine, set_current_device};
use crate::status::{INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, SUCCESS, put, record_error};

#[crate::entry_point]
unsafe extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> i32 {
    let found = machine().map_or(0, super::super::machine::Machine::device_count);
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(count, c_int::try_from(found).unwrap_or(c_int::MAX)) };
    if found == 0 { record_error(NO_DEVICE) } else { SUCCESS }
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetDevice(device: *mut c_int) -> i32 {
    // torch calls this first, also from a library that was just loaded.
    loaded_libraries::follow();
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(device, c_int::try_from(current_device()).unwrap_or(0)) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaSetDevice(device: c_int) -> i32 {
    if set_current_device(device) { SUCCESS } else { record_error(INVALID_DEVICE) }
}

#[crate::entry_point]
extern "C" fn cudaInitDevice(device: c_int, _device_flags: c_uint, _flags: c_uint) -> i32 {
    cudaSetDevice(device)
}

#[crate::entry_point]
extern "C" fn cudaSetDeviceFlags(_flags: c_uint) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetDeviceFlags(flags: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(flags, 0) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaSetValidDevices(_devices: *const c_int, _count: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaDeviceSynchronize() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaDeviceReset() -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetAttribute(value: *mut c_int, which: c_int, device: c_int) -> i32 {
    match attribute(which, device) {
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some(found) => unsafe {
            put(value, found);
            SUCCESS
        },
        None => record_error(INVALID_VALUE),
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: c_int) -> i32 {
    let Some(bus) = attribute(33, device) else { return record_error(INVALID_DEVICE) };
    let id = format!("0000:{bus:02x}:00.0\0");
    if usize::try_from(length).unwrap_or(0) < id.len() || text.is_null() {
        return record_error(INVALID_VALUE);
    }
    // SAFETY: the caller's buffer has `length` bytes, which is enough.
    unsafe { std::ptr::copy_nonoverlapping(id.as_ptr().cast(), text, id.len()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetByPCIBusId(device: *mut c_int, text: *const c_char) -> i32 {
    // SAFETY: the caller's text ends with a zero, by CUDA's contract.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let bus = text.split(':').nth(1).and_then(|bus| c_int::from_str_radix(bus, 16).ok());
    let count = machine().map_or(0, super::super::machine::Machine::device_count);
    let found = (0..c_int::try_from(count).unwrap_or(0))
        .find(|&device| bus.is_some() && attribute(33, device) == bus);
    match found {
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some(found) => unsafe {
            put(device, found);
            SUCCESS
        },
        None => record_error(INVALID_VALUE),
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetStreamPriorityRange(
    least: OrNull<c_int>,
    most: OrNull<c_int>,
) -> i32 {
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(least, 0);
        put(most, -5);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetLimit(value: *mut usize, which: c_int) -> i32 {
    let limit = match which {
        0 => 1024,    // stack of a thread
        1 => 1 << 20, // what kernels print
        2 => 8 << 20, // heap of kernels
        _ => 0,
    };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(value, limit) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaDeviceSetLimit(_which: c_int, _value: usize) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaDeviceSetCacheConfig(_config: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(can, c_int::from(device != peer)) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaDeviceEnablePeerAccess(peer: c_int, _flags: c_uint) -> i32 {
    if attribute(75, peer).is_some() { SUCCESS } else { record_error(INVALID_DEVICE) }
}

#[crate::entry_point]
extern "C" fn cudaDeviceDisablePeerAccess(_peer: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetP2PAttribute(
    value: *mut c_int,
    which: c_int,
    _from: c_int,
    _to: c_int,
) -> i32 {
    // Rank of the link's speed, access, native atomics, arrays.
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(value, c_int::from(which != 1)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaRuntimeGetVersion(version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(version, cuda_version()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDriverGetVersion(version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(version, cuda_version()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaProfilerStart() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaProfilerStop() -> i32 {
    SUCCESS
}
