//! Communicators: the number of ranks, and this process's rank.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use floodmark_cuda_model::library_memory::{
    Communicator as CommunicatorMemory, LARGE_MESSAGE, Use,
};

use super::{INVALID_ARGUMENT, SUCCESS, UNHANDLED_CUDA_ERROR, UniqueId};
use crate::guard::ConstOrNull;
use crate::guard::refuse;
use crate::machine::{current_device, hold, release_held};
use crate::status::put;
use crate::streams::new_handle;

/// A rank that is in no group of a split.
const NO_COLOR: c_int = -1;

/// What is known about a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Communicator {
    pub(super) ranks: u64,
    pub(super) rank: u64,
    device: usize,
    memory: CommunicatorMemory,
    /// Whether it has the buffers for large messages.
    has_large_messages: bool,
}

impl Communicator {
    /// One on a device, with what the environment says about its memory. `None` when the device is full.
    fn on(device: usize, ranks: u64, rank: u64) -> Option<Self> {
        let number = |name: &str| std::env::var(name).ok()?.trim().parse::<u64>().ok();
        let usual = CommunicatorMemory::default();
        let memory = CommunicatorMemory {
            channels: number("NCCL_MAX_NCHANNELS").unwrap_or(usual.channels),
            uses_virtual_memory: number("NCCL_CUMEM_ENABLE") != Some(0),
        };
        let made = Self { ranks, rank, device, memory, has_large_messages: false };
        hold(device, Use::Communicator(memory)).then_some(made)
    }
}

/// All communicators, and how many ranks the groups of coming splits have.
#[derive(Debug, Default)]
struct Registry {
    communicators: BTreeMap<u64, Communicator>,
    sizes: BTreeMap<c_int, u64>,
    next_size: Option<u64>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    communicators: BTreeMap::new(),
    sizes: BTreeMap::new(),
    next_size: None,
});

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message of that many bytes is sent: the first large one to other ranks needs buffers. `false` when the device is full.
pub(super) fn send(handle: u64, bytes: u64) -> bool {
    let mut registry = registry();
    let Some(found) = registry.communicators.get_mut(&handle) else { return true };
    if found.has_large_messages || found.ranks == 1 || bytes < LARGE_MESSAGE {
        return true;
    }
    found.has_large_messages = hold(found.device, Use::LargeMessages);
    found.has_large_messages
}

/// The communicator of that handle.
pub(super) fn find(handle: u64) -> Option<Communicator> {
    registry().communicators.get(&handle).copied()
}

/// Makes one of `ranks` ranks.
///
/// # Safety
/// `to` is null or can be written to.
unsafe fn create(to: *mut u64, ranks: u64, rank: u64) -> i32 {
    if rank >= ranks {
        return INVALID_ARGUMENT;
    }
    let Some(communicator) = Communicator::on(current_device(), ranks, rank) else {
        return UNHANDLED_CUDA_ERROR;
    };
    let handle = new_handle();
    registry().communicators.insert(handle, communicator);
    // SAFETY: by this function's contract.
    unsafe { put(to, handle) };
    SUCCESS
}

/// The same, for numbers that a caller gave.
unsafe fn create_checked(to: *mut u64, ranks: c_int, rank: c_int) -> i32 {
    match (u64::try_from(ranks), u64::try_from(rank)) {
        // SAFETY: the same contract.
        (Ok(ranks), Ok(rank)) => unsafe { create(to, ranks, rank) },
        _ => INVALID_ARGUMENT,
    }
}

/// How many ranks the group of a coming split has: that with this color, or, for -1, one with an
/// unknown color, until 0 is set.
///
/// NCCL receives it from the other ranks; here the Python front sets it.
#[crate::entry_point]
pub extern "C" fn floodmark_phantom_group_size(color: c_int, ranks: u64) {
    let mut registry = registry();
    if color == NO_COLOR {
        registry.next_size = (ranks > 0).then_some(ranks);
    } else {
        registry.sizes.insert(color, ranks);
    }
}

#[crate::entry_point]
unsafe extern "C" fn ncclCommInitRank(to: *mut u64, ranks: c_int, _: UniqueId, rank: c_int) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { create_checked(to, ranks, rank) }
}

#[crate::entry_point]
unsafe extern "C" fn ncclCommInitRankConfig(
    to: *mut u64,
    ranks: c_int,
    _id: UniqueId,
    rank: c_int,
    _config: *const c_void,
) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { create_checked(to, ranks, rank) }
}

#[crate::entry_point]
unsafe extern "C" fn ncclCommInitRankScalable(
    to: *mut u64,
    ranks: c_int,
    rank: c_int,
    _id_count: c_int,
    _ids: *const UniqueId,
    _config: *const c_void,
) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { create_checked(to, ranks, rank) }
}

/// One communicator for each device of this process.
#[crate::entry_point]
unsafe extern "C" fn ncclCommInitAll(
    to: *mut u64,
    count: c_int,
    devices: ConstOrNull<c_int>,
) -> i32 {
    let Ok(ranks) = usize::try_from(count) else { return INVALID_ARGUMENT };
    for rank in 0..ranks {
        // SAFETY: the caller's arrays have `count` entries, and the second may be missing.
        let (to, device) = unsafe {
            (to.add(rank), if devices.is_null() { None } else { Some(*devices.add(rank)) })
        };
        let device = device.map_or(Some(rank), |device| usize::try_from(device).ok());
        let Some(device) = device else { return INVALID_ARGUMENT };
        let Some(communicator) = Communicator::on(device, ranks as u64, rank as u64) else {
            return UNHANDLED_CUDA_ERROR;
        };
        let handle = new_handle();
        registry().communicators.insert(handle, communicator);
        // SAFETY: the caller's array has `count` entries.
        unsafe { put(to, handle) };
    }
    SUCCESS
}

/// `key` orders the ranks of a group; torch passes the rank that this process is to have in it.
#[crate::entry_point]
pub(super) unsafe extern "C" fn ncclCommSplit(
    from: u64,
    color: c_int,
    key: c_int,
    to: *mut u64,
    _config: *const c_void,
) -> i32 {
    if find(from).is_none() {
        return INVALID_ARGUMENT;
    }
    if color == NO_COLOR {
        // SAFETY: the caller's pointer, by NCCL's contract.
        unsafe { put(to, 0) };
        return SUCCESS;
    }
    let size = {
        let registry = registry();
        registry.sizes.get(&color).copied().or(registry.next_size)
    };
    let Some(ranks) = size else {
        return refuse("nccl", "ncclCommSplit", super::INVALID_USAGE);
    };
    let Ok(rank) = u64::try_from(key) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { create(to, ranks, rank) }
}

/// A communicator without some of its ranks.
#[crate::entry_point]
unsafe extern "C" fn ncclCommShrink(
    from: u64,
    excluded: *const c_int,
    excluded_count: c_int,
    to: *mut u64,
    _config: *const c_void,
    _flags: c_int,
) -> i32 {
    let (Some(parent), Ok(count)) = (find(from), usize::try_from(excluded_count)) else {
        return INVALID_ARGUMENT;
    };
    let excluded = if count == 0 {
        &[]
    } else {
        // SAFETY: the caller's array has that many entries, by NCCL's contract.
        unsafe { std::slice::from_raw_parts(excluded, count) }
    };
    let before = excluded.iter().filter(|&&r| u64::try_from(r).is_ok_and(|r| r < parent.rank));
    let rank = parent.rank - before.count() as u64;
    let Some(ranks) = parent.ranks.checked_sub(count as u64) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { create(to, ranks, rank) }
}

#[crate::entry_point]
extern "C" fn ncclCommFinalize(_communicator: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclCommDestroy(communicator: u64) -> i32 {
    let gone = registry().communicators.remove(&communicator);
    if let Some(gone) = gone {
        release_held(gone.device, Use::Communicator(gone.memory));
        if gone.has_large_messages {
            release_held(gone.device, Use::LargeMessages);
        }
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclCommAbort(communicator: u64) -> i32 {
    ncclCommDestroy(communicator)
}

#[crate::entry_point]
extern "C" fn ncclCommRevoke(_communicator: u64, _flags: c_int) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn ncclCommGetAsyncError(_communicator: u64, error: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put(error, SUCCESS) };
    SUCCESS
}

/// Stores a fact about a communicator.
unsafe fn put_fact(handle: u64, to: *mut c_int, fact: fn(Communicator) -> u64) -> i32 {
    let found = find(handle).map(fact).and_then(|fact| c_int::try_from(fact).ok());
    let Some(found) = found else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put(to, found) };
    SUCCESS
}

#[crate::entry_point]
pub(super) unsafe extern "C" fn ncclCommCount(communicator: u64, count: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put_fact(communicator, count, |found| found.ranks) }
}

#[crate::entry_point]
unsafe extern "C" fn ncclCommUserRank(communicator: u64, rank: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put_fact(communicator, rank, |found| found.rank) }
}

#[crate::entry_point]
unsafe extern "C" fn ncclCommCuDevice(communicator: u64, device: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put_fact(communicator, device, |found| found.device as u64) }
}

/// Buffers may be registered; nothing depends on it.
#[crate::entry_point]
unsafe extern "C" fn ncclCommRegister(_: u64, _buffer: u64, _bytes: usize, to: *mut u64) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclCommDeregister(_communicator: u64, _registration: u64) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn ncclCommWindowRegister(
    _communicator: u64,
    _buffer: u64,
    _bytes: usize,
    window: *mut u64,
    _flags: c_int,
) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract.
    unsafe { put(window, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclCommWindowDeregister(_communicator: u64, _window: u64) -> i32 {
    SUCCESS
}

/// A communicator for tests.
#[cfg(test)]
pub(super) fn made(ranks: u64, rank: u64) -> u64 {
    let mut handle = 0;
    // SAFETY: the result is stored in a local variable.
    assert_eq!(unsafe { create(&raw mut handle, ranks, rank) }, SUCCESS);
    handle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(handle: u64) -> (c_int, c_int) {
        let (mut count, mut rank) = (0, 0);
        // SAFETY: the results are stored in local variables.
        unsafe {
            assert_eq!(ncclCommCount(handle, &raw mut count), SUCCESS);
            assert_eq!(ncclCommUserRank(handle, &raw mut rank), SUCCESS);
        }
        (count, rank)
    }

    #[test]
    fn a_communicator_has_its_rank_and_world_size() {
        let handle = made(1024, 1023);
        assert_eq!(facts(handle), (1024, 1023));
        assert_eq!(ncclCommDestroy(handle), SUCCESS);
        assert_eq!(find(handle), None);
    }

    #[test]
    fn a_rank_outside_of_the_world_is_refused() {
        let mut handle = 0;
        // SAFETY: the result is stored in a local variable.
        assert_eq!(unsafe { create_checked(&raw mut handle, 4, 4) }, INVALID_ARGUMENT);
        // SAFETY: the same.
        assert_eq!(unsafe { create_checked(&raw mut handle, 4, -1) }, INVALID_ARGUMENT);
    }

    #[test]
    fn a_split_has_the_size_set_for_its_color() {
        let (parent, mut child) = (made(64, 9), 0);
        let split = |color, to: *mut u64| {
            // SAFETY: the result is stored in a local variable.
            unsafe { ncclCommSplit(parent, color, 1, to, std::ptr::null()) }
        };
        assert_eq!(split(77, &raw mut child), super::super::INVALID_USAGE, "its size is unknown");
        floodmark_phantom_group_size(77, 8);
        floodmark_phantom_group_size(NO_COLOR, 16);
        assert_eq!(split(77, &raw mut child), SUCCESS);
        assert_eq!(facts(child), (8, 1));
        assert_eq!(split(78, &raw mut child), SUCCESS);
        assert_eq!(facts(child), (16, 1), "the size for unknown colors");
        floodmark_phantom_group_size(NO_COLOR, 0);
        assert_eq!(split(78, &raw mut child), super::super::INVALID_USAGE);
        assert_eq!(split(NO_COLOR, &raw mut child), SUCCESS);
        assert_eq!(child, 0, "a rank without color is in no group");
    }

    #[test]
    fn ranks_move_up_when_others_leave() {
        let (parent, mut child) = (made(8, 5), 0);
        let gone = [1, 6, 2];
        // SAFETY: the array has three entries; the result is stored in a local variable.
        let status = unsafe {
            ncclCommShrink(parent, gone.as_ptr(), 3, &raw mut child, std::ptr::null(), 0)
        };
        assert_eq!(status, SUCCESS);
        assert_eq!(facts(child), (5, 3));
    }
}
