//! Streams and events, as the driver has them.

use std::ffi::{c_int, c_uint};

use crate::calls::{does_nothing, same_as_runtime};
use crate::runtime::{graph, stream as runtime};

same_as_runtime! {
    cuStreamCreate(to: *mut u64, flags: c_uint) = runtime::cudaStreamCreateWithFlags;
    cuStreamCreateWithPriority(to: *mut u64, flags: c_uint, priority: c_int) =
        runtime::cudaStreamCreateWithPriority;
    cuStreamDestroy_v2(stream: u64) = runtime::cudaStreamDestroy;
    cuStreamSynchronize(stream: u64) = runtime::cudaStreamSynchronize;
    cuStreamQuery(stream: u64) = runtime::cudaStreamQuery;
    cuStreamWaitEvent(stream: u64, event: u64, flags: c_uint) = runtime::cudaStreamWaitEvent;
    cuStreamIsCapturing(stream: u64, status: *mut c_int) = graph::cudaStreamIsCapturing;
    cuEventCreate(to: *mut u64, flags: c_uint) = runtime::cudaEventCreateWithFlags;
    cuEventDestroy_v2(event: u64) = runtime::cudaEventDestroy;
    cuEventRecord(event: u64, stream: u64) = runtime::cudaEventRecord;
    cuEventQuery(event: u64) = runtime::cudaEventQuery;
    cuEventSynchronize(event: u64) = runtime::cudaEventSynchronize;
}

does_nothing! {
    cuStreamWriteValue32_v2, cuStreamWaitValue32_v2,
}
