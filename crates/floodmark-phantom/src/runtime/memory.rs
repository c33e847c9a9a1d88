//! Memory of devices and of the host, and copies.

use std::ffi::{c_int, c_uint, c_void};

use super::{INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY, SUCCESS, put, said};
use crate::contents::contents;
use crate::machine::{HostBlock, HostKind, Place, current_device, machine};
use crate::memory::discard;
use crate::streams::note_work;
use crate::transfer;

/// Memory of the present device: an address, or nothing when it is full.
pub(crate) fn allocate(device: usize, bytes: u64) -> Option<u64> {
    machine()?.memory(device)?.allocate(bytes)
}

/// Gives memory of a device back, whichever it is.
pub(crate) fn release(addr: u64) -> bool {
    let Some(machine) = machine() else { return false };
    let Some(device) = machine.device_of(addr) else { return false };
    let released = machine.memory(device).and_then(|mut memory| memory.release(addr));
    if let Some(bytes) = released {
        forget(addr, bytes);
    }
    released.is_some()
}

/// The bytes have no value any more, and take no memory.
pub(crate) fn forget(addr: u64, bytes: u64) {
    let mut contents = contents();
    if !contents.pieces(addr, bytes).is_empty() {
        contents.forget(addr, bytes);
        discard(addr, bytes);
    }
}

/// Stores an address where the caller wants it, or says that there is no memory.
///
/// # Safety
/// The pointer is null or can be written to.
pub(crate) unsafe fn give(to: *mut u64, addr: Option<u64>) -> i32 {
    let Some(addr) = addr else { return said(OUT_OF_MEMORY) };
    // SAFETY: by this function's contract.
    unsafe { put(to, addr) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMalloc(to: *mut u64, bytes: usize) -> i32 {
    if to.is_null() {
        return said(INVALID_VALUE);
    }
    match allocate(current_device(), bytes as u64) {
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some(addr) => unsafe {
            to.write(if bytes == 0 { 0 } else { addr });
            SUCCESS
        },
        None => said(OUT_OF_MEMORY),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cudaFree(addr: u64) -> i32 {
    if addr == 0 || release(addr) || free_host(addr, HostKind::Managed) {
        SUCCESS
    } else {
        said(INVALID_VALUE)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> i32 {
    let Some(machine) = machine() else { return said(INVALID_VALUE) };
    let Some(memory) = machine.memory(current_device()) else { return said(INVALID_VALUE) };
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(free, usize::try_from(memory.free_bytes()).unwrap_or(usize::MAX));
        put(total, usize::try_from(machine.settings.memory).unwrap_or(usize::MAX));
    }
    SUCCESS
}

/// Host memory on pages of its own, as drivers give it.
pub(crate) fn allocate_host(bytes: usize, kind: HostKind) -> Option<u64> {
    let machine = machine()?;
    let mut addr = std::ptr::null_mut();
    // SAFETY: the result is stored in a local variable.
    if unsafe { libc::posix_memalign(&raw mut addr, 4096, bytes.max(1)) } != 0 {
        return None;
    }
    let device = c_int::try_from(current_device()).unwrap_or(0);
    machine.host().insert(addr as u64, HostBlock { bytes: bytes as u64, kind, device });
    Some(addr as u64)
}

/// Frees host memory that is ours and of that kind.
pub(crate) fn free_host(addr: u64, kind: HostKind) -> bool {
    let Some(machine) = machine() else { return false };
    let mut host = machine.host();
    let is_ours = host.get(&addr).is_some_and(|block| block.kind == kind);
    if is_ours {
        host.remove(&addr);
        // SAFETY: it was allocated by `allocate_host` and is forgotten by now.
        unsafe { libc::free(addr as *mut c_void) };
    }
    is_ours
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaHostAlloc(to: *mut u64, bytes: usize, _flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { give(to, allocate_host(bytes, HostKind::Allocated)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMallocHost(to: *mut u64, bytes: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaHostAlloc(to, bytes, 0) }
}

#[unsafe(no_mangle)]
extern "C" fn cudaFreeHost(addr: u64) -> i32 {
    if addr == 0 || free_host(addr, HostKind::Allocated) { SUCCESS } else { said(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn cudaHostRegister(addr: u64, bytes: usize, _flags: c_uint) -> i32 {
    let Some(machine) = machine() else { return said(INVALID_VALUE) };
    let device = c_int::try_from(current_device()).unwrap_or(0);
    let block = HostBlock { bytes: bytes as u64, kind: HostKind::Registered, device };
    machine.host().insert(addr, block);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaHostUnregister(addr: u64) -> i32 {
    let removed = machine().and_then(|machine| machine.host().remove(&addr));
    if removed.is_some() { SUCCESS } else { said(NOT_REGISTERED) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaHostGetDevicePointer(to: *mut u64, addr: u64, _flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, addr) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaHostGetFlags(flags: *mut c_uint, _addr: u64) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(flags, 0) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMallocManaged(to: *mut u64, bytes: usize, _flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { give(to, allocate_host(bytes, HostKind::Managed)) }
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemAdvise() -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemAdvise_v2() -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemPrefetchAsync() -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemPrefetchAsync_v2() -> i32 {
    SUCCESS
}

/// `cudaPointerAttributes`; CUDA 13 has eight more numbers after these, which callers do not read.
#[repr(C)]
struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaPointerGetAttributes(to: *mut PointerAttributes, addr: u64) -> i32 {
    let Some(machine) = machine() else { return said(INVALID_VALUE) };
    let attributes = match machine.place_of(addr) {
        Place::Device(device) => PointerAttributes {
            kind: 2,
            device: c_int::try_from(device).unwrap_or(0),
            device_pointer: addr,
            host_pointer: 0,
        },
        Place::Host(block) => PointerAttributes {
            kind: if block.kind == HostKind::Managed { 3 } else { 1 },
            device: block.device,
            device_pointer: addr,
            host_pointer: addr,
        },
        Place::Other => {
            PointerAttributes { kind: 0, device: -2, device_pointer: 0, host_pointer: addr }
        }
    };
    // SAFETY: the caller's struct begins with these fields.
    unsafe { put(to, attributes) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemcpy(to: u64, from: u64, bytes: usize, _kind: c_int) -> i32 {
    // SAFETY: the caller's memory, by CUDA's contract.
    unsafe { transfer::copy(to, from, bytes as u64) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemcpyAsync(
    to: u64,
    from: u64,
    bytes: usize,
    _kind: c_int,
    stream: u64,
) -> i32 {
    note_work(stream);
    // SAFETY: the caller's memory, by CUDA's contract.
    unsafe { transfer::copy(to, from, bytes as u64) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemcpyPeer(to: u64, _at: c_int, from: u64, _of: c_int, n: usize) -> i32 {
    // SAFETY: the caller's memory, by CUDA's contract.
    unsafe { transfer::copy(to, from, n as u64) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemcpyPeerAsync(
    to: u64,
    _to_device: c_int,
    from: u64,
    _from_device: c_int,
    bytes: usize,
    stream: u64,
) -> i32 {
    note_work(stream);
    // SAFETY: the caller's memory, by CUDA's contract.
    unsafe { transfer::copy(to, from, bytes as u64) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemcpy2D(
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    _kind: c_int,
) -> i32 {
    for row in 0..height as u64 {
        let (to, from) = (to + row * to_pitch as u64, from + row * from_pitch as u64);
        // SAFETY: the caller's memory, by CUDA's contract.
        unsafe { transfer::copy(to, from, width as u64) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemcpy2DAsync(
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
    stream: u64,
) -> i32 {
    note_work(stream);
    // SAFETY: the same contract.
    unsafe { cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind) }
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemset(to: u64, value: c_int, bytes: usize) -> i32 {
    transfer::fill(to, value.to_le_bytes()[0], bytes as u64);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemsetAsync(to: u64, value: c_int, bytes: usize, stream: u64) -> i32 {
    note_work(stream);
    cudaMemset(to, value, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemset2DAsync(
    to: u64,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: u64,
) -> i32 {
    note_work(stream);
    for row in 0..height as u64 {
        transfer::fill(to + row * pitch as u64, value.to_le_bytes()[0], width as u64);
    }
    SUCCESS
}
