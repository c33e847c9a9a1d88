//! Functions of the driver by name, and its errors in words.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::guard::OrNull;
use crate::runtime::{driver_function, error_words};
use crate::status::{SUCCESS, put};

const NOT_FOUND: i32 = 500;

#[crate::entry_point]
unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    function: *mut *mut c_void,
    _version: c_int,
    _flags: u64,
) -> i32 {
    // SAFETY: the caller's name ends with a zero, by CUDA's contract.
    let found = driver_function(unsafe { CStr::from_ptr(name) });
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(function, found) };
    if found.is_null() { NOT_FOUND } else { SUCCESS }
}

#[crate::entry_point]
unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    result: OrNull<c_int>,
) -> i32 {
    // SAFETY: the same contract.
    let status = unsafe { cuGetProcAddress(name, function, version, flags) };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(result, c_int::from(status != SUCCESS)) };
    status
}

#[crate::entry_point]
unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(text, error_words(error).1.as_ptr()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(text, error_words(error).0.as_ptr()) };
    SUCCESS
}

/// Tables of functions that NVIDIA's own libraries share. There are none: most libraries work
/// without them, except a runtime that is linked into a library.
#[crate::entry_point]
unsafe extern "C" fn cuGetExportTable(table: *mut *const c_void, _id: *const c_void) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(table, std::ptr::null()) };
    super::linked_runtime::note();
    NOT_FOUND
}

/// A listener for errors: there are none to report.
#[crate::entry_point]
unsafe extern "C" fn cuLogsRegisterCallback(_told: u64, _data: u64, handle: OrNull<u64>) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(handle, crate::streams::new_handle()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuLogsUnregisterCallback(_handle: u64) -> i32 {
    SUCCESS
}
