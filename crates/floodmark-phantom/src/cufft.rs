//! cuFFT: transforms are not computed; plans are kept, and their work areas answered.
//!
//! The library's own figures are not published. The model: a transform of one dimension that is a product
//! of 2, 3, 5 and 7 and has at most 4,096 points is done in one go and needs no room. All others go over
//! a copy of their complex data: points × batch × size of a complex number, where real transforms have
//! half of the last dimension and one more. A dimension with a larger prime factor is done by Bluestein's
//! method, with the next power of two of twice its length. It was not compared with a device.
//! torch switches automatic allocation off and gives the room itself; without that it is taken here.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use crate::calls::{does_nothing, type_bytes, version_part};
use crate::machine::current_device;
use crate::runtime::{SUCCESS, allocate, put, release, version as cuda_version};
use crate::streams::{new_handle, note_work};

const INVALID_PLAN: i32 = 1;
const NO_MEMORY: i32 = 2;
const INVALID_VALUE: i32 = 4;
/// The points that are transformed in one go.
const AT_ONCE: u64 = 4096;

/// A plan: whether it takes its room itself, how much, and where that is.
#[derive(Debug, Clone, Copy)]
struct Plan {
    takes_room: bool,
    work_bytes: u64,
    room: Option<u64>,
    stream: u64,
}

static PLANS: Mutex<BTreeMap<c_int, Plan>> = Mutex::new(BTreeMap::new());

fn with<T>(f: impl FnOnce(&mut BTreeMap<c_int, Plan>) -> T) -> T {
    f(&mut PLANS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The kinds of a transform, by the letters of the library.
#[derive(Debug, Clone, Copy)]
struct Kind {
    is_real: bool,
    complex_bytes: u64,
}

impl Kind {
    /// Of the older interface.
    fn of_number(number: c_int) -> Option<Self> {
        let (is_real, complex_bytes) = match number {
            0x2a | 0x2c => (true, 8),
            0x29 => (false, 8),
            0x6a | 0x6c => (true, 16),
            0x69 => (false, 16),
            _ => return None,
        };
        Some(Self { is_real, complex_bytes })
    }

    /// Of the newer interface: the types of input and output.
    fn of_types(input: c_int, output: c_int) -> Self {
        let bytes = type_bytes(input).max(type_bytes(output));
        Self { is_real: input != output, complex_bytes: bytes }
    }
}

/// The room that a transform needs.
fn work_bytes(dimensions: &[i64], batch: i64, kind: Kind) -> u64 {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let mut points = count(batch.max(1));
    let mut is_at_once = dimensions.len() == 1;
    for (at, &dimension) in dimensions.iter().enumerate() {
        let length = count(dimension);
        is_at_once = is_at_once && length <= AT_ONCE && is_smooth(length);
        let is_last = at + 1 == dimensions.len();
        let kept = if kind.is_real && is_last { length / 2 + 1 } else { length };
        points *= if is_smooth(length) { kept } else { (2 * length).next_power_of_two() };
    }
    if is_at_once { 0 } else { points * kind.complex_bytes }
}

/// Whether the length is a product of 2, 3, 5 and 7.
fn is_smooth(length: u64) -> bool {
    let mut rest = length.max(1);
    for prime in [2, 3, 5, 7] {
        while rest.is_multiple_of(prime) {
            rest /= prime;
        }
    }
    rest == 1
}

fn create() -> c_int {
    let handle = c_int::try_from(new_handle() / 64).unwrap_or(c_int::MAX);
    let plan = Plan { takes_room: true, work_bytes: 0, room: None, stream: 0 };
    with(|plans| plans.insert(handle, plan));
    handle
}

/// Sets what the plan transforms; takes its room where the program does not.
fn make(handle: c_int, bytes: u64) -> i32 {
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

unsafe fn make_and_tell(handle: c_int, bytes: u64, to: *mut usize) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, usize::try_from(bytes).unwrap_or(usize::MAX)) };
    make(handle, bytes)
}

/// The caller's dimensions, of either width.
unsafe fn dimensions<T: Copy + Into<i64>>(rank: c_int, from: *const T) -> Option<Vec<i64>> {
    let rank = usize::try_from(rank).ok().filter(|rank| (1..=3).contains(rank))?;
    // SAFETY: the caller's array has `rank` numbers, by the library's contract.
    Some((0..rank).map(|at| unsafe { from.add(at).read() }.into()).collect())
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
    let bytes = work_bytes(&lengths, batch, Kind::of_types(input, output));
    // SAFETY: the same contract.
    unsafe { make_and_tell(handle, bytes, to) }
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
            let (Some(lengths), Some(kind)) = (lengths, Kind::of_number(kind)) else {
                return INVALID_VALUE;
            };
            let bytes = work_bytes(&lengths, batch.into(), kind);
            // SAFETY: the same contract.
            unsafe { make_and_tell(handle, bytes, to) }
        }
    )*};
}

plans_of_many! {
    cufftMakePlanMany: c_int, cufftMakePlanMany64: i64,
}

#[crate::entry_point]
unsafe extern "C" fn cufftPlan1d(to: *mut c_int, length: c_int, kind: c_int, batch: c_int) -> i32 {
    let Some(kind) = Kind::of_number(kind) else { return INVALID_VALUE };
    let handle = create();
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, handle) };
    make(handle, work_bytes(&[length.into()], batch.into(), kind))
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

    const COMPLEX: Kind = Kind { is_real: false, complex_bytes: 8 };

    #[test]
    fn a_short_smooth_transform_needs_no_room() {
        assert_eq!(work_bytes(&[4096], 100, COMPLEX), 0);
        assert_eq!(work_bytes(&[8192], 2, COMPLEX), 2 * 8192 * 8);
    }

    #[test]
    fn a_real_transform_has_half_of_its_last_dimension() {
        let real = Kind::of_number(0x2a).expect("it is a kind");
        assert_eq!(work_bytes(&[64, 64], 3, real), 3 * 64 * 33 * 8);
    }

    #[test]
    fn a_prime_length_goes_over_the_next_power_of_two() {
        assert_eq!(work_bytes(&[11], 1, COMPLEX), 32 * 8);
        assert!(is_smooth(2 * 3 * 5 * 7) && !is_smooth(11));
    }
}
