//! Results that cuBLAS returns to the host: single numbers, `info`, and copies of matrices.
//!
//! A number that would have been computed is zero, and so is `info`: no matrix is singular.

use std::ffi::{c_int, c_void};

use crate::answer;
use crate::copies::{self, Direction};
use crate::machine::machine;
use crate::status::{SUCCESS, put};

/// Stores zeros in a result of the host; one on a device stays as it is.
unsafe fn zero_on_host(to: *mut u8, bytes: usize) -> i32 {
    let is_device = machine().and_then(|machine| machine.device_of(to as u64)).is_some();
    if !to.is_null() && !is_device {
        answer::note_unanswered(bytes as u64);
        // SAFETY: the caller's result has this size, by the library's contract.
        unsafe { std::ptr::write_bytes(to, 0, bytes) };
    }
    SUCCESS
}

/// Numbers of one vector: norms, sums and places.
macro_rules! of_a_vector {
    ($($name:ident: $bytes:literal),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            _count: c_int,
            _x: u64,
            _step: c_int,
            to: *mut u8,
        ) -> i32 {
            // SAFETY: the same contract.
            unsafe { zero_on_host(to, $bytes) }
        }
    )*};
}

of_a_vector! {
    cublasSnrm2_v2: 4, cublasDnrm2_v2: 8, cublasScnrm2_v2: 4, cublasDznrm2_v2: 8,
    cublasSasum_v2: 4, cublasDasum_v2: 8, cublasScasum_v2: 4, cublasDzasum_v2: 8,
    cublasIsamax_v2: 4, cublasIdamax_v2: 4, cublasIcamax_v2: 4, cublasIzamax_v2: 4,
    cublasIsamin_v2: 4, cublasIdamin_v2: 4, cublasIcamin_v2: 4, cublasIzamin_v2: 4,
}

/// Products of two vectors.
macro_rules! of_two_vectors {
    ($($name:ident: $bytes:literal),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            _count: c_int,
            _x: u64,
            _x_step: c_int,
            _y: u64,
            _y_step: c_int,
            to: *mut u8,
        ) -> i32 {
            // SAFETY: the same contract.
            unsafe { zero_on_host(to, $bytes) }
        }
    )*};
}

of_two_vectors! {
    cublasSdot_v2: 4, cublasDdot_v2: 8, cublasCdotu_v2: 8, cublasCdotc_v2: 8,
    cublasZdotu_v2: 16, cublasZdotc_v2: 16,
}

/// Factorisations of many matrices: the host gets the check of the arguments.
macro_rules! with_info {
    (; $($rest:tt)*) => {};
    ($name:ident $(, $more:ident)*; $($arg:ident: $kind:ty),*) => {
        #[crate::entry_point]
        unsafe extern "C" fn $name(_handle: u64, $($arg: $kind,)* info: *mut c_int) -> i32 {
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(info, 0) };
            SUCCESS
        }
        with_info! { $($more),*; $($arg: $kind),* }
    };
}

with_info! {
    cublasSgeqrfBatched, cublasDgeqrfBatched, cublasCgeqrfBatched, cublasZgeqrfBatched;
    _m: c_int, _n: c_int, _a: u64, _lda: c_int, _tau: u64
}

with_info! {
    cublasSgetrsBatched, cublasDgetrsBatched, cublasCgetrsBatched, cublasZgetrsBatched;
    _op: c_int, _n: c_int, _columns: c_int, _a: u64, _lda: c_int, _pivots: u64, _b: u64,
    _ldb: c_int
}

with_info! {
    cublasSgelsBatched, cublasDgelsBatched, cublasCgelsBatched, cublasZgelsBatched;
    _op: c_int, _m: c_int, _n: c_int, _columns: c_int, _a: u64, _lda: c_int, _c: u64,
    _ldc: c_int
}

/// `CUBLAS_STATUS_MAPPING_ERROR`: memory could not be read or written.
const MAPPING_ERROR: i32 = 11;

/// Copies a matrix, column by column.
fn copy_columns(
    rows: c_int,
    columns: c_int,
    bytes: c_int,
    from: (u64, c_int),
    to: (u64, c_int),
) -> i32 {
    let count = |number: c_int| u64::try_from(number).unwrap_or(0);
    let length = count(rows) * count(bytes);
    let at = |column: u64, (start, step): (u64, c_int)| {
        start.wrapping_add(column * count(step) * count(bytes))
    };
    let is_copied = (0..count(columns)).all(|column| {
        copies::copy(at(column, to), at(column, from), length, Direction::ANY) == SUCCESS
    });
    if is_copied { SUCCESS } else { MAPPING_ERROR }
}

/// Copies of matrices, to a device and back: the addresses decide the direction.
macro_rules! matrices {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        extern "C" fn $name(
            rows: c_int,
            columns: c_int,
            bytes: c_int,
            from: u64,
            from_step: c_int,
            to: u64,
            to_step: c_int,
            _stream: *mut c_void,
        ) -> i32 {
            copy_columns(rows, columns, bytes, (from, from_step), (to, to_step))
        }
    )*};
}

matrices! {
    cublasSetMatrix, cublasGetMatrix, cublasSetMatrixAsync, cublasGetMatrixAsync,
}

/// Copies of vectors: matrices of one row.
macro_rules! vectors {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        extern "C" fn $name(
            count: c_int,
            bytes: c_int,
            from: u64,
            from_step: c_int,
            to: u64,
            to_step: c_int,
            _stream: *mut c_void,
        ) -> i32 {
            copy_columns(1, count, bytes, (from, from_step), (to, to_step))
        }
    )*};
}

vectors! {
    cublasSetVector, cublasGetVector, cublasSetVectorAsync, cublasGetVectorAsync,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_norm_returned_to_the_host_is_zero() {
        let mut norm = 7.0_f32;
        // SAFETY: the result is a local variable of that size.
        unsafe { cublasSnrm2_v2(0, 1, 0, 1, (&raw mut norm).cast()) };
        assert!(norm.abs() < f32::EPSILON);
    }

    #[test]
    fn info_is_cleared() {
        let mut info = 3;
        // SAFETY: the result is a local variable.
        unsafe { cublasSgeqrfBatched(0, 2, 2, 0, 2, 0, &raw mut info) };
        assert_eq!(info, 0);
    }
}
