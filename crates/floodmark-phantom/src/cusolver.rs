//! cuSOLVER: factorisations are not computed; the sizes of their workspaces are returned.
//!
//! The library's own figures are not published. The model is LAPACK's need for the same routine, worked
//! in panels of 64 columns, with all of it on the device: a panel for triangular factors, LAPACK's
//! divide and conquer for symmetric eigenvalues, and a copy of the matrix with its rotations for the
//! Jacobi methods. It was not compared with a device. The results and `info` stay unchanged.

use std::ffi::c_int;

use floodmark_cuda_model::library_memory::Use;

use crate::calls::{creates, does_nothing, type_bytes, version_part};
use crate::machine::{current_device, hold};
use crate::runtime::version as cuda_version;
use crate::status::{SUCCESS, put};
use crate::streams::new_handle;

creates! {
    cusolverDnCreateParams, cusolverDnCreateSyevjInfo,
    cusolverDnCreateGesvdjInfo, cusolverSpCreate,
}

does_nothing! {
    cusolverDnDestroy, cusolverDnDestroyParams, cusolverDnDestroySyevjInfo,
    cusolverDnDestroyGesvdjInfo, cusolverDnSetStream, cusolverDnXgesvdjSetTolerance,
    cusolverDnXgesvdjSetMaxSweeps, cusolverDnXgesvdjSetSortEig, cusolverDnXsyevjSetTolerance,
    cusolverDnXsyevjSetMaxSweeps, cusolverDnXsyevjSetSortEig, cusolverDnSetDeterministicMode,
    cusolverDnSetAdvOptions, cusolverSpDestroy, cusolverSpSetStream,
}

const ALLOC_FAILED: i32 = 2;

/// A handle has device memory of its own.
#[crate::entry_point]
unsafe extern "C" fn cusolverDnCreate(to: *mut u64) -> i32 {
    if !hold(current_device(), Use::CusolverHandle) {
        return ALLOC_FAILED;
    }
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

/// The columns that are worked on at a time.
const PANEL: i64 = 64;

fn panel(length: i64) -> i64 {
    PANEL * length.max(1)
}

/// Pivoted elimination: a panel of rows, and one of columns.
fn lu(m: i64, n: i64) -> i64 {
    panel(m.max(n)) + panel(PANEL)
}

/// Reflections: a panel, and the triangle that joins its reflections.
fn reflections(n: i64) -> i64 {
    panel(n) + PANEL * PANEL
}

/// LAPACK's `gesvd`: the bidiagonal, a panel, and the square factor of a tall matrix.
fn svd(m: i64, n: i64) -> i64 {
    let (short, long) = (m.min(n), m.max(n));
    short * short + panel(short + long)
}

/// One-sided Jacobi: the matrix, and the rotations.
fn svd_by_rotations(m: i64, n: i64) -> i64 {
    m * n + n.min(m) * n.min(m) + panel(m.max(n))
}

/// LAPACK's `syevd` with vectors: `1 + 6 n + 2 n²`; the matrix itself holds a part of it.
fn symmetric(n: i64) -> i64 {
    1 + 6 * n + 2 * n * n
}

/// LAPACK's `geev`: the Hessenberg form, vectors, and a panel.
fn general(n: i64) -> i64 {
    2 * n * n + panel(n)
}

/// Size queries of the older interface: in numbers of the matrix's type, for single, double and complex.
macro_rules! sizes {
    (; $($rest:tt)*) => {};
    ($name:ident $(, $more:ident)*; |$($arg:ident: $kind:ty),*| $numbers:expr) => {
        #[crate::entry_point]
        unsafe extern "C" fn $name(_handle: u64, $($arg: $kind,)* to: *mut c_int) -> i32 {
            let numbers: i64 = $numbers;
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, c_int::try_from(numbers).unwrap_or(c_int::MAX)) };
            SUCCESS
        }
        sizes! { $($more),*; |$($arg: $kind),*| $numbers }
    };
}

sizes! {
    cusolverDnSpotrf_bufferSize, cusolverDnDpotrf_bufferSize, cusolverDnCpotrf_bufferSize,
    cusolverDnZpotrf_bufferSize, cusolverDnSpotri_bufferSize, cusolverDnDpotri_bufferSize,
    cusolverDnCpotri_bufferSize, cusolverDnZpotri_bufferSize;
    |_uplo: c_int, n: c_int, _a: u64, _lda: c_int| panel(n.into())
}

sizes! {
    cusolverDnSgetrf_bufferSize, cusolverDnDgetrf_bufferSize, cusolverDnCgetrf_bufferSize,
    cusolverDnZgetrf_bufferSize;
    |m: c_int, n: c_int, _a: u64, _lda: c_int| lu(m.into(), n.into())
}

sizes! {
    cusolverDnSgeqrf_bufferSize, cusolverDnDgeqrf_bufferSize, cusolverDnCgeqrf_bufferSize,
    cusolverDnZgeqrf_bufferSize;
    |_m: c_int, n: c_int, _a: u64, _lda: c_int| reflections(n.into())
}

sizes! {
    cusolverDnSorgqr_bufferSize, cusolverDnDorgqr_bufferSize, cusolverDnCungqr_bufferSize,
    cusolverDnZungqr_bufferSize;
    |_m: c_int, n: c_int, _k: c_int, _a: u64, _lda: c_int, _tau: u64| reflections(n.into())
}

sizes! {
    cusolverDnSormqr_bufferSize, cusolverDnDormqr_bufferSize, cusolverDnCunmqr_bufferSize,
    cusolverDnZunmqr_bufferSize;
    |side: c_int, _t: c_int, m: c_int, n: c_int, _k: c_int, _a: u64, _lda: c_int, _tau: u64,
     _c: u64, _ldc: c_int| reflections(if side == 0 { n } else { m }.into())
}

sizes! {
    cusolverDnSgesvd_bufferSize, cusolverDnDgesvd_bufferSize, cusolverDnCgesvd_bufferSize,
    cusolverDnZgesvd_bufferSize;
    |m: c_int, n: c_int| svd(m.into(), n.into())
}

sizes! {
    cusolverDnSgesvdj_bufferSize, cusolverDnDgesvdj_bufferSize, cusolverDnCgesvdj_bufferSize,
    cusolverDnZgesvdj_bufferSize;
    |_jobz: c_int, _econ: c_int, m: c_int, n: c_int, _a: u64, _lda: c_int, _s: u64, _u: u64,
     _ldu: c_int, _v: u64, _ldv: c_int| svd_by_rotations(m.into(), n.into())
}

/// Size queries of batches: the number of matrices is behind the result.
macro_rules! batched_sizes {
    (; $($rest:tt)*) => {};
    ($name:ident $(, $more:ident)*; |$($arg:ident: $kind:ty),*| $numbers:expr) => {
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            $($arg: $kind,)*
            to: *mut c_int,
            _params: u64,
            batch: c_int,
        ) -> i32 {
            let numbers: i64 = i64::from(batch.max(1)) * $numbers;
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, c_int::try_from(numbers).unwrap_or(c_int::MAX)) };
            SUCCESS
        }
        batched_sizes! { $($more),*; |$($arg: $kind),*| $numbers }
    };
}

batched_sizes! {
    cusolverDnSgesvdjBatched_bufferSize, cusolverDnDgesvdjBatched_bufferSize,
    cusolverDnCgesvdjBatched_bufferSize, cusolverDnZgesvdjBatched_bufferSize;
    |_jobz: c_int, m: c_int, n: c_int, _a: u64, _lda: c_int, _s: u64, _u: u64, _ldu: c_int,
     _v: u64, _ldv: c_int| svd_by_rotations(m.into(), n.into())
}

batched_sizes! {
    cusolverDnSsyevjBatched_bufferSize, cusolverDnDsyevjBatched_bufferSize,
    cusolverDnCheevjBatched_bufferSize, cusolverDnZheevjBatched_bufferSize;
    |_jobz: c_int, _uplo: c_int, n: c_int, _a: u64, _lda: c_int, _w: u64|
    i64::from(n) * i64::from(n) + panel(n.into())
}

/// The approximate method for tall matrices: each matrix and its square.
macro_rules! strided_sizes {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            _jobz: c_int,
            _rank: c_int,
            m: c_int,
            n: c_int,
            _a: u64,
            _lda: c_int,
            _a_stride: i64,
            _s: u64,
            _s_stride: i64,
            _u: u64,
            _ldu: c_int,
            _u_stride: i64,
            _v: u64,
            _ldv: c_int,
            _v_stride: i64,
            to: *mut c_int,
            batch: c_int,
        ) -> i32 {
            let numbers = i64::from(batch.max(1)) * svd_by_rotations(m.into(), n.into());
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, c_int::try_from(numbers).unwrap_or(c_int::MAX)) };
            SUCCESS
        }
    )*};
}

strided_sizes! {
    cusolverDnSgesvdaStridedBatched_bufferSize, cusolverDnDgesvdaStridedBatched_bufferSize,
    cusolverDnCgesvdaStridedBatched_bufferSize, cusolverDnZgesvdaStridedBatched_bufferSize,
}

sizes! {
    cusolverDnSsyevd_bufferSize, cusolverDnDsyevd_bufferSize, cusolverDnCheevd_bufferSize,
    cusolverDnZheevd_bufferSize, cusolverDnSsyevj_bufferSize, cusolverDnDsyevj_bufferSize,
    cusolverDnCheevj_bufferSize, cusolverDnZheevj_bufferSize;
    |_jobz: c_int, _uplo: c_int, n: c_int, _a: u64, _lda: c_int, _w: u64| symmetric(n.into())
}

sizes! {
    cusolverDnSsytrf_bufferSize, cusolverDnDsytrf_bufferSize, cusolverDnCsytrf_bufferSize,
    cusolverDnZsytrf_bufferSize;
    |n: c_int, _a: u64, _lda: c_int| panel(n.into())
}

/// Size queries of the newer interface: in bytes, on the device and on the host.
macro_rules! sizes_in_bytes {
    (; $($rest:tt)*) => {};
    ($name:ident $(, $more:ident)*; |$($arg:ident: $kind:ty),*| $bytes:expr) => {
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            $($arg: $kind,)*
            device: *mut usize,
            host: *mut usize,
        ) -> i32 {
            let (numbers, kind): (i64, c_int) = $bytes;
            let bytes = u64::try_from(numbers).unwrap_or(0) * type_bytes(kind);
            // SAFETY: the caller's pointers, by the library's contract.
            unsafe {
                put(device, usize::try_from(bytes).unwrap_or(usize::MAX));
                put(host, 0);
            }
            SUCCESS
        }
        sizes_in_bytes! { $($more),*; |$($arg: $kind),*| $bytes }
    };
}

sizes_in_bytes! {
    cusolverDnXpotrf_bufferSize;
    |_params: u64, _uplo: c_int, n: i64, kind: c_int, _a: u64, _lda: i64, _compute: c_int|
    (panel(n), kind)
}

sizes_in_bytes! {
    cusolverDnXgetrf_bufferSize;
    |_params: u64, m: i64, n: i64, kind: c_int, _a: u64, _lda: i64, _compute: c_int|
    (lu(m, n), kind)
}

sizes_in_bytes! {
    cusolverDnXgeqrf_bufferSize;
    |_params: u64, _m: i64, n: i64, kind: c_int, _a: u64, _lda: i64, _tau_kind: c_int, _tau: u64,
     _compute: c_int| (reflections(n), kind)
}

sizes_in_bytes! {
    cusolverDnXsyevd_bufferSize;
    |_params: u64, _jobz: c_int, _uplo: c_int, n: i64, kind: c_int, _a: u64, _lda: i64,
     _w_kind: c_int, _w: u64, _compute: c_int| (symmetric(n), kind)
}

sizes_in_bytes! {
    cusolverDnXsytrs_bufferSize;
    |_uplo: c_int, n: i64, columns: i64, kind: c_int, _a: u64, _lda: i64, _pivots: u64,
     _b_kind: c_int, _b: u64, _ldb: i64| (panel(n + columns), kind)
}

sizes_in_bytes! {
    cusolverDnXgeev_bufferSize;
    |_params: u64, _jobvl: c_int, _jobvr: c_int, n: i64, kind: c_int, _a: u64, _lda: i64,
     _w_kind: c_int, _w: u64, _vl_kind: c_int, _vl: u64, _ldvl: i64, _vr_kind: c_int, _vr: u64,
     _ldvr: i64, _compute: c_int| (general(n), kind)
}

sizes_in_bytes! {
    cusolverDnXgesvd_bufferSize;
    |_params: u64, _jobu: i8, _jobvt: i8, m: i64, n: i64, kind: c_int, _a: u64, _lda: i64,
     _s_kind: c_int, _s: u64, _u_kind: c_int, _u: u64, _ldu: i64, _v_kind: c_int, _v: u64,
     _ldv: i64, _compute: c_int| (svd(m, n), kind)
}

/// Many symmetric matrices: as one, for each.
#[crate::entry_point]
unsafe extern "C" fn cusolverDnXsyevBatched_bufferSize(
    handle: u64,
    params: u64,
    jobz: c_int,
    uplo: c_int,
    n: i64,
    kind: c_int,
    a: u64,
    lda: i64,
    w_kind: c_int,
    w: u64,
    compute: c_int,
    device: *mut usize,
    host: *mut usize,
    batch: i64,
) -> i32 {
    let (mut one, mut one_host) = (0, 0);
    let results = (&raw mut one, &raw mut one_host);
    // SAFETY: the results are stored in local variables.
    unsafe {
        cusolverDnXsyevd_bufferSize(
            handle, params, jobz, uplo, n, kind, a, lda, w_kind, w, compute, results.0, results.1,
        );
        put(device, one * usize::try_from(batch.max(1)).unwrap_or(1));
        put(host, one_host);
    }
    SUCCESS
}

/// The version of the library that goes with the version of CUDA.
fn library_version() -> c_int {
    if cuda_version() >= 13_000 { 120_000 } else { 110_400 }
}

#[crate::entry_point]
unsafe extern "C" fn cusolverGetVersion(version: *mut c_int) -> i32 {
    let whole = library_version();
    let found = version_part(whole, 0) * 1000 + version_part(whole, 1) * 100;
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(version, found) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cusolverGetProperty(which: c_int, value: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(value, version_part(library_version(), which)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cusolverDnGetStream(_handle: u64, stream: *mut u64) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(stream, 0) };
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_the_matrix() {
        assert_eq!(panel(1000), 64_000);
        assert_eq!(symmetric(10), 261);
        assert_eq!(svd(100, 10), svd(10, 100));
        assert!(lu(1, 4096) > lu(1, 64));
    }

    #[test]
    fn the_newer_interface_counts_bytes() {
        let (mut device, mut host) = (0, 7);
        let (to, on_host) = (&raw mut device, &raw mut host);
        // SAFETY: the results are stored in local variables.
        unsafe { cusolverDnXpotrf_bufferSize(0, 0, 0, 100, 1, 0, 100, 1, to, on_host) };
        assert_eq!((device, host), (64 * 100 * 8, 0));
    }
}
