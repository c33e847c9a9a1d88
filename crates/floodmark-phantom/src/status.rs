//! Error numbers of CUDA's runtime, and the last error of each thread.

use std::cell::Cell;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const OUT_OF_MEMORY: i32 = 2;
pub(crate) const INVALID_PITCH: i32 = 12;
pub(crate) const INVALID_DIRECTION: i32 = 21;
pub(crate) const NO_DEVICE: i32 = 100;
pub(crate) const INVALID_DEVICE: i32 = 101;
pub(crate) const NOT_FOUND: i32 = 500;
pub(crate) const ALREADY_REGISTERED: i32 = 712;
pub(crate) const NOT_REGISTERED: i32 = 713;
pub(crate) const ILLEGAL_STATE: i32 = 401;
pub(crate) const CAPTURE_UNSUPPORTED: i32 = 900;
pub(crate) const CAPTURE_INVALIDATED: i32 = 901;

thread_local! {
    static LAST_ERROR: Cell<i32> = const { Cell::new(SUCCESS) };
}

/// Stores an error for `cudaGetLastError`, and returns it.
pub(crate) fn record_error(status: i32) -> i32 {
    if status != SUCCESS {
        LAST_ERROR.set(status);
    }
    status
}

/// The last error of this thread, as `cudaPeekAtLastError` returns it.
pub(crate) fn last_error() -> i32 {
    LAST_ERROR.get()
}

/// Returns the last error of this thread and clears it, as `cudaGetLastError` does.
pub(crate) fn take_last_error() -> i32 {
    LAST_ERROR.replace(SUCCESS)
}

/// Stores a result, unless the caller's pointer is null.
///
/// # Safety
/// The pointer is null or can be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by this function's contract.
        unsafe { to.write(value) };
    }
}
