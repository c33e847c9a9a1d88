//! Functions that our Python code calls, by name.

use std::ffi::{c_char, c_int};

use floodmark_cuda_model::library_memory::Library;
use floodmark_phantom_control::{Account, AnswerKind, DeviceAccount, Settings};

use crate::answer::Answer;
use crate::contents::{Certainty, contents};
use crate::guard::OrNull;
use crate::machine::{self, machine};
use crate::{answer, loaded_libraries, stand_ins, unsupported};

/// Starts the machine. Zero, or an error in `error`.
///
/// # Safety
/// `settings` has `length` bytes, the JSON of [`Settings`]; `error` has `room` bytes.
#[crate::entry_point]
pub unsafe extern "C" fn floodmark_phantom_start(
    settings: *const u8,
    length: usize,
    error: OrNull<c_char>,
    room: usize,
) -> c_int {
    // SAFETY: by this function's contract.
    let text = unsafe { std::slice::from_raw_parts(settings, length) };
    let settings = serde_json::from_slice::<Settings>(text).map_err(|error| error.to_string());
    let checked = settings.and_then(|settings| {
        settings.check().map_err(|error| error.to_string()).map(|()| settings)
    });
    // SAFETY: by this function's contract.
    unsafe { outcome(checked.and_then(machine::start), error, room) }
}

/// Claims the names of CUDA's libraries, those that no loaded object has. Zero, or an error in `error`.
///
/// # Safety
/// `error` has `room` bytes.
#[crate::entry_point]
pub unsafe extern "C" fn floodmark_phantom_claim(error: OrNull<c_char>, room: usize) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { outcome(stand_ins::load().and_then(|()| loaded_libraries::watch()), error, room) }
}

/// Replaces CUDA in loaded objects. Returns 1 when memory is requested from this library.
#[crate::entry_point(0)]
pub extern "C" fn floodmark_phantom_take_over() -> c_int {
    c_int::from(loaded_libraries::take_over())
}

/// Undoes it.
#[crate::entry_point]
pub extern "C" fn floodmark_phantom_restore() {
    loaded_libraries::restore();
}

unsafe fn outcome(of: Result<(), String>, error: *mut c_char, room: usize) -> c_int {
    match of {
        Ok(()) => 0,
        Err(message) => {
            // SAFETY: by the caller's contract.
            unsafe { put_text(error, room, &message) };
            1
        }
    }
}

/// Writes the [`Account`] so far as JSON; returns the length that it needs.
///
/// # Safety
/// `to` has `room` bytes.
#[crate::entry_point]
pub unsafe extern "C" fn floodmark_phantom_account(to: OrNull<c_char>, room: usize) -> usize {
    let visible = machine().map(super::machine::Machine::visible).unwrap_or_default();
    let device = |(device, &index)| {
        let memory = machine()?.memory(device)?;
        let (capacity, free, peak) = (memory.capacity(), memory.free_bytes(), memory.peak());
        let held = memory.libraries_at_peak();
        let of = |library: Library| (library.name().to_owned(), held.bytes_of(library));
        let all = Library::ALL.into_iter().map(of);
        let libraries_at_peak = all.filter(|&(_, bytes)| bytes > 0).collect();
        Some(DeviceAccount { index, capacity, free, peak, libraries_at_peak })
    };
    let devices = visible.iter().enumerate().filter_map(device).collect();
    let (unanswered_reads, unanswered_bytes) = answer::unanswered();
    let unsupported = unsupported::calls();
    let account = Account { unsupported, unanswered_reads, unanswered_bytes, devices };
    let account = serde_json::to_string(&account).unwrap_or_default();
    // SAFETY: by this function's contract.
    unsafe { put_text(to, room, &account) };
    account.len() + 1
}

/// The certainty of these bytes: 0 nothing, 1 assumed, 2 sampled, 3 random, 4 known.
#[crate::entry_point(0)]
pub extern "C" fn floodmark_phantom_certainty(addr: u64, length: u64) -> c_int {
    contents().certainty(addr, length) as c_int
}

/// Sets how certain the value of these bytes is from now on.
#[crate::entry_point]
pub extern "C" fn floodmark_phantom_set_certainty(addr: u64, length: u64, certainty: c_int) {
    contents().set(addr, length, Certainty::from_number(certainty));
}

/// Sets the assumed value for what this thread reads from now on: a kind of [`AnswerKind`], and its number.
#[crate::entry_point]
pub extern "C" fn floodmark_phantom_answer(kind: c_int, value: i64) {
    answer::give(match AnswerKind::from_number(kind) {
        AnswerKind::Zero => None,
        AnswerKind::Number => Some(Answer::Number(value)),
        AnswerKind::TruthValues => Some(Answer::TruthValues(value.cast_unsigned())),
    });
}

unsafe fn put_text(to: *mut c_char, room: usize, text: &str) {
    if room == 0 || to.is_null() {
        return;
    }
    let length = text.len().min(room - 1);
    // SAFETY: the caller has `room` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
        to.add(length).write(0);
    }
}
