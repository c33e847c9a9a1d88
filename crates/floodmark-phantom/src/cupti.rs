//! CUPTI, which profiles a device: none is simulated.
//!
//! The real library requests tables that only a real driver has, and some versions crash without them.
//! Here all calls except its version and its error texts are refused, which profilers treat as "no
//! activities of a device"; events of the host are still recorded.

use std::ffi::{c_char, c_int};

use crate::runtime::version as cuda_version;
use crate::status::{SUCCESS, put};

#[crate::entry_point]
unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> i32 {
    let found = if cuda_version() >= 13_000 { 130_000 } else { 18 };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(version, found) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuptiGetResultString(status: c_int, text: *mut *const c_char) -> i32 {
    let words = if status == SUCCESS {
        c"CUPTI_SUCCESS"
    } else {
        c"CUPTI_ERROR_NOT_SUPPORTED (by a simulated GPU)"
    };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(text, words.as_ptr()) };
    SUCCESS
}
