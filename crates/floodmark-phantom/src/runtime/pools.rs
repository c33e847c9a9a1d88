//! Memory that is ordered by streams: `cudaMallocAsync` and pools.
//!
//! A pool allocates memory of its device and keeps what is freed, up to its threshold; here it frees
//! everything at once and reports its peak as kept, as torch's threshold would.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use super::memory::{allocate, give, release};
use crate::machine::current_device;
use crate::status::{INVALID_VALUE, SUCCESS, put, record_error};
use crate::streams::{new_handle, note_work};

#[derive(Debug, Clone, Copy, Default)]
struct Pool {
    device: usize,
    threshold: u64,
    used: u64,
    most_used: u64,
    reserved: u64,
    most_reserved: u64,
}

#[derive(Debug, Default)]
struct Pools {
    by_handle: BTreeMap<u64, Pool>,
    /// The default pool of each device.
    default: BTreeMap<usize, u64>,
    blocks: BTreeMap<u64, (u64, u64)>,
}

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);
const CHUNK: u64 = 32 << 20;

fn with<T>(f: impl FnOnce(&mut Pools) -> T) -> T {
    let mut guard = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    f(guard.get_or_insert_default())
}

impl Pools {
    fn create(&mut self, device: usize) -> u64 {
        let handle = new_handle();
        self.by_handle.insert(handle, Pool { device, ..Pool::default() });
        handle
    }

    fn default_of(&mut self, device: usize) -> u64 {
        if let Some(&handle) = self.default.get(&device) {
            return handle;
        }
        let handle = self.create(device);
        self.default.insert(device, handle);
        handle
    }

    fn allocate(&mut self, pool: u64, bytes: u64) -> Option<u64> {
        let state = self.by_handle.get_mut(&pool)?;
        let addr = allocate(state.device, bytes)?;
        state.used += bytes;
        state.most_used = state.most_used.max(state.used);
        state.reserved = state.reserved.max(state.used.next_multiple_of(CHUNK));
        state.most_reserved = state.most_reserved.max(state.reserved);
        self.blocks.insert(addr, (pool, bytes));
        Some(addr)
    }

    fn release(&mut self, addr: u64) -> bool {
        if let Some((pool, bytes)) = self.blocks.remove(&addr)
            && let Some(state) = self.by_handle.get_mut(&pool)
        {
            state.used -= bytes;
            let kept = state.used.max(state.threshold.min(state.reserved));
            state.reserved = kept.next_multiple_of(CHUNK).min(state.reserved);
        }
        release(addr)
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaMallocAsync(to: *mut u64, bytes: usize, stream: u64) -> i32 {
    let pool = with(|pools| pools.default_of(current_device()));
    // SAFETY: the same contract.
    unsafe { cudaMallocFromPoolAsync(to, bytes, pool, stream) }
}

#[crate::entry_point]
unsafe extern "C" fn cudaMallocFromPoolAsync(
    to: *mut u64,
    bytes: usize,
    pool: u64,
    stream: u64,
) -> i32 {
    note_work(stream);
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { give(to, with(|pools| pools.allocate(pool, bytes as u64))) }
}

#[crate::entry_point]
extern "C" fn cudaFreeAsync(addr: u64, stream: u64) -> i32 {
    note_work(stream);
    if addr == 0 || with(|pools| pools.release(addr)) {
        SUCCESS
    } else {
        record_error(INVALID_VALUE)
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudaMemPoolCreate(to: *mut u64, _properties: *const u8) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, with(|pools| pools.create(current_device()))) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaMemPoolDestroy(pool: u64) -> i32 {
    with(|pools| pools.by_handle.remove(&pool));
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetDefaultMemPool(to: *mut u64, device: c_int) -> i32 {
    let Ok(device) = usize::try_from(device) else { return record_error(INVALID_VALUE) };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(to, with(|pools| pools.default_of(device))) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetMemPool(to: *mut u64, device: c_int) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaDeviceGetDefaultMemPool(to, device) }
}

#[crate::entry_point]
extern "C" fn cudaDeviceSetMemPool(device: c_int, pool: u64) -> i32 {
    let Ok(device) = usize::try_from(device) else { return record_error(INVALID_VALUE) };
    with(|pools| pools.default.insert(device, pool));
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaMemPoolSetAttribute(pool: u64, which: c_int, value: *const u64) -> i32 {
    if which < 4 {
        return SUCCESS; // when memory may be used again: always, here
    }
    // SAFETY: the attributes from here on are numbers of eight bytes.
    let value = unsafe { value.read() };
    with(|pools| {
        let Some(state) = pools.by_handle.get_mut(&pool) else {
            return record_error(INVALID_VALUE);
        };
        match which {
            4 => state.threshold = value,
            6 => state.most_reserved = state.reserved,
            8 => state.most_used = state.used,
            _ => return record_error(INVALID_VALUE),
        }
        SUCCESS
    })
}

#[crate::entry_point]
unsafe extern "C" fn cudaMemPoolGetAttribute(pool: u64, which: c_int, value: *mut u64) -> i32 {
    let state = with(|pools| pools.by_handle.get(&pool).copied());
    let Some(state) = state else { return record_error(INVALID_VALUE) };
    let found = match which {
        4 => state.threshold,
        5 => state.reserved,
        6 => state.most_reserved,
        7 => state.used,
        8 => state.most_used,
        _ => {
            // SAFETY: the attributes below four are numbers of four bytes.
            unsafe { put(value.cast::<c_int>(), 1) };
            return SUCCESS;
        }
    };
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(value, found) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaMemPoolTrimTo(pool: u64, keep: usize) -> i32 {
    with(|pools| {
        if let Some(state) = pools.by_handle.get_mut(&pool) {
            let least = state.used.max(keep as u64).next_multiple_of(CHUNK);
            state.reserved = state.reserved.min(least);
        }
    });
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaMemPoolSetAccess() -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaDeviceGetGraphMemAttribute(
    _device: c_int,
    _which: c_int,
    value: *mut u64,
) -> i32 {
    // SAFETY: the caller's pointer, by CUDA's contract.
    unsafe { put(value, 0) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaDeviceSetGraphMemAttribute() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudaDeviceGraphMemTrim() -> i32 {
    SUCCESS
}
