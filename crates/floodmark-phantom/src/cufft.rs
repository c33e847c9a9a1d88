//! cuFFT: transforms are not computed; plans are kept, and the sizes of their work areas returned.
//!
//! `floodmark_cuda_model::fourier` computes these sizes. torch switches automatic allocation off and
//! passes its own work area; otherwise it is allocated here.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use floodmark_cuda_model::fourier::{Transform, work_bytes};
use floodmark_cuda_model::library_memory::Use;

use crate::calls::{does_nothing, type_bytes, version_part};
use crate::machine::{current_device, hold};
use crate::runtime::{allocate, release, version as cuda_version};
use crate::status::{SUCCESS, put};
use crate::streams::{new_handle, note_work};

const INVALID_PLAN: i32 = 1;
const NO_MEMORY: i32 = 2;
const INVALID_VALUE: i32 = 4;

/// A plan: whether it allocates its own work area, its size, and its address.
#[derive(Debug, Clone, Copy)]
struct FftPlan {
    takes_room: bool,
    work_bytes: u64,
    room: Option<u64>,
    stream: u64,
}

static PLANS: Mutex<BTreeMap<c_int, FftPlan>> = Mutex::new(BTreeMap::new());

fn with<T>(f: impl FnOnce(&mut BTreeMap<c_int, FftPlan>) -> T) -> T {
    f(&mut PLANS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A transform by its number in the older interface.
fn transform_of_number(number: c_int) -> Option<Transform> {
    let (is_real, complex_bytes) = match number {
        0x2a | 0x2c => (true, 8),
        0x29 => (false, 8),
        0x6a | 0x6c => (true, 16),
        0x69 => (false, 16),
        _ => return None,
    };
    Some(Transform { is_real, complex_bytes })
}

/// A transform by the types of its input and output, as in the newer interface.
fn transform_of_types(input: c_int, output: c_int) -> Transform {
    let complex_bytes = type_bytes(input).max(type_bytes(output));
    Transform { is_real: input != output, complex_bytes }
}

fn count(number: impl Into<i64>) -> u64 {
    u64::try_from(number.into()).unwrap_or(0)
}

fn create() -> c_int {
    let handle = c_int::try_from(new_handle() / 64).unwrap_or(c_int::MAX);
    let plan = FftPlan { takes_room: true, work_bytes: 0, room: None, stream: 0 };
    with(|plans| plans.insert(handle, plan));
    handle
}

/// Sets the transform of the plan; allocates its work area unless the program does.
fn make(handle: c_int, bytes: u64) -> i32 {
    if !hold(current_device(), Use::FftPlan) {
        return NO_MEMORY;
    }
    with(|plans| {
        let Some(plan) = plans.get_mut(&handle) else { return INVALID_PLAN };
        plan.work_bytes = bytes;
        if plan.takes_room && bytes > 0 {
            plan.room = allocate(current_device(), bytes);
            if plan.room.is_none() {
                return NO_MEMORY;
            }
        }
        SUCCESS
    })
}

unsafe fn make_and_put_size(handle: c_int, bytes: u64, to: *mut usize) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, usize::try_from(bytes).unwrap_or(usize::MAX)) };
    make(handle, bytes)
}

/// The caller's dimensions, of either width.
unsafe fn dimensions<T: Copy + Into<i64>>(rank: c_int, from: *const T) -> Option<Vec<u64>> {
    let rank = usize::try_from(rank).ok().filter(|rank| (1..=3).contains(rank))?;
    // SAFETY: the caller's array has `rank` numbers, by the library's contract.
    Some((0..rank).map(|at| count(unsafe { from.add(at).read() })).collect())
}

#[crate::entry_point]
unsafe extern "C" fn cufftCreate(to: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, create()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cufftDestroy(handle: c_int) -> i32 {
    match with(|plans| plans.remove(&handle)) {
        Some(plan) => {
            plan.room.map(release);
            SUCCESS
        }
        None => INVALID_PLAN,
    }
}

#[crate::entry_point]
extern "C" fn cufftSetAutoAllocation(handle: c_int, is_automatic: c_int) -> i32 {
    with(|plans| match plans.get_mut(&handle) {
        Some(plan) => {
            plan.takes_room = is_automatic != 0;
            SUCCESS
        }
        None => INVALID_PLAN,
    })
}

#[crate::entry_point]
extern "C" fn cufftSetStream(handle: c_int, stream: u64) -> i32 {
    with(|plans| match plans.get_mut(&handle) {
        Some(plan) => {
            plan.stream = stream;
            SUCCESS
        }
        None => INVALID_PLAN,
    })
}

#[crate::entry_point]
unsafe extern "C" fn cufftXtMakePlanMany(
    handle: c_int,
    rank: c_int,
    lengths: *const i64,
    _input_embed: u64,
    _input_stride: i64,
    _input_distance: i64,
    input: c_int,
    _output_embed: u64,
    _output_stride: i64,
    _output_distance: i64,
    output: c_int,
    batch: i64,
    to: *mut usize,
    _execution: c_int,
) -> i32 {
    // SAFETY: the same contract.
    let Some(lengths) = (unsafe { dimensions(rank, lengths) }) else { return INVALID_VALUE };
    let bytes = work_bytes(&lengths, count(batch), transform_of_types(input, output));
    // SAFETY: the same contract.
    unsafe { make_and_put_size(handle, bytes, to) }
}

/// Plans of the older interface, with lengths of either width.
macro_rules! plans_of_many {
    ($($name:ident: $number:ty),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            handle: c_int,
            rank: c_int,
            lengths: *const $number,
            _input_embed: u64,
            _input_stride: $number,
            _input_distance: $number,
            _output_embed: u64,
            _output_stride: $number,
            _output_distance: $number,
            kind: c_int,
            batch: $number,
            to: *mut usize,
        ) -> i32 {
            // SAFETY: the same contract.
            let lengths = unsafe { dimensions(rank, lengths) };
            let (Some(lengths), Some(kind)) = (lengths, transform_of_number(kind)) else {
                return INVALID_VALUE;
            };
            let bytes = work_bytes(&lengths, count(batch), kind);
            // SAFETY: the same contract.
            unsafe { make_and_put_size(handle, bytes, to) }
        }
    )*};
}

plans_of_many! {
    cufftMakePlanMany: c_int, cufftMakePlanMany64: i64,
}

#[crate::entry_point]
unsafe extern "C" fn cufftPlan1d(to: *mut c_int, length: c_int, kind: c_int, batch: c_int) -> i32 {
    let Some(kind) = transform_of_number(kind) else { return INVALID_VALUE };
    let handle = create();
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, handle) };
    make(handle, work_bytes(&[count(length)], count(batch), kind))
}

#[crate::entry_point]
unsafe extern "C" fn cufftGetSize(handle: c_int, to: *mut usize) -> i32 {
    let Some(plan) = with(|plans| plans.get(&handle).copied()) else { return INVALID_PLAN };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, usize::try_from(plan.work_bytes).unwrap_or(usize::MAX)) };
    SUCCESS
}

/// A transform is work of its stream.
fn execute(handle: c_int) -> i32 {
    match with(|plans| plans.get(&handle).copied()) {
        Some(plan) => {
            note_work(plan.stream);
            SUCCESS
        }
        None => INVALID_PLAN,
    }
}

/// Transforms: a plan, and where its data is.
macro_rules! transforms {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        extern "C" fn $name(handle: c_int, _from: *mut c_void, _to: *mut c_void) -> i32 {
            execute(handle)
        }
    )*};
}

transforms! {
    cufftXtExec, cufftExecC2C, cufftExecC2R, cufftExecR2C, cufftExecD2Z, cufftExecZ2D,
    cufftExecZ2Z,
}

does_nothing! {
    cufftSetWorkArea, cufftSetPlanPropertyInt64,
}

/// The version of the library that goes with the version of CUDA.
fn library_version() -> c_int {
    if cuda_version() >= 13_000 { 12_000 } else { 11_000 }
}

#[crate::entry_point]
unsafe extern "C" fn cufftGetVersion(version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(version, library_version()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cufftGetProperty(which: c_int, value: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(value, version_part(library_version() * 10, which)) };
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_interfaces_name_the_same_transform() {
        // CUDA_R_32F and CUDA_C_32F.
        assert_eq!(transform_of_number(0x2a), Some(transform_of_types(0, 4)));
        assert_eq!(transform_of_number(0x29), Some(transform_of_types(4, 4)));
        assert_eq!(transform_of_number(0), None);
    }
}
