//! NCCL, with a world of any size in one process.
//!
//! No other rank runs. A communicator has its number of ranks and the rank of this process; a
//! collective delivers the data that the others would send if each had the data of this rank
//! ([`exchange`]). So counts, shapes and flags that are the same on all ranks are correct, and are
//! marked as assumed; data without a value have none on the receiver.
//!
//! NCCL's own device memory is a figure of `floodmark-cuda-model` for each communicator.

mod collectives;
mod communicators;
mod exchange;
mod groups;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use floodmark_cuda_model::PAGE_BYTES;

use crate::guard::{OrNull, failed_call};
use crate::machine::{current_device, machine};
use crate::runtime::{allocate, release};
use crate::status::put;
use crate::streams::new_handle;
use crate::unsupported::is_refused;

const SUCCESS: i32 = 0;
const UNHANDLED_CUDA_ERROR: i32 = 1;
const INVALID_ARGUMENT: i32 = 4;
const INVALID_USAGE: i32 = 5;

/// Longest name of a rendezvous.
const UNIQUE_ID_BYTES: usize = 128;

/// `ncclUniqueId`.
#[repr(C)]
struct UniqueId([u8; UNIQUE_ID_BYTES]);

#[crate::entry_point]
unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put(version, machine().map_or(0, |machine| machine.settings.nccl)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> i32 {
    let mut bytes = [0; UNIQUE_ID_BYTES];
    bytes[..8].copy_from_slice(&new_handle().to_le_bytes());
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put(id, UniqueId(bytes)) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclGetErrorString(status: c_int) -> *const c_char {
    let words: &CStr = match status {
        0 => c"no error",
        1 => c"unhandled cuda error",
        2 => c"unhandled system error",
        3 => c"internal error",
        4 => c"invalid argument",
        5 => c"invalid usage",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    words.as_ptr()
}

/// Which call failed. torch prints it below the text of the status.
#[crate::entry_point]
extern "C" fn ncclGetLastError(_communicator: u64) -> *const c_char {
    thread_local! {
        static TEXT: RefCell<CString> = RefCell::default();
    }
    let text = match failed_call() {
        Some(name) if is_refused(name) => format!("`{name}` is not supported on a simulated GPU"),
        Some(name) => format!("`{name}` was called with an argument that NCCL refuses"),
        None => String::new(),
    };
    TEXT.with_borrow_mut(|kept| {
        *kept = CString::new(text).unwrap_or_default();
        kept.as_ptr()
    })
}

/// Memory that other ranks may reach: whole pages, outside torch's allocator unless torch asks for it.
#[crate::entry_point]
unsafe extern "C" fn ncclMemAlloc(to: *mut u64, bytes: usize) -> i32 {
    let taken = (bytes as u64).max(1).checked_next_multiple_of(PAGE_BYTES);
    match taken.and_then(|taken| allocate(current_device(), taken)) {
        // SAFETY: the caller's pointer, by NCCL's contract.
        Some(addr) => unsafe {
            put(to, addr);
            SUCCESS
        },
        None => UNHANDLED_CUDA_ERROR,
    }
}

#[crate::entry_point]
extern "C" fn ncclMemFree(addr: u64) -> i32 {
    if addr == 0 || release(addr) { SUCCESS } else { INVALID_ARGUMENT }
}

/// Its size, magic number and version precede the requested fields.
#[repr(C)]
struct SimulationInfo {
    size: usize,
    magic: u32,
    version: u32,
    estimated_time: f32,
}

/// The time of a group is unknown here: 0.
#[crate::entry_point]
unsafe extern "C" fn ncclGroupSimulateEnd(info: OrNull<SimulationInfo>) -> i32 {
    // SAFETY: the caller's struct, by NCCL's contract.
    if let Some(info) = unsafe { info.as_mut() } {
        info.estimated_time = 0.0;
    }
    groups::drop_group();
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_names_the_call() {
        let (parent, mut child) = (communicators::made(64, 9), 0);
        let last = || {
            // SAFETY: the text lies in memory of this thread until the next call.
            unsafe { CStr::from_ptr(ncclGetLastError(parent)) }.to_string_lossy().into_owned()
        };
        // SAFETY: the result is stored in a local variable.
        let split = unsafe {
            communicators::ncclCommSplit(parent, 991, 1, &raw mut child, std::ptr::null())
        };
        assert_eq!(split, INVALID_USAGE, "how many ranks have this color is unknown");
        assert_eq!(last(), "`ncclCommSplit` is not supported on a simulated GPU");
        let mut count = 0;
        // SAFETY: the same.
        assert_eq!(unsafe { communicators::ncclCommCount(1, &raw mut count) }, INVALID_ARGUMENT);
        assert_eq!(last(), "`ncclCommCount` was called with an argument that NCCL refuses");
    }
}
