//! Links between devices: all are the same, and NVLink connects them if the profile has it.

use std::ffi::{c_int, c_uint, c_ulong};
use std::thread::available_parallelism;

use floodmark_phantom_control::Settings;

use super::{INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, device_of, put_fact};
use crate::machine::machine;
use crate::status::put;

/// `nvmlGpuP2PCapsIndex_t`: over NVLink, and atomic operations, which PCIe does not have.
const OVER_NVLINK: c_int = 2;
const ATOMICS: c_int = 3;
/// `nvmlGpuP2PStatus_t`.
const P2P_OK: c_int = 0;
const P2P_NOT_SUPPORTED: c_int = 5;
/// `nvmlGpuTopologyLevel_t`: the same device; all devices of one NUMA node.
const SAME_DEVICE: c_int = 0;
const SAME_NODE: c_int = 40;
/// `nvmlIntNvLinkDeviceType_t`: links lead to a switch.
const SWITCH: c_int = 2;

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    one: u64,
    other: u64,
    which: c_int,
    status: *mut c_int,
) -> i32 {
    if device_of(other).is_none() {
        return INVALID_ARGUMENT;
    }
    let needs_link = matches!(which, OVER_NVLINK | ATOMICS);
    let found = |known: &Settings| {
        if needs_link && known.nvlinks == 0 { P2P_NOT_SUPPORTED } else { P2P_OK }
    };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(one, status, found) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    one: u64,
    other: u64,
    level: *mut c_int,
) -> i32 {
    if device_of(other).is_none() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(one, level, |_| if one == other { SAME_DEVICE } else { SAME_NODE }) }
}

/// Stores a number of a link.
unsafe fn put_link_fact<T>(handle: u64, link: c_uint, to: *mut T, fact: T) -> i32 {
    let (Some(machine), Some(_)) = (machine(), device_of(handle)) else { return INVALID_ARGUMENT };
    match machine.settings.nvlinks {
        0 => NOT_SUPPORTED,
        links if link >= links => INVALID_ARGUMENT,
        _ => {
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, fact) };
            SUCCESS
        }
    }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetNvLinkState(handle: u64, link: c_uint, on: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_link_fact(handle, link, on, 1) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetNvLinkCapability(
    handle: u64,
    link: c_uint,
    _which: c_int,
    has: *mut c_uint,
) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_link_fact(handle, link, has, 1) }
}

/// `nvmlNvlinkVersion_t`: 2.0, 3.0, 4.0 and 5.0 of the generations that have it.
#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetNvLinkVersion(
    handle: u64,
    link: c_uint,
    version: *mut c_uint,
) -> i32 {
    let number = match machine().map_or(0, |machine| machine.settings.capability.0) {
        ..=7 => 2,
        8 => 4,
        9 => 6,
        _ => 7,
    };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_link_fact(handle, link, version, number) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    handle: u64,
    link: c_uint,
    kind: *mut c_int,
) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_link_fact(handle, link, kind, SWITCH) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetNumaNodeId(handle: u64, node: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(handle, node, |_| 0) }
}

/// Every processor of the host is as near as another.
#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetCpuAffinity(
    handle: u64,
    words: c_uint,
    mask: *mut c_ulong,
) -> i32 {
    if device_of(handle).is_none() {
        return INVALID_ARGUMENT;
    }
    let count = available_parallelism().map_or(1, std::num::NonZero::get);
    for word in 0..words as usize {
        let bits = count.saturating_sub(word * 64).min(64);
        let set = if bits == 64 { c_ulong::MAX } else { (1 << bits) - 1 };
        // SAFETY: the caller's array has `words` entries.
        unsafe { mask.add(word).write(set) };
    }
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::super::handle_of;
    use super::*;

    #[test]
    fn a_device_that_is_not_there_has_no_links() {
        let mut status = 7;
        // SAFETY: the result is stored in a local variable.
        let found =
            unsafe { nvmlDeviceGetP2PStatus(handle_of(99), handle_of(98), 2, &raw mut status) };
        assert_eq!((found, status), (INVALID_ARGUMENT, 7));
    }
}
