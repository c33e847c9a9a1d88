//! Copies between host and devices, and filling.
//!
//! A copy onto a device is kept where it may be asked for again; a copy off a device brings what is there
//! and zeros for the rest. Large copies (weights, mostly) are not kept: they would need as much memory as
//! the device has.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::answer;
use crate::contents::{Surety, contents};
use crate::machine::machine;
use crate::memory::discard;

/// A copy of more than this is not kept.
const LARGEST_KEPT: u64 = 32 << 20;
/// When so much was kept, only small copies are.
const ALL_KEPT: u64 = 1 << 30;
const ALWAYS_KEPT: u64 = 64 << 10;

static KEPT: AtomicU64 = AtomicU64::new(0);

/// Copies, whichever side the addresses are on.
///
/// # Safety
/// What is on the host must be there: `from` readable, `to` writable, for `length` bytes.
pub(crate) unsafe fn copy(to: u64, from: u64, length: u64) {
    if length == 0 {
        return;
    }
    let Some(machine) = machine() else { return };
    match (machine.device_of(to).is_some(), machine.device_of(from).is_some()) {
        // SAFETY: both are on the host, by this function's contract.
        (false, false) => unsafe { copy_bytes(to, from, length) },
        // SAFETY: the source is readable by this function's contract, the device's addresses are ours.
        (true, false) => unsafe { copy_in(to, from, length) },
        // SAFETY: the target is writable by this function's contract, the device's addresses are ours.
        (false, true) => unsafe { copy_out(to, from, length) },
        (true, true) => copy_across(to, from, length),
    }
}

/// `cudaMemset`: a value that is known afterwards.
pub(crate) fn fill(to: u64, value: u8, length: u64) {
    if length == 0 || machine().and_then(|machine| machine.device_of(to)).is_none() {
        return;
    }
    if length > LARGEST_KEPT && value != 0 {
        return contents().forget(to, length);
    }
    if value == 0 && length > ALWAYS_KEPT {
        discard(to, length);
        zero_edges(to, length);
    } else if let Ok(length) = usize::try_from(length) {
        // SAFETY: the range is a device's, which is private memory of ours that can be written.
        unsafe { std::ptr::write_bytes(to as *mut u8, value, length) };
    }
    contents().set(to, length, Surety::Known);
}

/// A discarded range has whole pages only: the ends are set to zero by hand.
fn zero_edges(to: u64, length: u64) {
    let head = (4096 - to % 4096) % 4096;
    let tail = (to + length) % 4096;
    // SAFETY: both ends are inside the range, which is a device's.
    unsafe {
        std::ptr::write_bytes(to as *mut u8, 0, usize::try_from(head).unwrap_or(0));
        let from = (to + length - tail) as *mut u8;
        std::ptr::write_bytes(from, 0, usize::try_from(tail).unwrap_or(0));
    }
}

unsafe fn copy_in(to: u64, from: u64, length: u64) {
    let is_kept = length <= ALWAYS_KEPT
        || (length <= LARGEST_KEPT && KEPT.load(Ordering::Relaxed) < ALL_KEPT);
    if !is_kept {
        return contents().forget(to, length);
    }
    KEPT.fetch_add(length, Ordering::Relaxed);
    // SAFETY: the caller's contract for the source; the target is a device's, which is ours.
    unsafe { copy_bytes(to, from, length) };
    contents().set(to, length, Surety::Known);
}

unsafe fn copy_out(to: u64, from: u64, length: u64) {
    // It comes first: an operator's own memory may lie where a value was before.
    if let Some(answer) = answer::given(length) {
        // SAFETY: the answer has eight bytes, and the target at least as many as are copied.
        return unsafe { copy_bytes(to, answer.as_ptr() as u64, length) };
    }
    let contents = contents();
    if !matches!(contents.surety(from, length), Surety::Nothing | Surety::Sampled) {
        // SAFETY: the caller's contract for the target; the source is a device's, with a value in it.
        return unsafe { copy_bytes(to, from, length) };
    }
    answer::note_unanswered(length);
    let Ok(bytes) = usize::try_from(length) else { return };
    // SAFETY: the caller's contract for the target.
    unsafe { std::ptr::write_bytes(to as *mut u8, 0, bytes) };
    for (start, length, _) in contents.pieces(from, length) {
        // SAFETY: the piece lies in the range that is copied.
        unsafe { copy_bytes(to + (start - from), start, length) };
    }
}

fn copy_across(to: u64, from: u64, length: u64) {
    let mut contents = contents();
    let pieces = contents.pieces(from, length);
    contents.forget(to, length);
    for (start, length, surety) in pieces {
        let target = to + (start - from);
        // SAFETY: both ranges are devices', which is private memory of ours.
        unsafe { copy_bytes(target, start, length) };
        contents.set(target, length, surety);
    }
}

unsafe fn copy_bytes(to: u64, from: u64, length: u64) {
    let Ok(length) = usize::try_from(length) else { return };
    // SAFETY: the caller's contract; the ranges may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, length) };
}
