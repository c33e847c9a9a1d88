//! CUDA's runtime, as `libcudart` has it.

mod attributes;
mod device;
mod entry;
mod errors;
pub(crate) mod graph;
mod launch;
mod memory;
mod pools;
mod properties;
pub(crate) mod stream;

pub(crate) use attributes::attribute;
pub(crate) use entry::driver_function;
pub(crate) use errors::words as error_words;
pub(crate) use launch::active_blocks;
pub(crate) use memory::{allocate, forget, free_host, give_device_pointer, give_host, release};

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

/// The simulated version of CUDA.
pub(crate) fn version() -> i32 {
    crate::machine::machine().map_or(13_000, |machine| machine.settings.cuda)
}

thread_local! {
    static LAST_ERROR: Cell<i32> = const { Cell::new(SUCCESS) };
}

/// Remembers an error for `cudaGetLastError`, and gives it back.
pub(crate) fn said(status: i32) -> i32 {
    if status != SUCCESS {
        LAST_ERROR.set(status);
    }
    status
}

/// The error that `cudaGetLastError` would return.
#[cfg(test)]
pub(crate) fn last_error() -> i32 {
    LAST_ERROR.get()
}

/// Stores a result where the caller wants it, if it does.
///
/// # Safety
/// The pointer is null or can be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by this function's contract.
        unsafe { to.write(value) };
    }
}
