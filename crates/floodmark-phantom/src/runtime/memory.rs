//! Memory of devices and of the host, and copies.

use std::ffi::{c_int, c_uint, c_void};

use crate::contents::contents;
use crate::copies::{self, Direction, Rows};
use crate::guard::OrNull;
use crate::host_memory;
use crate::machine::{AddressKind, Extent, HostBlock, HostKind, Machine, current_device, machine};
use crate::memory::discard;
use crate::status::{
    ALREADY_REGISTERED, INVALID_DEVICE, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY, SUCCESS, put,
    record_error,
};
use crate::streams::note_work;

/// The flags that `cudaHostAlloc` and `cudaHostRegister` have.
const HOST_FLAGS: c_uint = 7;
const REGISTER_FLAGS: c_uint = 15;

/// Memory of the present device: an address, or nothing when it is full.
pub(crate) fn allocate(device: usize, bytes: u64) -> Option<u64> {
    machine()?.memory(device)?.allocate(bytes)
}

/// Frees memory of any device.
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

/// Stores an address for the caller, or returns the out-of-memory error.
///
/// # Safety
/// The pointer is null or can be written to.
pub(crate) unsafe fn give(to: *mut u64, addr: Option<u64>) -> i32 {
    let Some(addr) = addr else { return record_error(OUT_OF_MEMORY) };
    // SAFETY: by this function's contract.
    unsafe { put(to, addr) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaMalloc(to: *mut u64, bytes: usize) -> i32 {
    if to.is_null() {
        return record_error(INVALID_VALUE);
    }
    let addr = if bytes == 0 { Some(0) } else { allocate(current_device(), bytes as u64) };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { give(to, addr) }
}

#[crate::entry_point]
extern "C" fn cudaFree(addr: u64) -> i32 {
    if addr == 0 || release(addr) || free_host(addr, HostKind::Managed) {
        SUCCESS
    } else {
        record_error(INVALID_VALUE)
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaMemGetInfo(free: OrNull<usize>, total: OrNull<usize>) -> i32 {
    let Some(machine) = machine() else { return record_error(INVALID_VALUE) };
    let Some(memory) = machine.memory(current_device()) else { return record_error(INVALID_VALUE) };
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
    if bytes == 0 {
        return Some(0);
    }
    let mut addr = std::ptr::null_mut();
    // SAFETY: the result is stored in a local variable.
    if unsafe { libc::posix_memalign(&raw mut addr, 4096, bytes) } != 0 {
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

/// Host memory of that kind, with flags that must all be among `known`.
///
/// # Safety
/// The pointer is null or can be written to.
pub(crate) unsafe fn give_host(
    to: *mut u64,
    bytes: usize,
    kind: HostKind,
    flags: c_uint,
    known: c_uint,
) -> i32 {
    if to.is_null() || flags & !known != 0 {
        return INVALID_VALUE;
    }
    let Some(addr) = allocate_host(bytes, kind) else { return OUT_OF_MEMORY };
    // SAFETY: it is not null, and the caller's.
    unsafe { to.write(addr) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaHostAlloc(to: *mut u64, bytes: usize, flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    record_error(unsafe { give_host(to, bytes, HostKind::Allocated, flags, HOST_FLAGS) })
}

#[crate::entry_point]
unsafe extern "C" fn cudaMallocHost(to: *mut u64, bytes: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaHostAlloc(to, bytes, 0) }
}

#[crate::entry_point]
extern "C" fn cudaFreeHost(addr: u64) -> i32 {
    if addr == 0 || free_host(addr, HostKind::Allocated) {
        SUCCESS
    } else {
        record_error(INVALID_VALUE)
    }
}

#[crate::entry_point]
extern "C" fn cudaHostRegister(addr: u64, bytes: usize, flags: c_uint) -> i32 {
    let Some(machine) = machine() else { return record_error(INVALID_VALUE) };
    let bytes = bytes as u64;
    if addr == 0 || bytes == 0 || flags & !REGISTER_FLAGS != 0 {
        return record_error(INVALID_VALUE);
    }
    if let AddressKind::Host(block) = machine.address_kind(addr) {
        let is_registered = block.kind == HostKind::Registered;
        return record_error(if is_registered { ALREADY_REGISTERED } else { INVALID_VALUE });
    }
    if machine.extent(addr, bytes) != Extent::Unknown || !host_memory::is_readable(addr, bytes) {
        return record_error(INVALID_VALUE);
    }
    let device = c_int::try_from(current_device()).unwrap_or(0);
    machine.host().insert(addr, HostBlock { bytes, kind: HostKind::Registered, device });
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaHostUnregister(addr: u64) -> i32 {
    let Some(machine) = machine() else { return record_error(INVALID_VALUE) };
    let removed = {
        let mut host = machine.host();
        let is_registered = host.get(&addr).is_some_and(|block| block.kind == HostKind::Registered);
        is_registered.then(|| host.remove(&addr))
    };
    match machine.address_kind(addr) {
        _ if removed.is_some() => SUCCESS,
        AddressKind::Other if addr != 0 => record_error(NOT_REGISTERED),
        AddressKind::Host(_) | AddressKind::Device(_) | AddressKind::Other => {
            record_error(INVALID_VALUE)
        }
    }
}

/// The device address of host memory: only memory that is known to CUDA has one.
///
/// # Safety
/// The pointer is null or can be written to.
pub(crate) unsafe fn give_device_pointer(to: *mut u64, addr: u64, flags: c_uint) -> i32 {
    let is_known =
        machine().is_some_and(|machine| matches!(machine.address_kind(addr), AddressKind::Host(_)));
    if to.is_null() || flags != 0 || !is_known {
        return INVALID_VALUE;
    }
    // SAFETY: it is not null, and the caller's.
    unsafe { to.write(addr) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaHostGetDevicePointer(to: *mut u64, addr: u64, flags: c_uint) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    record_error(unsafe { give_device_pointer(to, addr, flags) })
}

#[crate::entry_point]
unsafe extern "C" fn cudaHostGetFlags(flags: *mut c_uint, addr: u64) -> i32 {
    let kind = machine().map(|machine| machine.address_kind(addr));
    if flags.is_null() || !matches!(kind, Some(AddressKind::Host(_))) {
        return record_error(INVALID_VALUE);
    }
    // SAFETY: it is not null, and the caller's.
    unsafe { flags.write(0) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaMallocManaged(to: *mut u64, bytes: usize, flags: c_uint) -> i32 {
    // For all streams (1) or for the host's use first (2): one of them.
    if !matches!(flags, 1 | 2) {
        return record_error(INVALID_VALUE);
    }
    // SAFETY: the caller's pointer, by CUDA's contract.
    record_error(unsafe { give_host(to, bytes, HostKind::Managed, flags, flags) })
}

#[crate::entry_point]
extern "C" fn cudaMemAdvise() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaMemAdvise_v2() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaMemPrefetchAsync() -> i32 {
    SUCCESS
}

#[crate::entry_point]
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

#[crate::entry_point]
unsafe extern "C" fn cudaPointerGetAttributes(to: *mut PointerAttributes, addr: u64) -> i32 {
    let Some(machine) = machine().filter(|_| !to.is_null()) else {
        return record_error(INVALID_VALUE);
    };
    let attributes = match machine.address_kind(addr) {
        AddressKind::Device(device) => PointerAttributes {
            kind: 2,
            device: c_int::try_from(device).unwrap_or(0),
            device_pointer: addr,
            host_pointer: 0,
        },
        AddressKind::Host(block) => PointerAttributes {
            kind: if block.kind == HostKind::Managed { 3 } else { 1 },
            device: block.device,
            device_pointer: addr,
            host_pointer: addr,
        },
        AddressKind::Other => {
            PointerAttributes { kind: 0, device: -2, device_pointer: 0, host_pointer: addr }
        }
    };
    // SAFETY: the caller's struct begins with these fields.
    unsafe { put(to, attributes) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaMemcpy(to: u64, from: u64, bytes: usize, kind: c_int) -> i32 {
    record_error(copies::copy_of_kind(to, from, bytes as u64, kind))
}

#[crate::entry_point]
extern "C" fn cudaMemcpyAsync(to: u64, from: u64, bytes: usize, kind: c_int, stream: u64) -> i32 {
    note_work(stream);
    cudaMemcpy(to, from, bytes, kind)
}

#[crate::entry_point]
extern "C" fn cudaMemcpyPeer(to: u64, at: c_int, from: u64, of: c_int, bytes: usize) -> i32 {
    let count = machine().map_or(0, Machine::device_count);
    let is_device = |device: c_int| usize::try_from(device).is_ok_and(|device| device < count);
    if !is_device(at) || !is_device(of) {
        return record_error(INVALID_DEVICE);
    }
    record_error(copies::copy(to, from, bytes as u64, Direction::ON_DEVICES))
}

#[crate::entry_point]
extern "C" fn cudaMemcpyPeerAsync(
    to: u64,
    to_device: c_int,
    from: u64,
    from_device: c_int,
    bytes: usize,
    stream: u64,
) -> i32 {
    note_work(stream);
    cudaMemcpyPeer(to, to_device, from, from_device, bytes)
}

#[crate::entry_point]
extern "C" fn cudaMemcpy2D(
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> i32 {
    let to = Rows { addr: to, pitch: to_pitch as u64 };
    let from = Rows { addr: from, pitch: from_pitch as u64 };
    record_error(copies::copy_rows(to, from, width as u64, height as u64, kind))
}

#[crate::entry_point]
extern "C" fn cudaMemcpy2DAsync(
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
    cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind)
}

#[crate::entry_point]
extern "C" fn cudaMemset(to: u64, value: c_int, bytes: usize) -> i32 {
    record_error(copies::fill(to, value.to_le_bytes()[0], bytes as u64))
}

#[crate::entry_point]
extern "C" fn cudaMemsetAsync(to: u64, value: c_int, bytes: usize, stream: u64) -> i32 {
    note_work(stream);
    cudaMemset(to, value, bytes)
}

#[crate::entry_point]
extern "C" fn cudaMemset2D(
    to: u64,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> i32 {
    let to = Rows { addr: to, pitch: pitch as u64 };
    record_error(copies::fill_rows(to, value.to_le_bytes()[0], width as u64, height as u64))
}

#[crate::entry_point]
extern "C" fn cudaMemset2DAsync(
    to: u64,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: u64,
) -> i32 {
    note_work(stream);
    cudaMemset2D(to, pitch, value, width, height)
}
