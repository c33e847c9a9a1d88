//! Devices, as the driver sees them: their handles are their numbers.

use std::ffi::{c_char, c_int, c_uint};

use crate::machine::machine;
use crate::runtime::{attribute, version as cuda_version};
use crate::status::{INVALID_DEVICE, INVALID_VALUE, SUCCESS, put};
use crate::visible_devices::uuid_bytes;

#[crate::entry_point]
extern "C" fn cuInit(_flags: c_uint) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(version, cuda_version()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> i32 {
    let found = machine().map_or(0, super::super::machine::Machine::device_count);
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(count, c_int::try_from(found).unwrap_or(0)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> i32 {
    if attribute(75, ordinal).is_none() {
        return INVALID_DEVICE;
    }
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(device, ordinal) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: c_int, device: c_int) -> i32 {
    match attribute(which, device) {
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some(found) => unsafe {
            put(value, found);
            SUCCESS
        },
        None => INVALID_DEVICE,
    }
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceGetName(text: *mut c_char, length: c_int, _device: c_int) -> i32 {
    let (Some(machine), Ok(length)) = (machine(), usize::try_from(length)) else {
        return INVALID_VALUE;
    };
    if length == 0 {
        return INVALID_VALUE;
    }
    let name = machine.settings.name.as_bytes();
    let name = &name[..name.len().min(length - 1)];
    // SAFETY: the caller's buffer has `length` bytes; the name and a zero are no more.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), text, name.len());
        text.add(name.len()).write(0);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> i32 {
    let found = machine().map_or(0, |machine| machine.settings.memory);
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(bytes, usize::try_from(found).unwrap_or(usize::MAX)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> i32 {
    let (Some(machine), Ok(number)) = (machine(), usize::try_from(device)) else {
        return INVALID_DEVICE;
    };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(uuid, uuid_bytes(machine.number_of(number))) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceComputeCapability(
    major: *mut c_int,
    minor: *mut c_int,
    device: c_int,
) -> i32 {
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(major, attribute(75, device).unwrap_or(0));
        put(minor, attribute(76, device).unwrap_or(0));
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(can, c_int::from(device != peer)) };
    SUCCESS
}
