//! Modules and kernels: loaded by name, launched without effect.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::machine::machine;
use crate::runtime::{active_blocks, launch};
use crate::status::{SUCCESS, put};
use crate::streams::new_handle;

#[crate::entry_point]
unsafe extern "C" fn cuModuleLoadData(module: *mut u64, _image: *const c_void) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(module, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut u64,
    image: *const c_void,
    _count: c_uint,
    _options: *mut c_int,
    _values: *mut *mut c_void,
) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuModuleLoadData(module, image) }
}

#[crate::entry_point]
unsafe extern "C" fn cuModuleLoad(module: *mut u64, _path: *const c_char) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuModuleLoadData(module, std::ptr::null()) }
}

#[crate::entry_point]
unsafe extern "C" fn cuModuleLoadFatBinary(module: *mut u64, image: *const c_void) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuModuleLoadData(module, image) }
}

#[crate::entry_point]
extern "C" fn cuModuleUnload(_module: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuModuleGetFunction(to: *mut u64, _module: u64, _name: *const c_char) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuLibraryLoadData(library: *mut u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(library, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuLibraryLoadFromFile(library: *mut u64) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuLibraryLoadData(library) }
}

#[crate::entry_point]
extern "C" fn cuLibraryUnload(_library: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuLibraryGetKernel(to: *mut u64, _library: u64, _name: *const c_char) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuLibraryGetModule(to: *mut u64, _library: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuKernelGetFunction(to: *mut u64, kernel: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, kernel) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuKernelGetLibrary(to: *mut u64, _kernel: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuFuncGetModule(to: *mut u64, _function: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, which: c_int, _function: u64) -> i32 {
    let Some(machine) = machine() else { return crate::status::INVALID_VALUE };
    let (major, minor) = machine.settings.capability;
    let found = match which {
        0 => 1024, // threads of a block
        4 => 32,   // registers
        5 | 6 => major * 10 + minor,
        8 => c_int::try_from(machine.settings.shared_per_block).unwrap_or(c_int::MAX),
        _ => 0,
    };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(value, found) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuKernelGetAttribute(
    value: *mut c_int,
    which: c_int,
    kernel: u64,
    _device: c_int,
) -> i32 {
    // SAFETY: the same contract.
    unsafe { cuFuncGetAttribute(value, which, kernel) }
}

#[crate::entry_point]
extern "C" fn cuFuncSetAttribute(_function: u64, _which: c_int, _value: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuKernelSetAttribute(_which: c_int, _v: c_int, _kernel: u64, _device: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuFuncSetCacheConfig(_function: u64, _config: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuLaunchKernel(
    _function: u64,
    _grid_x: c_uint,
    _grid_y: c_uint,
    _grid_z: c_uint,
    _block_x: c_uint,
    _block_y: c_uint,
    _block_z: c_uint,
    _shared: c_uint,
    stream: u64,
) -> i32 {
    launch(stream)
}

#[crate::entry_point]
extern "C" fn cuLaunchCooperativeKernel(
    function: u64,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: u64,
) -> i32 {
    cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream)
}

/// The part of `CUlaunchConfig` that is read.
#[repr(C)]
struct LaunchConfig {
    sizes: [c_uint; 6],
    shared: c_uint,
    stream: u64,
}

#[crate::entry_point]
unsafe extern "C" fn cuLaunchKernelEx(config: *const LaunchConfig, _function: u64) -> i32 {
    // SAFETY: the caller's struct begins with these fields.
    launch(unsafe { (*config).stream })
}

#[crate::entry_point]
unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    _function: u64,
    threads: c_int,
    shared: usize,
) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(blocks, active_blocks(threads, shared)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuOccupancyMaxActiveClusters(count: *mut c_int) -> i32 {
    let found = machine().map_or(0, |machine| machine.settings.multiprocessors / 2);
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(count, found) };
    SUCCESS
}

/// A description of a tensor for the device's own copies: only kernels read it.
#[crate::entry_point]
unsafe extern "C" fn cuTensorMapEncodeTiled(map: *mut [u64; 16]) -> i32 {
    // SAFETY: the caller's struct has 128 bytes.
    unsafe { put(map, [0; 16]) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuTensorMapEncodeIm2col(map: *mut [u64; 16]) -> i32 {
    // SAFETY: the caller's struct has 128 bytes.
    unsafe { put(map, [0; 16]) };
    SUCCESS
}
