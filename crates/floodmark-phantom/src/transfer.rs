//! Copies between host and devices, and filling.
//!
//! A copy to a device is kept if it may be read again; a copy from a device returns the known bytes and
//! zeros for the rest. Large copies (weights, mostly) are not kept: they would need as much memory as the
//! device has.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::answer;
use crate::contents::{Certainty, contents};
use crate::host_memory;
use crate::machine::{AddressKind, Extent, HostKind, machine};
use crate::memory::discard;

/// A copy of more than this is not kept.
const LARGEST_KEPT: u64 = 32 << 20;
/// When this much was kept, only small copies are kept.
const ALL_KEPT: u64 = 1 << 30;
const ALWAYS_KEPT: u64 = 64 << 10;

static KEPT: AtomicU64 = AtomicU64::new(0);

/// Copies between any two sides. A device's range must be allocated; `false` if the host's cannot be read or
/// written.
pub(crate) fn copy(to: u64, from: u64, length: u64) -> bool {
    let Some(machine) = machine() else { return false };
    if length == 0 {
        return true;
    }
    match (machine.device_of(to).is_some(), machine.device_of(from).is_some()) {
        (false, false) => host_memory::copy(to, from, length),
        (true, false) => copy_in(to, from, length),
        (false, true) => copy_out(to, from, length),
        (true, true) => {
            copy_across(to, from, length);
            true
        }
    }
}

/// `cudaMemset`: the bytes then have a known value. `false` when the host's memory cannot be
/// written.
pub(crate) fn fill(to: u64, value: u8, length: u64) -> bool {
    if length == 0 {
        return true;
    }
    if machine().and_then(|machine| machine.device_of(to)).is_none() {
        return host_memory::fill(to, value, length);
    }
    if length > LARGEST_KEPT && value != 0 {
        contents().forget(to, length);
        return true;
    }
    if value == 0 && length > ALWAYS_KEPT {
        discard(to, length);
        zero_edges(to, length);
    } else if let Ok(length) = usize::try_from(length) {
        // SAFETY: the range is a device's, which is private memory of ours that can be written.
        unsafe { std::ptr::write_bytes(to as *mut u8, value, length) };
    }
    contents().set(to, length, Certainty::Known);
    true
}

/// A discarded range has whole pages only: the ends are set to zero by hand.
fn zero_edges(to: u64, length: u64) {
    let head = (4096 - to % 4096) % 4096;
    let tail = (to + length) % 4096;
    // SAFETY: both ends are inside the range, which is a device's, or pinned memory of ours.
    unsafe {
        std::ptr::write_bytes(to as *mut u8, 0, usize::try_from(head).unwrap_or(0));
        let from = (to + length - tail) as *mut u8;
        std::ptr::write_bytes(from, 0, usize::try_from(tail).unwrap_or(0));
    }
}

fn copy_in(to: u64, from: u64, length: u64) -> bool {
    let is_kept = length <= ALWAYS_KEPT
        || (length <= LARGEST_KEPT && KEPT.load(Ordering::Relaxed) < ALL_KEPT);
    if !is_kept {
        contents().forget(to, length);
        return host_memory::is_readable(from, length);
    }
    if !host_memory::copy(to, from, length) {
        contents().forget(to, length);
        return false;
    }
    KEPT.fetch_add(length, Ordering::Relaxed);
    contents().set(to, length, Certainty::Known);
    true
}

fn copy_out(to: u64, from: u64, length: u64) -> bool {
    // Checked first: an operator's own memory may reuse the address of an old value.
    if let Some(answer) = answer::given(length) {
        return host_memory::copy(to, answer.as_ptr() as u64, length);
    }
    let contents = contents();
    if !matches!(contents.certainty(from, length), Certainty::Nothing | Certainty::Sampled) {
        return host_memory::copy(to, from, length);
    }
    answer::note_unanswered(length);
    let pieces = contents.pieces(from, length);
    zero_host(to, length)
        && pieces
            .into_iter()
            .all(|(start, length, _)| host_memory::copy(to + (start - from), start, length))
}

/// Sets memory of the host to zero. Pinned memory that is ours gets fresh pages, which use no memory until the
/// program writes to them: offloaded activations and optimizer states may exceed the host's memory.
fn zero_host(to: u64, length: u64) -> bool {
    let is_ours = length > ALWAYS_KEPT
        && machine().is_some_and(|machine| {
            let kind = machine.address_kind(to);
            matches!(kind, AddressKind::Host(block) if block.kind == HostKind::Allocated)
                && machine.extent(to, length) == Extent::Within
        });
    if is_ours && discard(to, length) {
        zero_edges(to, length);
        return true;
    }
    host_memory::fill(to, 0, length)
}

fn copy_across(to: u64, from: u64, length: u64) {
    let mut contents = contents();
    let pieces = contents.pieces(from, length);
    contents.forget(to, length);
    for (start, length, certainty) in pieces {
        let target = to + (start - from);
        // SAFETY: both ranges are devices', which is private memory of ours.
        unsafe { copy_bytes(target, start, length) };
        contents.set(target, length, certainty);
    }
}

unsafe fn copy_bytes(to: u64, from: u64, length: u64) {
    let Ok(length) = usize::try_from(length) else { return };
    // SAFETY: the caller's contract; the ranges may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, length) };
}
