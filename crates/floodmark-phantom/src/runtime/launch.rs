//! Kernels: registered, queried, launched; none of them runs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use super::memory::allocate;
use crate::guard::{ConstOrNull, OrNull};
use crate::machine::{current_device, load_kernels, machine};
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, put, record_error};
use crate::streams::{new_handle, note_work};

/// Three sizes: of a grid or of a block.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

type Configuration = (Dim3, Dim3, usize, u64);

thread_local! {
    /// The arguments of this thread's `<<<…>>>`, for the next launch.
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Variables of devices, by the address of their shadow on the host.
static VARIABLES: Mutex<Option<HashMap<u64, Variable>>> = Mutex::new(None);

#[derive(Debug, Clone, Copy)]
struct Variable {
    bytes: usize,
    /// Its address on each device, once requested.
    addr: Option<u64>,
}

#[crate::entry_point]
extern "C" fn __cudaRegisterFatBinary(_binary: *const c_void) -> *mut *mut c_void {
    new_handle() as *mut *mut c_void
}

#[crate::entry_point]
extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

#[crate::entry_point]
extern "C" fn __cudaUnregisterFatBinary(_handle: *mut *mut c_void) {}

#[crate::entry_point]
extern "C" fn __cudaRegisterFunction() {}

#[crate::entry_point]
extern "C" fn __cudaInitModule(_handle: *mut *mut c_void) -> c_char {
    1
}

#[crate::entry_point]
extern "C" fn __cudaRegisterVar(
    _handle: *mut *mut c_void,
    shadow: u64,
    _address: *mut c_char,
    _name: *const c_char,
    _is_extern: c_int,
    bytes: usize,
    _is_constant: c_int,
    _global: c_int,
) {
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    variables.get_or_insert_default().insert(shadow, Variable { bytes, addr: None });
}

#[crate::entry_point]
extern "C" fn __cudaRegisterManagedVar() {}

#[crate::entry_point]
unsafe extern "C" fn __cudaGetKernel(to: *mut u64, function: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, function) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetKernel(to: *mut u64, function: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, function) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetFuncBySymbol(to: *mut u64, function: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, function) };
    SUCCESS
}

/// Code that was compiled while the program runs: it is assumed to have every requested kernel.
#[crate::entry_point]
unsafe extern "C" fn cudaLibraryLoadData(library: *mut u64, _code: *const c_void) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(library, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaLibraryLoadFromFile(library: *mut u64, _path: *const c_char) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(library, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaLibraryUnload(_library: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaLibraryGetKernel(
    to: *mut u64,
    _library: u64,
    _name: *const c_char,
) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

/// The address of a device's variable; it takes memory from then on.
pub(crate) fn variable(shadow: u64) -> Option<(u64, usize)> {
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let variable = variables.get_or_insert_default().get_mut(&shadow)?;
    if variable.addr.is_none() {
        variable.addr = allocate(current_device(), variable.bytes as u64);
    }
    Some((variable.addr?, variable.bytes))
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetSymbolAddress(to: *mut u64, shadow: u64) -> i32 {
    match variable(shadow) {
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some((addr, _)) => unsafe {
            put(to, addr);
            SUCCESS
        },
        None => record_error(OUT_OF_MEMORY),
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetSymbolSize(to: *mut usize, shadow: u64) -> i32 {
    match variable(shadow) {
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some((_, bytes)) => unsafe {
            put(to, bytes);
            SUCCESS
        },
        None => record_error(INVALID_VALUE),
    }
}

#[crate::entry_point]
extern "C" fn cudaMemcpyToSymbol(shadow: u64, _from: u64, _n: usize, _at: usize, _k: c_int) -> i32 {
    if variable(shadow).is_some() { SUCCESS } else { record_error(INVALID_VALUE) }
}

#[crate::entry_point]
extern "C" fn cudaMemcpyToSymbolAsync(
    shadow: u64,
    from: u64,
    bytes: usize,
    at: usize,
    kind: c_int,
    _stream: u64,
) -> i32 {
    cudaMemcpyToSymbol(shadow, from, bytes, at, kind)
}

#[crate::entry_point(1)]
extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: u64,
) -> c_uint {
    CONFIGURATIONS.with_borrow_mut(|stack| stack.push((grid, block, shared, stream)));
    0
}

#[crate::entry_point]
unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut u64,
) -> i32 {
    let Some(top) = CONFIGURATIONS.with_borrow_mut(Vec::pop) else {
        return record_error(INVALID_VALUE);
    };
    // SAFETY: the caller's pointers, by the contract of nvcc's code.
    unsafe {
        put(grid, top.0);
        put(block, top.1);
        put(shared, top.2);
        put(stream, top.3);
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaLaunchKernel(
    _function: *const c_void,
    _grid: Dim3,
    _block: Dim3,
    _args: *mut *mut c_void,
    _shared: usize,
    stream: u64,
) -> i32 {
    launch(stream)
}

#[crate::entry_point]
extern "C" fn __cudaLaunchKernel(
    function: ConstOrNull<c_void>,
    grid: Dim3,
    block: Dim3,
    args: OrNull<*mut c_void>,
    shared: usize,
    stream: u64,
) -> i32 {
    cudaLaunchKernel(function, grid, block, args, shared, stream)
}

#[crate::entry_point]
extern "C" fn cudaLaunchCooperativeKernel(
    function: ConstOrNull<c_void>,
    grid: Dim3,
    block: Dim3,
    args: OrNull<*mut c_void>,
    shared: usize,
    stream: u64,
) -> i32 {
    cudaLaunchKernel(function, grid, block, args, shared, stream)
}

/// The part of `cudaLaunchConfig_t` that is read.
#[repr(C)]
struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: u64,
}

#[crate::entry_point]
unsafe extern "C" fn cudaLaunchKernelExC(
    config: *const LaunchConfig,
    _function: *const c_void,
    _args: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller's struct begins with these fields.
    launch(unsafe { (*config).stream })
}

/// Launches a kernel on a stream.
pub(crate) fn launch(stream: u64) -> i32 {
    note_work(stream);
    if load_kernels() { SUCCESS } else { record_error(OUT_OF_MEMORY) }
}

/// `cudaFuncAttributes`, 144 bytes in CUDA 12 and 13.
#[repr(C)]
struct FunctionAttributes {
    shared: usize,
    constant: usize,
    local: usize,
    threads: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode: c_int,
    dynamic_shared: c_int,
    carveout: c_int,
    rest: [c_int; 23],
}

/// The capabilities that torch's own builds have code for: `torch.cuda.get_arch_list()`.
const BUILT: &[(c_int, c_int)] = if cfg!(target_arch = "aarch64") {
    &[(8, 0), (9, 0), (10, 0), (11, 0), (12, 0)]
} else {
    &[(5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)]
};

/// The capability that kernels for a device are compiled for: a device runs code for a lower minor number too.
///
/// CUB asks for this number and refuses one that it was not compiled for (`cudaErrorInvalidDeviceFunction`).
fn compiled_capability(device: (c_int, c_int), built: &[(c_int, c_int)]) -> (c_int, c_int) {
    let runs = |built: &&(c_int, c_int)| built.0 == device.0 && built.1 <= device.1;
    built.iter().filter(runs).max().copied().unwrap_or(device)
}

#[crate::entry_point]
unsafe extern "C" fn cudaFuncGetAttributes(to: *mut FunctionAttributes, _function: u64) -> i32 {
    let Some(machine) = machine() else { return record_error(INVALID_VALUE) };
    let (major, minor) = compiled_capability(machine.settings.capability, BUILT);
    let attributes = FunctionAttributes {
        shared: 0,
        constant: 0,
        local: 0,
        threads: 1024,
        registers: 32,
        ptx_version: major * 10 + minor,
        binary_version: major * 10 + minor,
        cache_mode: 0,
        dynamic_shared: c_int::try_from(machine.settings.shared_per_block).unwrap_or(c_int::MAX),
        carveout: -1,
        rest: [0; 23],
    };
    // SAFETY: the caller's struct has this size.
    unsafe { put(to, attributes) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaFuncSetAttribute(_function: u64, _which: c_int, _value: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaFuncSetCacheConfig(_function: u64, _config: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaFuncSetSharedMemConfig(_function: u64, _config: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaKernelSetAttributeForDevice(_k: u64, _which: c_int, _v: c_int, _d: c_int) -> i32 {
    SUCCESS
}

/// How many blocks of that size a multiprocessor holds, going by threads and shared memory. Registers
/// are assumed to be 32 per thread, since the kernel's code is not read.
pub(crate) fn active_blocks(threads: c_int, shared: usize) -> c_int {
    let Some(machine) = machine() else { return 0 };
    let known = &machine.settings;
    let threads = threads.max(1);
    let by_threads = known.threads_per_multiprocessor / threads;
    let by_registers = known.registers_per_multiprocessor / (threads * 32);
    let by_shared = match shared as u64 {
        0 => i32::MAX,
        bytes => {
            i32::try_from(known.shared_per_multiprocessor / (bytes + 1024)).unwrap_or(i32::MAX)
        }
    };
    by_threads.min(by_registers).min(by_shared).min(known.blocks_per_multiprocessor)
}

#[crate::entry_point]
unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
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
unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: u64,
    threads: c_int,
    shared: usize,
    _flags: c_uint,
) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared) }
}

#[crate::entry_point]
unsafe extern "C" fn cudaOccupancyMaxActiveClusters(count: *mut c_int) -> i32 {
    let found = machine().map_or(0, |machine| machine.settings.multiprocessors / 2);
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(count, found) };
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_was_compiled_at_run_time_has_its_kernels() {
        let (mut library, mut kernel) = (0, 0);
        let (code, name) = (c"code".as_ptr(), c"kernel".as_ptr());
        // SAFETY: the results are stored in local variables.
        let found = unsafe {
            (
                cudaLibraryLoadData(&raw mut library, code.cast()),
                cudaLibraryGetKernel(&raw mut kernel, library, name),
            )
        };
        assert_eq!((found, library != 0, kernel != 0), ((SUCCESS, SUCCESS), true, true));
        assert_eq!(cudaLibraryUnload(library), SUCCESS);
    }

    #[test]
    fn a_device_runs_code_for_a_lower_minor_number() {
        let x86 = &[(7, 5), (8, 0), (8, 6), (9, 0), (12, 0)];
        let arm = &[(8, 0), (9, 0), (12, 0)];
        let found = |device| (compiled_capability(device, x86), compiled_capability(device, arm));
        assert_eq!(found((8, 9)), ((8, 6), (8, 0)));
        assert_eq!(found((8, 6)), ((8, 6), (8, 0)));
        assert_eq!(found((9, 0)), ((9, 0), (9, 0)));
        assert_eq!(found((12, 1)), ((12, 0), (12, 0)));
        // Without code for it, torch reports the error itself.
        assert_eq!(compiled_capability((6, 1), arm), (6, 1));
    }
}
