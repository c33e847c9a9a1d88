//! Errors: the last one of a thread, and their names.

use std::ffi::{CStr, c_char};

use crate::guard::{UNKNOWN, last_failure};
use crate::status::{last_error, take_last_error};

#[crate::entry_point]
extern "C" fn cudaGetLastError() -> i32 {
    take_last_error()
}

#[crate::entry_point]
extern "C" fn cudaPeekAtLastError() -> i32 {
    last_error()
}

#[crate::entry_point]
extern "C" fn cudaGetErrorName(error: i32) -> *const c_char {
    words(error).0.as_ptr()
}

#[crate::entry_point]
extern "C" fn cudaGetErrorString(error: i32) -> *const c_char {
    words(error).1.as_ptr()
}

/// The name of an error and what it means. The driver's errors have the same numbers.
pub(crate) fn words(error: i32) -> (&'static CStr, &'static CStr) {
    match error {
        0 => (c"cudaSuccess", c"no error"),
        1 => (c"cudaErrorInvalidValue", c"invalid argument"),
        2 => (c"cudaErrorMemoryAllocation", c"out of memory"),
        12 => (c"cudaErrorInvalidPitchValue", c"invalid pitch argument"),
        21 => (c"cudaErrorInvalidMemcpyDirection", c"invalid copy direction for memcpy"),
        98 => (c"cudaErrorInvalidDeviceFunction", c"the kernel is not compiled for this device"),
        100 => (c"cudaErrorNoDevice", c"no CUDA-capable device is detected"),
        101 => (c"cudaErrorInvalidDevice", c"invalid device ordinal"),
        401 => {
            (c"cudaErrorIllegalState", c"the operation cannot be performed in the present state")
        }
        500 => (c"cudaErrorSymbolNotFound", c"named symbol not found"),
        600 => (c"cudaErrorNotReady", c"device not ready"),
        704 => (c"cudaErrorPeerAccessAlreadyEnabled", c"peer access is already enabled"),
        712 => (
            c"cudaErrorHostMemoryAlreadyRegistered",
            c"part or all of the requested memory range is already mapped",
        ),
        713 => (c"cudaErrorHostMemoryNotRegistered", c"memory was not registered"),
        801 => (c"cudaErrorNotSupported", c"operation not supported on the simulated GPU"),
        900 => (
            c"cudaErrorStreamCaptureUnsupported",
            c"operation not permitted when stream is capturing",
        ),
        901 => (
            c"cudaErrorStreamCaptureInvalidated",
            c"operation failed due to a previous error during capture",
        ),
        UNKNOWN => (c"cudaErrorUnknown", last_failure().unwrap_or(c"unknown error")),
        _ => (c"cudaErrorUnknown", c"unknown error"),
    }
}
