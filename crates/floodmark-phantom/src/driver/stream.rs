//! Streams and events, as the driver has them.

use std::ffi::{c_int, c_uint};

use crate::machine::current_device;
use crate::runtime::{SUCCESS, put};
use crate::streams::{Streams, with};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(to: *mut u64, flags: c_uint) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuStreamCreateWithPriority(to, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(
    to: *mut u64,
    flags: c_uint,
    priority: c_int,
) -> i32 {
    let stream = with(|streams| streams.create_stream(current_device(), priority, flags));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, stream) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: u64) -> i32 {
    with(|streams| streams.destroy_stream(stream));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(_stream: u64) -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(_stream: u64) -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> i32 {
    with(|streams| streams.wait(stream, event));
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: u64, status: *mut c_int) -> i32 {
    let capture = with(|streams| streams.capture_of(stream));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(status, c_int::from(capture.is_some())) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWriteValue32_v2() -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitValue32_v2() -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(to: *mut u64, _flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, with(Streams::create_event)) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: u64) -> i32 {
    with(|streams| streams.destroy_event(event));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: u64, stream: u64) -> i32 {
    with(|streams| streams.record(event, stream));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(_event: u64) -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(_event: u64) -> i32 {
    SUCCESS
}
