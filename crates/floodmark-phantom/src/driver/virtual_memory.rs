//! Separate addresses and memory, as expandable segments use them.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use floodmark_cuda_model::PAGE_BYTES;

use crate::machine::{current_device, machine};
use crate::memory::reserve;
use crate::runtime::forget;
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, put};
use crate::streams::new_handle;

/// Memory without an address.
#[derive(Debug, Clone, Copy)]
struct Piece {
    device: usize,
    bytes: u64,
    /// How often it is mapped, whether it ever was, and whether its handle is held.
    maps: u32,
    was_mapped: bool,
    is_held: bool,
}

#[derive(Debug, Default)]
struct Pieces {
    pieces: HashMap<u64, Piece>,
    /// The memory that is mapped at an address, and its length.
    mapped: HashMap<u64, (u64, u64)>,
}

static PIECES: Mutex<Option<Pieces>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Pieces) -> T) -> T {
    let mut guard = PIECES.lock().unwrap_or_else(PoisonError::into_inner);
    f(guard.get_or_insert_default())
}

impl Pieces {
    /// Frees the memory when nothing refers to it any more.
    fn release_unused(&mut self, handle: u64) {
        let is_unused = |piece: &&Piece| piece.maps == 0 && !piece.is_held;
        if let Some(&piece) = self.pieces.get(&handle).filter(is_unused) {
            self.pieces.remove(&handle);
            if let Some(mut memory) = machine().and_then(|machine| machine.memory(piece.device)) {
                memory.release_created(piece.bytes, piece.was_mapped);
            }
        }
    }
}

/// The part of `CUmemAllocationProp` that is read.
#[repr(C)]
struct Properties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location_id: c_int,
}

#[crate::entry_point]
unsafe extern "C" fn cuMemGetAllocationGranularity(
    bytes: *mut usize,
    _properties: *const Properties,
    _option: c_int,
) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(bytes, usize::try_from(PAGE_BYTES).unwrap_or(0)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuMemAddressReserve(
    to: *mut u64,
    bytes: usize,
    alignment: usize,
    _addr: u64,
    _flags: u64,
) -> i32 {
    let Some(machine) = machine() else { return INVALID_VALUE };
    let Some(addr) = reserve(bytes as u64, (alignment as u64).max(PAGE_BYTES)) else {
        return OUT_OF_MEMORY;
    };
    machine.reserved().insert(addr, (bytes as u64, current_device()));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, addr) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuMemAddressFree(addr: u64, _bytes: usize) -> i32 {
    let Some(machine) = machine() else { return INVALID_VALUE };
    let Some((bytes, _)) = machine.reserved().remove(&addr) else { return INVALID_VALUE };
    forget(addr, bytes);
    let Ok(bytes) = usize::try_from(bytes) else { return INVALID_VALUE };
    // SAFETY: the range was mapped by `reserve` and no longer belongs to the program.
    unsafe { libc::munmap(addr as *mut c_void, bytes) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuMemCreate(
    handle: *mut u64,
    bytes: usize,
    properties: *const Properties,
    _flags: u64,
) -> i32 {
    // SAFETY: the caller's struct begins with these fields.
    let id = unsafe { (*properties).location_id };
    let Some(machine) = machine() else { return INVALID_VALUE };
    let device = usize::try_from(id).unwrap_or(0);
    let bytes = (bytes as u64).next_multiple_of(PAGE_BYTES);
    let Some(mut memory) = machine.memory(device) else { return INVALID_VALUE };
    if !memory.create(bytes) {
        return OUT_OF_MEMORY;
    }
    // Others lock the memory while they hold the pieces.
    drop(memory);
    let made = new_handle();
    let piece = Piece { device, bytes, maps: 0, was_mapped: false, is_held: true };
    with(|all| all.pieces.insert(made, piece));
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(handle, made) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cuMemRelease(handle: u64) -> i32 {
    with(|all| {
        let Some(piece) = all.pieces.get_mut(&handle) else { return INVALID_VALUE };
        piece.is_held = false;
        all.release_unused(handle);
        SUCCESS
    })
}

#[crate::entry_point]
extern "C" fn cuMemMap(addr: u64, bytes: usize, _offset: usize, handle: u64, _flags: u64) -> i32 {
    with(|all| {
        let Some(piece) = all.pieces.get_mut(&handle) else { return INVALID_VALUE };
        piece.maps += 1;
        if !piece.was_mapped {
            piece.was_mapped = true;
            if let Some(mut memory) = machine().and_then(|machine| machine.memory(piece.device)) {
                memory.map_created(piece.bytes);
            }
        }
        all.mapped.insert(addr, (handle, bytes as u64));
        SUCCESS
    })
}

#[crate::entry_point]
extern "C" fn cuMemUnmap(addr: u64, bytes: usize) -> i32 {
    let end = addr + bytes as u64;
    with(|all| {
        let mut at = addr;
        while at < end {
            let Some((handle, length)) = all.mapped.remove(&at) else { return INVALID_VALUE };
            if let Some(piece) = all.pieces.get_mut(&handle) {
                piece.maps -= 1;
            }
            all.release_unused(handle);
            at += length;
        }
        forget(addr, bytes as u64);
        SUCCESS
    })
}

#[crate::entry_point]
extern "C" fn cuMemSetAccess(_addr: u64, _bytes: usize, _access: *const c_void, _n: usize) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cuMemRetainAllocationHandle(handle: *mut u64, addr: u64) -> i32 {
    match with(|all| all.mapped.get(&addr).copied()) {
        // SAFETY: the caller's pointer, by CUDA's contract.
        Some((found, _)) => unsafe {
            put(handle, found);
            SUCCESS
        },
        None => INVALID_VALUE,
    }
}
