//! cuSPARSE: products are not computed; matrices are described, and sizes of buffers answered.
//!
//! The library's own figures are not published. Buffers of products with a dense matrix or vector and of triangular
//! solves follow what an H200 with CUDA 13.0 asked for: 368 cases of four types, all equal
//! (`bench/conformance/phantom_sparse.py` compares programs). The rest is a model that was not compared with a device: a
//! sparse result of a dense product needs nothing, and sorting keeps two keys and a value for each entry. The product of two
//! sparse matrices has as many entries as matrices with the same number of them, spread evenly, would have on average, and
//! needs room for that many products: how many there really are is in the data, and counts as a value that was read and is
//! not known.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use crate::answer;
use crate::calls::{creates, does_nothing, type_bytes, version_part};
use crate::runtime::version as cuda_version;
use crate::status::{SUCCESS, put};
use crate::streams::new_handle;

const INVALID_VALUE: i32 = 3;

/// `cudaDataType_t` of 16 bits, and of complex numbers.
const HALVES: [c_int; 2] = [2, 14];
const COMPLEX: [c_int; 2] = [4, 5];

/// A matrix, as it was described. A dense one has all its entries.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    rows: i64,
    columns: i64,
    entries: i64,
    kind: c_int,
}

static MATRICES: Mutex<BTreeMap<u64, Matrix>> = Mutex::new(BTreeMap::new());

fn with<T>(f: impl FnOnce(&mut BTreeMap<u64, Matrix>) -> T) -> T {
    f(&mut MATRICES.lock().unwrap_or_else(PoisonError::into_inner))
}

fn matrix(handle: u64) -> Option<Matrix> {
    with(|matrices| matrices.get(&handle).copied())
}

impl Matrix {
    fn row_count(&self) -> u64 {
        u64::try_from(self.rows).unwrap_or(0)
    }

    fn entry_count(&self) -> u64 {
        u64::try_from(self.entries).unwrap_or(0)
    }

    fn value_bytes(&self) -> u64 {
        type_bytes(self.kind)
    }

    /// The buffer of a product with a dense matrix.
    fn product_bytes(&self) -> u64 {
        8 * self.entry_count().div_ceil(24) + 7
    }

    /// The buffer of a product with a vector.
    fn vector_bytes(&self) -> u64 {
        let tiles = |entries: u64| 8 * self.entry_count().div_ceil(entries);
        if HALVES.contains(&self.kind) {
            4 * self.row_count() + tiles(896) + 142
        } else if COMPLEX.contains(&self.kind) {
            tiles(512) + 15
        } else {
            tiles(3072) + 15
        }
    }

    /// The buffer of a triangular solve for that many values of right-hand sides.
    fn solve_bytes(&self, right: u64) -> u64 {
        let value = self.value_bytes();
        let (rows, entries) = (self.row_count(), self.entry_count());
        (60 + value) * rows + (8 + value) * entries + value * right + 258
    }

    /// How many products the one with `other` has, if entries are spread evenly.
    fn products_with(&self, other: &Self) -> u64 {
        let all = u128::from(self.entry_count()) * u128::from(other.entry_count());
        let inner = u128::try_from(self.columns.max(1)).unwrap_or(1);
        u64::try_from(all.div_ceil(inner)).unwrap_or(u64::MAX)
    }
}

creates! {
    cusparseCreate, cusparseCreateMatDescr, cusparseCreateBsrsm2Info, cusparseCreateBsrsv2Info,
    cusparseCreateDnVec, cusparseCreateConstDnVec,
    cusparseSpGEMM_createDescr, cusparseSpSM_createDescr, cusparseSpSV_createDescr,
}

does_nothing! {
    cusparseDestroy, cusparseDestroyMatDescr, cusparseDestroyBsrsm2Info,
    cusparseDestroyBsrsv2Info, cusparseDestroyDnVec, cusparseSetStream,
    cusparseSetPointerMode, cusparseSetMatType, cusparseSetMatFillMode, cusparseSetMatDiagType,
    cusparseSetMatIndexBase, cusparseDnMatSetStridedBatch, cusparseCsrSetStridedBatch,
    cusparseCooSetStridedBatch, cusparseCsrSetPointers, cusparseCooSetPointers,
    cusparseCscSetPointers, cusparseSpMatSetAttribute, cusparseSpGEMM_destroyDescr,
    cusparseSpSM_destroyDescr, cusparseSpSV_destroyDescr,
}

unsafe fn describe(to: *mut u64, matrix: Matrix) -> i32 {
    let handle = new_handle();
    with(|matrices| matrices.insert(handle, matrix));
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, handle) };
    SUCCESS
}

/// Matrices of which one side is compressed.
macro_rules! compressed {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            to: *mut u64,
            rows: i64,
            columns: i64,
            entries: i64,
            _offsets: u64,
            _indices: u64,
            _values: u64,
            _offsets_kind: c_int,
            _indices_kind: c_int,
            _base: c_int,
            kind: c_int,
        ) -> i32 {
            // SAFETY: the same contract.
            unsafe {
                describe(to, Matrix { rows, columns, entries, kind })
            }
        }
    )*};
}

compressed! {
    cusparseCreateCsr, cusparseCreateConstCsr, cusparseCreateCsc, cusparseCreateConstCsc,
}

#[crate::entry_point]
unsafe extern "C" fn cusparseCreateCoo(
    to: *mut u64,
    rows: i64,
    columns: i64,
    entries: i64,
    _row_indices: u64,
    _column_indices: u64,
    _values: u64,
    _indices_kind: c_int,
    _base: c_int,
    kind: c_int,
) -> i32 {
    // SAFETY: the same contract.
    unsafe { describe(to, Matrix { rows, columns, entries, kind }) }
}

#[crate::entry_point]
unsafe extern "C" fn cusparseCreateBsr(
    to: *mut u64,
    block_rows: i64,
    block_columns: i64,
    blocks: i64,
    height: i64,
    width: i64,
    _offsets: u64,
    _indices: u64,
    _values: u64,
    _offsets_kind: c_int,
    _indices_kind: c_int,
    _base: c_int,
    kind: c_int,
) -> i32 {
    let matrix = Matrix {
        rows: block_rows * height,
        columns: block_columns * width,
        entries: blocks * height * width,
        kind,
    };
    // SAFETY: the same contract.
    unsafe { describe(to, matrix) }
}

macro_rules! dense {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            to: *mut u64,
            rows: i64,
            columns: i64,
            _leading: i64,
            _values: u64,
            kind: c_int,
            _order: c_int,
        ) -> i32 {
            let entries = rows.saturating_mul(columns);
            // SAFETY: the same contract.
            unsafe { describe(to, Matrix { rows, columns, entries, kind }) }
        }
    )*};
}

dense! { cusparseCreateDnMat, cusparseCreateConstDnMat }

macro_rules! destroys {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        extern "C" fn $name(handle: u64) -> i32 {
            with(|matrices| matrices.remove(&handle));
            SUCCESS
        }
    )*};
}

destroys! { cusparseDestroySpMat, cusparseDestroyDnMat }

#[crate::entry_point]
unsafe extern "C" fn cusparseSpMatGetSize(
    handle: u64,
    rows: *mut i64,
    columns: *mut i64,
    entries: *mut i64,
) -> i32 {
    let Some(found) = matrix(handle) else { return INVALID_VALUE };
    // SAFETY: the caller's pointers, by the library's contract.
    unsafe {
        put(rows, found.rows);
        put(columns, found.columns);
        put(entries, found.entries);
    }
    SUCCESS
}

/// Sizes of buffers: which argument is the sparse matrix, and what it needs.
macro_rules! buffers {
    ($name:ident; |$($arg:ident: $kind:ty),*| $matrix:ident => $bytes:expr) => {
        #[crate::entry_point]
        unsafe extern "C" fn $name(_handle: u64, $($arg: $kind,)* to: *mut usize) -> i32 {
            let Some($matrix) = matrix($matrix) else { return INVALID_VALUE };
            let bytes: u64 = $bytes;
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, usize::try_from(bytes).unwrap_or(usize::MAX)) };
            SUCCESS
        }
    };
}

buffers! {
    cusparseSpMM_bufferSize;
    |_op_a: c_int, _op_b: c_int, _alpha: u64, a: u64, _b: u64, _beta: u64, _c: u64,
     _compute: c_int, _algorithm: c_int| a => a.product_bytes()
}

buffers! {
    cusparseSpMV_bufferSize;
    |_op: c_int, _alpha: u64, a: u64, _x: u64, _beta: u64, _y: u64, _compute: c_int,
     _algorithm: c_int| a => a.vector_bytes()
}

buffers! {
    cusparseSDDMM_bufferSize;
    |_op_a: c_int, _op_b: c_int, _alpha: u64, _a: u64, _b: u64, _beta: u64, c: u64,
     _compute: c_int, _algorithm: c_int| c => c.entry_count().min(1) * 4
}

buffers! {
    cusparseSpSM_bufferSize;
    |_op_a: c_int, _op_b: c_int, _alpha: u64, a: u64, b: u64, _c: u64, _compute: c_int,
     _algorithm: c_int, _plan: u64| a => a.solve_bytes(matrix(b).map_or(0, |b| b.entry_count()))
}

buffers! {
    cusparseSpSV_bufferSize;
    |_op: c_int, _alpha: u64, a: u64, _x: u64, _y: u64, _compute: c_int, _algorithm: c_int,
     _plan: u64| a => a.solve_bytes(a.row_count())
}

/// The two steps of a product of sparse matrices that ask for a buffer.
macro_rules! product_steps {
    ($($name:ident => $step:ident),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            _op_a: c_int,
            _op_b: c_int,
            _alpha: u64,
            a: u64,
            b: u64,
            _beta: u64,
            c: u64,
            _compute: c_int,
            _algorithm: c_int,
            _plan: u64,
            to: *mut usize,
            buffer: u64,
        ) -> i32 {
            let (Some(a), Some(b)) = (matrix(a), matrix(b)) else { return INVALID_VALUE };
            if buffer == 0 {
                let bytes = usize::try_from($step(&a, &b)).unwrap_or(usize::MAX);
                // SAFETY: the caller's pointer, by the library's contract.
                unsafe { put(to, bytes) };
            } else {
                set_entries(c, a.products_with(&b));
            }
            SUCCESS
        }
    )*};
}

fn counts_of_rows(a: &Matrix, _b: &Matrix) -> u64 {
    8 * (a.row_count() + 1)
}

fn room_for_products(a: &Matrix, b: &Matrix) -> u64 {
    a.products_with(b).saturating_mul(4 + a.value_bytes())
}

product_steps! {
    cusparseSpGEMM_workEstimation => counts_of_rows,
    cusparseSpGEMM_compute => room_for_products,
}

/// The result of a product has that many entries: an assumed number.
fn set_entries(handle: u64, products: u64) {
    answer::note_unanswered(8);
    with(|matrices| {
        if let Some(matrix) = matrices.get_mut(&handle) {
            let most = matrix.rows.saturating_mul(matrix.columns);
            matrix.entries = i64::try_from(products).unwrap_or(i64::MAX).min(most);
        }
    });
}

/// Sums of matrices: an offset for each row.
macro_rules! sum_buffers {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            rows: c_int,
            _columns: c_int,
            _alpha: u64,
            _a: u64,
            _a_entries: c_int,
            _a_values: u64,
            _a_offsets: u64,
            _a_indices: u64,
            _beta: u64,
            _b: u64,
            _b_entries: c_int,
            _b_values: u64,
            _b_offsets: u64,
            _b_indices: u64,
            _c: u64,
            _c_values: u64,
            _c_offsets: u64,
            _c_indices: u64,
            to: *mut usize,
        ) -> i32 {
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, 4 * (usize::try_from(rows).unwrap_or(0) + 1)) };
            SUCCESS
        }
    )*};
}

sum_buffers! {
    cusparseScsrgeam2_bufferSizeExt, cusparseDcsrgeam2_bufferSizeExt,
    cusparseCcsrgeam2_bufferSizeExt, cusparseZcsrgeam2_bufferSizeExt,
}

/// How many entries a sum has: at most those of both, which is the answer.
#[crate::entry_point]
unsafe extern "C" fn cusparseXcsrgeam2Nnz(
    _handle: u64,
    rows: c_int,
    columns: c_int,
    _a: u64,
    a_entries: c_int,
    _a_offsets: u64,
    _a_indices: u64,
    _b: u64,
    b_entries: c_int,
    _b_offsets: u64,
    _b_indices: u64,
    _c: u64,
    _c_offsets: u64,
    total: *mut c_int,
) -> i32 {
    answer::note_unanswered(4);
    let most = i64::from(rows) * i64::from(columns);
    let sum = (i64::from(a_entries) + i64::from(b_entries)).min(most);
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(total, c_int::try_from(sum).unwrap_or(c_int::MAX)) };
    SUCCESS
}

/// Sorting: two keys and a place for each entry.
macro_rules! sort_buffers {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(
            _handle: u64,
            _rows: c_int,
            _columns: c_int,
            entries: c_int,
            _row_parts: u64,
            _column_parts: u64,
            to: *mut usize,
        ) -> i32 {
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, 12 * usize::try_from(entries).unwrap_or(0)) };
            SUCCESS
        }
    )*};
}

sort_buffers! {
    cusparseXcoosort_bufferSizeExt, cusparseXcsrsort_bufferSizeExt,
}

/// Triangular solves with blocks: an index for each row and block.
macro_rules! block_solve_buffers {
    (; $($rest:tt)*) => {};
    ($name:ident $(, $more:ident)*; |$($arg:ident: $kind:ty),*| $rows:ident, $blocks:ident) => {
        #[crate::entry_point]
        unsafe extern "C" fn $name(_handle: u64, $($arg: $kind,)* to: *mut c_int) -> i32 {
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { put(to, $rows.saturating_add($blocks).saturating_mul(4)) };
            SUCCESS
        }
        block_solve_buffers! { $($more),*; |$($arg: $kind),*| $rows, $blocks }
    };
}

block_solve_buffers! {
    cusparseSbsrsm2_bufferSize, cusparseDbsrsm2_bufferSize, cusparseCbsrsm2_bufferSize,
    cusparseZbsrsm2_bufferSize;
    |_direction: c_int, _op_a: c_int, _op_x: c_int, rows: c_int, _columns: c_int, blocks: c_int,
     _a: u64, _values: u64, _offsets: u64, _indices: u64, _side: c_int, _plan: u64| rows, blocks
}

block_solve_buffers! {
    cusparseSbsrsv2_bufferSize, cusparseDbsrsv2_bufferSize, cusparseCbsrsv2_bufferSize,
    cusparseZbsrsv2_bufferSize;
    |_direction: c_int, _op: c_int, rows: c_int, blocks: c_int, _a: u64, _values: u64,
     _offsets: u64, _indices: u64, _side: c_int, _plan: u64| rows, blocks
}

/// No pivot is zero, as far as anyone knows.
#[crate::entry_point]
unsafe extern "C" fn cusparseXbsrsm2_zeroPivot(_handle: u64, _plan: u64, at: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(at, -1) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cusparseXbsrsv2_zeroPivot(_handle: u64, _plan: u64, at: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(at, -1) };
    SUCCESS
}

/// The version of the library that goes with the version of CUDA.
fn library_version() -> c_int {
    if cuda_version() >= 13_000 { 12_603 } else { 12_100 }
}

#[crate::entry_point]
unsafe extern "C" fn cusparseGetVersion(_handle: u64, version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(version, library_version()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cusparseGetProperty(which: c_int, value: *mut c_int) -> i32 {
    let whole = library_version();
    let version = whole / 1000 * 10_000 + whole % 1000 / 100 * 100 + whole % 100;
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(value, version_part(version, which)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cusparseGetPointerMode(_handle: u64, mode: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(mode, 0) };
    SUCCESS
}

fn status_words(status: c_int) -> &'static CStr {
    match status {
        0 => c"CUSPARSE_STATUS_SUCCESS",
        3 => c"CUSPARSE_STATUS_INVALID_VALUE",
        10 => c"CUSPARSE_STATUS_NOT_SUPPORTED (by a simulated GPU)",
        _ => c"CUSPARSE_STATUS_INTERNAL_ERROR",
    }
}

#[crate::entry_point]
extern "C" fn cusparseGetErrorString(status: c_int) -> *const c_char {
    status_words(status).as_ptr()
}

#[crate::entry_point]
extern "C" fn cusparseGetErrorName(status: c_int) -> *const c_char {
    status_words(status).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_those_of_an_h200() {
        // cudaDataType_t: float, double, half and complex of floats.
        let a = |rows, entries, kind| Matrix { rows, columns: 5000, entries, kind };
        for (rows, entries, product, real, half, complex) in [
            (1000, 7000, 2343, 39, 4206, 127),
            (1001, 7007, 2343, 39, 4210, 127),
            (5000, 5000, 1679, 31, 20_190, 95),
            (5000, 65_000, 21_679, 191, 20_726, 1031),
            (20_000, 600_000, 200_007, 1583, 85_502, 9391),
            (300_000, 900_000, 300_007, 2359, 1_208_182, 14_079),
            (100, 100_000, 33_343, 279, 1438, 1583),
            (7, 14, 15, 23, 178, 23),
        ] {
            for kind in [0, 1, 2, 4] {
                assert_eq!(a(rows, entries, kind).product_bytes(), product);
            }
            let vector = [0, 1, 2, 4].map(|kind| a(rows, entries, kind).vector_bytes());
            assert_eq!(vector, [real, real, half, complex], "{rows} rows, {entries} entries");
        }
        // Right-hand sides of 1, 4 and 32 columns.
        let solve = |rows, entries, kind, columns: u64| {
            let matrix = a(rows, entries, kind);
            matrix.solve_bytes(matrix.row_count() * columns)
        };
        assert_eq!([1, 4, 32].map(|n| solve(1000, 1999, 0, n)), [92_246, 104_246, 216_246]);
        assert_eq!([1, 4, 32].map(|n| solve(1001, 4995, 1, n)), [156_254, 180_278, 404_502]);
        assert_eq!(
            [1, 4, 32].map(|n| solve(50_000, 50_000, 4, n)),
            [4_600_258, 5_800_258, 17_000_258]
        );
    }

    #[test]
    fn the_product_of_sparse_matrices_has_the_entries_of_an_even_spread() {
        let a = Matrix { rows: 100, columns: 50, entries: 200, kind: 0 };
        let b = Matrix { rows: 50, columns: 10, entries: 25, kind: 0 };
        assert_eq!(a.products_with(&b), 100);
        let mut handle = 0;
        let empty = Matrix { rows: 3, columns: 4, entries: 0, kind: 0 };
        // SAFETY: the handle is stored in a local variable.
        unsafe { describe(&raw mut handle, empty) };
        set_entries(handle, 100);
        assert_eq!(matrix(handle).map(|matrix| matrix.entries), Some(12), "no more than fit");
    }
}
