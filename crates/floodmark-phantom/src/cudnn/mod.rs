//! cuDNN.
//!
//! Operations that are described as graphs (convolutions, attention) are planned by the real library
//! ([`mod@library`], [`graph`]): their workspaces are cuDNN's own, for the device's number of multiprocessors
//! where it planned for another ([`splits`]). The older calls ([`rnn`], [`norm`], [`ctc`]) need a device in
//! the real library, so their sizes are models, each with its basis.

mod ctc;
mod graph;
mod library;
mod norm;
mod plan;
mod rnn;
mod splits;
mod tensors;
mod unplanned;

use std::ffi::{c_char, c_int, c_void};

use floodmark_cuda_model::library_memory::Use;

use crate::guard::OrNull;
use crate::machine::{current_device, hold};
use crate::status::put;
use library::library;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const BAD_PARAM: i32 = 2000;
pub(crate) const NOT_SUPPORTED: i32 = 3000;
const DEVICE_ALLOCATION_FAILED: i32 = 4004;

/// A handle: the stream that it works on.
#[derive(Debug)]
struct Handle {
    stream: *mut c_void,
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreate(handle: *mut *mut Handle) -> i32 {
    if !hold(current_device(), Use::CudnnHandle) {
        return DEVICE_ALLOCATION_FAILED;
    }
    let made = Box::into_raw(Box::new(Handle { stream: std::ptr::null_mut() }));
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { put(handle, made) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroy(handle: *mut Handle) -> i32 {
    if !handle.is_null() {
        // SAFETY: it came from `cudnnCreate`, and is destroyed once.
        drop(unsafe { Box::from_raw(handle) });
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnSetStream(handle: *mut Handle, stream: OrNull<c_void>) -> i32 {
    // SAFETY: the caller's handle, by cuDNN's contract.
    match unsafe { handle.as_mut() } {
        Some(handle) => {
            handle.stream = stream;
            SUCCESS
        }
        None => BAD_PARAM,
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetStream(handle: *mut Handle, stream: *mut *mut c_void) -> i32 {
    // SAFETY: the caller's handle and pointer, by cuDNN's contract.
    unsafe {
        let Some(handle) = handle.as_ref() else { return BAD_PARAM };
        put(stream, handle.stream);
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnGetVersion() -> usize {
    // SAFETY: it takes no arguments.
    library().map_or(0, |library| unsafe { (library.version)() })
}

#[crate::entry_point]
extern "C" fn cudnnGetCudartVersion() -> usize {
    // SAFETY: it takes no arguments.
    library().map_or(0, |library| unsafe { (library.runtime_version)() })
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetProperty(which: c_int, value: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    library().map_or(NOT_SUPPORTED, |library| unsafe { (library.property)(which, value) })
}

#[crate::entry_point]
extern "C" fn cudnnGetErrorString(status: i32) -> *const c_char {
    // SAFETY: it takes a number.
    library().map_or(c"no cuDNN".as_ptr(), |library| unsafe { (library.error_text)(status) })
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetLastErrorString(text: *mut c_char, room: usize) {
    if let Some(library) = library() {
        // SAFETY: the caller's buffer, by cuDNN's contract.
        unsafe { (library.last_error_text)(text, room) };
    }
}
