//! Captures and graphs. A graph does nothing when it is launched: only the memory that was allocated while
//! it was captured matters, and torch keeps that in a pool of its own.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use floodmark_cuda_model::library_memory::Use;

use crate::guard::OrNull;
use crate::machine::{current_device, hold, release_held};
use crate::status::{
    CAPTURE_INVALIDATED, ILLEGAL_STATE, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, put, record_error,
};
use crate::streams::{Graph, Instance, new_handle, note_work, with};

thread_local! {
    /// The capture mode of this thread: kept, because CUDA returns the old mode.
    static MODE: Cell<c_int> = const { Cell::new(0) };
}

const NOT_CAPTURING: c_int = 0;
const CAPTURING: c_int = 1;

#[crate::entry_point]
extern "C" fn cudaStreamBeginCapture(stream: u64, _mode: c_int) -> i32 {
    match with(|streams| streams.begin_capture(stream)) {
        Some(_) => SUCCESS,
        None => record_error(ILLEGAL_STATE),
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamEndCapture(stream: u64, graph: *mut u64) -> i32 {
    let (is_broken, ended) =
        with(|streams| (streams.take_broken(stream), streams.end_capture(stream)));
    match ended {
        Some(made) if is_broken => {
            with(|streams| streams.destroy_graph(made));
            // SAFETY: the caller's pointer, by CUDA's contract.
            unsafe { put(graph, 0) };
            record_error(CAPTURE_INVALIDATED)
        }
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some(found) => unsafe {
            put(graph, found);
            SUCCESS
        },
        None => record_error(ILLEGAL_STATE),
    }
}

#[crate::entry_point]
pub(crate) unsafe extern "C" fn cudaStreamIsCapturing(stream: u64, status: *mut c_int) -> i32 {
    let capture = with(|streams| streams.capture_of(stream));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(status, if capture.is_some() { CAPTURING } else { NOT_CAPTURING }) };
    SUCCESS
}

/// CUDA 12 has five results, CUDA 13 one more in the middle; torch asks for the first two, and sets the
/// others to null or does not pass them.
unsafe fn capture_info(stream: u64, status: *mut c_int, id: *mut u64) -> i32 {
    let capture = with(|streams| streams.capture_of(stream));
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(status, if capture.is_some() { CAPTURING } else { NOT_CAPTURING });
        put(id, capture.unwrap_or(0));
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamGetCaptureInfo(
    stream: u64,
    status: *mut c_int,
    id: OrNull<u64>,
) -> i32 {
    // SAFETY: the same contract.
    unsafe { capture_info(stream, status, id) }
}

#[crate::entry_point]
unsafe extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: u64,
    status: *mut c_int,
    id: OrNull<u64>,
    graph: OrNull<u64>,
    dependencies: OrNull<*const c_void>,
    count: OrNull<usize>,
) -> i32 {
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(graph, 0);
        put(dependencies, std::ptr::null());
        put(count, 0);
        capture_info(stream, status, id)
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) -> i32 {
    if mode.is_null() {
        return record_error(INVALID_VALUE);
    }
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { mode.write(MODE.replace(mode.read())) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGraphCreate(to: *mut u64, _flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, with(|streams| streams.create_graph(Graph::default()))) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaGraphDestroy(graph: u64) -> i32 {
    with(|streams| streams.destroy_graph(graph));
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGraphGetNodes(graph: u64, nodes: OrNull<u64>, count: *mut usize) -> i32 {
    let Some(graph) = with(|streams| streams.graph(graph)) else {
        return record_error(INVALID_VALUE);
    };
    let all = usize::try_from(graph.nodes).unwrap_or(usize::MAX);
    // SAFETY: the caller's pointers, by CUDA's contract: `count` is the capacity of the array of
    // nodes.
    unsafe {
        if !nodes.is_null() && !count.is_null() {
            for at in 0..all.min(count.read()) {
                nodes.add(at).write(new_handle());
            }
        }
        put(count, all);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGraphInstantiate(to: *mut u64, graph: u64, _flags: u64) -> i32 {
    let nodes = with(|streams| streams.graph(graph)).map_or(0, |graph| graph.nodes);
    let device = current_device();
    if !hold(device, Use::Graph(nodes)) {
        return record_error(OUT_OF_MEMORY);
    }
    let made = with(|streams| streams.create_instance(Instance { device, nodes }));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, made) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGraphInstantiateWithFlags(to: *mut u64, graph: u64, flags: u64) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaGraphInstantiate(to, graph, flags) }
}

#[crate::entry_point]
extern "C" fn cudaGraphExecDestroy(exec: u64) -> i32 {
    if let Some(Instance { device, nodes }) = with(|streams| streams.destroy_instance(exec)) {
        release_held(device, Use::Graph(nodes));
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaGraphUpload(_exec: u64, _stream: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaGraphLaunch(_exec: u64, stream: u64) -> i32 {
    note_work(stream);
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGraphDebugDotPrint(graph: u64, path: *const c_char, _f: c_uint) -> i32 {
    let Some(graph) = with(|streams| streams.graph(graph)) else {
        return record_error(INVALID_VALUE);
    };
    // SAFETY: the caller's path ends with a zero, by CUDA's contract.
    let path = unsafe { CStr::from_ptr(path) };
    let mut text = "digraph phantom {\n".to_owned();
    for node in 0..graph.nodes {
        text += &format!("  node{node};\n");
    }
    match std::fs::write(OsStr::from_bytes(path.to_bytes()), text + "}\n") {
        Ok(()) => SUCCESS,
        Err(_) => record_error(INVALID_VALUE),
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaUserObjectCreate(
    to: *mut u64,
    _object: *mut c_void,
    _destroy: *const c_void,
    _count: c_uint,
    _flags: c_uint,
) -> i32 {
    // What it keeps alive stays so for the life of the process.
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaUserObjectRelease(_object: u64, _count: c_uint) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaGraphRetainUserObject(_g: u64, _object: u64, _n: c_uint, _flags: c_uint) -> i32 {
    SUCCESS
}
