//! Contexts: every device has its primary context, which always exists.

use std::ffi::{c_int, c_uint};

use crate::guard::OrNull;
use crate::machine::{current_device, machine, set_current_device};
use crate::status::{INVALID_DEVICE, SUCCESS, put};

/// The handle of a device's context.
fn context_of(device: usize) -> u64 {
    0x5000 + device as u64 * 64
}

fn device_of(context: u64) -> c_int {
    c_int::try_from(context.saturating_sub(0x5000) / 64).unwrap_or(0)
}

#[crate::entry_point]
unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    _device: c_int,
    flags: *mut c_uint,
    active: *mut c_int,
) -> i32 {
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(flags, 0);
        put(active, 1);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, device: c_int) -> i32 {
    let count = machine().map_or(0, super::super::machine::Machine::device_count);
    let Some(device) = usize::try_from(device).ok().filter(|&device| device < count) else {
        return INVALID_DEVICE;
    };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(context, context_of(device)) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuDevicePrimaryCtxSetFlags_v2(_device: c_int, _flags: c_uint) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuDevicePrimaryCtxReset_v2(_device: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(context, context_of(current_device())) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuCtxSetCurrent(context: u64) -> i32 {
    if context != 0 {
        set_current_device(device_of(context));
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuCtxPushCurrent_v2(context: u64) -> i32 {
    cuCtxSetCurrent(context)
}

#[crate::entry_point]
unsafe extern "C" fn cuCtxPopCurrent_v2(context: OrNull<u64>) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuCtxGetCurrent(context) }
}

/// A stream belongs to the device that is current when it is used.
#[crate::entry_point]
unsafe extern "C" fn cuStreamGetCtx(_stream: u64, context: *mut u64) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuCtxGetCurrent(context) }
}

/// Green contexts are not supported: torch never requests a part of the multiprocessors.
#[crate::entry_point]
unsafe extern "C" fn cuStreamGetCtx_v2(
    stream: u64,
    context: OrNull<u64>,
    green: OrNull<u64>,
) -> i32 {
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(green, 0);
        cuStreamGetCtx(stream, context)
    }
}

#[crate::entry_point]
unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(device, c_int::try_from(current_device()).unwrap_or(0)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuCtxGetDevice_v2(device: *mut c_int, context: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(device, device_of(context)) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuCtxSynchronize() -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuCtxGetFlags(flags: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(flags, 0) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuCtxGetApiVersion(_context: u64, version: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(version, 3020) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: OrNull<c_int>, most: OrNull<c_int>) -> i32 {
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(least, 0);
        put(most, -5);
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuCtxEnablePeerAccess(_context: u64, _flags: c_uint) -> i32 {
    SUCCESS
}
