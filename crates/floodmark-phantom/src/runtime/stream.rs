//! Streams and events.

use std::ffi::{c_int, c_uint, c_void};

use floodmark_cuda_model::library_memory::Use;

use crate::guard::OrNull;
use crate::machine::{current_device, hold};
use crate::status::{
    CAPTURE_UNSUPPORTED, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, put, record_error,
};
use crate::streams::{note_work, with};

/// The resolution of a device's events. Programs divide by measured times, so they are never 0.
const LEAST_MS: f32 = 5e-4;

#[crate::entry_point]
unsafe extern "C" fn cudaStreamCreate(to: *mut u64) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaStreamCreateWithPriority(to, 0, 0) }
}

#[crate::entry_point]
pub(crate) unsafe extern "C" fn cudaStreamCreateWithFlags(to: *mut u64, flags: c_uint) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaStreamCreateWithPriority(to, flags, 0) }
}

#[crate::entry_point]
pub(crate) unsafe extern "C" fn cudaStreamCreateWithPriority(
    to: *mut u64,
    flags: c_uint,
    priority: c_int,
) -> i32 {
    let device = current_device();
    if !hold(device, Use::Stream) {
        return record_error(OUT_OF_MEMORY);
    }
    let stream = with(|streams| streams.create_stream(device, priority, flags));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, stream) };
    SUCCESS
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaStreamDestroy(stream: u64) -> i32 {
    with(|streams| streams.destroy_stream(stream));
    SUCCESS
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaStreamSynchronize(stream: u64) -> i32 {
    if with(|streams| streams.may_wait_for(stream)) {
        SUCCESS
    } else {
        record_error(CAPTURE_UNSUPPORTED)
    }
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaStreamQuery(stream: u64) -> i32 {
    cudaStreamSynchronize(stream)
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> i32 {
    with(|streams| streams.wait(stream, event));
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamGetPriority(stream: u64, priority: *mut c_int) -> i32 {
    let found = with(|streams| streams.stream(stream).map_or(0, |stream| stream.priority));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(priority, found) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamGetFlags(stream: u64, flags: *mut c_uint) -> i32 {
    let found = with(|streams| streams.stream(stream).map_or(0, |stream| stream.flags));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(flags, found) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamGetDevice(stream: u64, device: *mut c_int) -> i32 {
    let found = with(|streams| streams.stream(stream).map(|stream| stream.device));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(device, c_int::try_from(found.unwrap_or_else(current_device)).unwrap_or(0)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamGetId(stream: u64, id: *mut u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(id, stream / 64) };
    SUCCESS
}

/// Work of the host: it runs at once.
#[crate::entry_point]
unsafe extern "C" fn cudaLaunchHostFunc(
    stream: u64,
    function: Option<extern "C" fn(*mut c_void)>,
    data: OrNull<c_void>,
) -> i32 {
    note_work(stream);
    let Some(function) = function else { return record_error(INVALID_VALUE) };
    if with(|streams| streams.capture_of(stream)).is_none() {
        function(data);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamAddCallback(
    stream: u64,
    function: Option<extern "C" fn(u64, c_int, *mut c_void)>,
    data: OrNull<c_void>,
    _flags: c_uint,
) -> i32 {
    let Some(function) = function else { return record_error(INVALID_VALUE) };
    function(stream, SUCCESS, data);
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaEventCreate(to: *mut u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, with(crate::streams::Streams::create_event)) };
    SUCCESS
}

#[crate::entry_point]
pub(crate) unsafe extern "C" fn cudaEventCreateWithFlags(to: *mut u64, _flags: c_uint) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaEventCreate(to) }
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaEventDestroy(event: u64) -> i32 {
    with(|streams| streams.destroy_event(event));
    SUCCESS
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaEventRecord(event: u64, stream: u64) -> i32 {
    with(|streams| streams.record(event, stream));
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaEventRecordWithFlags(event: u64, stream: u64, _flags: c_uint) -> i32 {
    cudaEventRecord(event, stream)
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaEventQuery(_event: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
pub(crate) extern "C" fn cudaEventSynchronize(_event: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaEventElapsedTime(ms: *mut f32, from: u64, to: u64) -> i32 {
    let times =
        with(|streams| Some((streams.event(from)?.recorded?, streams.event(to)?.recorded?)));
    let Some((from, to)) = times else { return record_error(INVALID_VALUE) };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(ms, (to.saturating_duration_since(from).as_secs_f32() * 1e3).max(LEAST_MS)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaEventElapsedTime_v2(ms: *mut f32, from: u64, to: u64) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaEventElapsedTime(ms, from, to) }
}
