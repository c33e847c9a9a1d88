//! cuBLAS and cuBLASLt: products are not computed; handles, versions and algorithm choices are
//! returned.
//!
//! torch allocates the workspaces of cuBLAS, so none is allocated here. The functions that only compute
//! are in `symbols/cublas.txt`, marked `ok`.

use std::ffi::{CStr, c_char, c_int, c_void};

use floodmark_cuda_model::library_memory::Use;

use crate::calls::{creates, does_nothing, version_part};
use crate::machine::{current_device, hold};
use crate::runtime::version as cuda_version;
use crate::status::{SUCCESS, put};
use crate::streams::{new_handle, note_library_work};

creates! {
    cublasLtCreate, cublasLtMatmulDescCreate, cublasLtMatrixLayoutCreate,
    cublasLtMatmulPreferenceCreate, cublasLtMatrixTransformDescCreate,
}

does_nothing! {
    cublasDestroy_v2, cublasSetStream_v2, cublasSetWorkspace_v2, cublasSetMathMode,
    cublasSetPointerMode_v2, cublasSetAtomicsMode, cublasSetSmCountTarget, cublasLtDestroy,
    cublasLtMatmulDescDestroy, cublasLtMatmulDescSetAttribute, cublasLtMatrixLayoutDestroy,
    cublasLtMatrixLayoutSetAttribute, cublasLtMatmulPreferenceDestroy,
    cublasLtMatmulPreferenceSetAttribute, cublasLtMatrixTransform,
    cublasLtMatrixTransformDescDestroy, cublasLtMatrixTransformDescSetAttribute,
    cublasLtMatmulAlgoConfigSetAttribute, cublasLtLoggerSetLevel, cublasLtLoggerSetMask,
    cublasLoggerConfigure,
}

const ALLOC_FAILED: i32 = 3;

/// A handle has device memory of its own.
#[crate::entry_point]
unsafe extern "C" fn cublasCreate_v2(to: *mut u64) -> i32 {
    if !hold(current_device(), Use::CublasHandle) {
        return ALLOC_FAILED;
    }
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, new_handle()) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cublasLtMatmul() -> i32 {
    note_library_work();
    SUCCESS
}

/// The version of the library that goes with the version of CUDA.
fn library_version() -> c_int {
    cuda_version() / 1000 * 10_000 + 100
}

#[crate::entry_point]
unsafe extern "C" fn cublasGetVersion_v2(_handle: u64, version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(version, library_version()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cublasGetProperty(which: c_int, value: *mut c_int) -> i32 {
    let found = version_part(library_version(), which);
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(value, found) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cublasGetMathMode(_handle: u64, mode: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(mode, 0) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cublasGetPointerMode_v2(_handle: u64, mode: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(mode, 0) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cublasGetStream_v2(_handle: u64, stream: *mut u64) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(stream, 0) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cublasGetSmCountTarget(_handle: u64, count: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(count, 0) };
    SUCCESS
}

fn status_words(status: c_int) -> &'static CStr {
    match status {
        0 => c"CUBLAS_STATUS_SUCCESS",
        ALLOC_FAILED => c"CUBLAS_STATUS_ALLOC_FAILED",
        15 => c"CUBLAS_STATUS_NOT_SUPPORTED",
        _ => c"CUBLAS_STATUS_INTERNAL_ERROR",
    }
}

#[crate::entry_point]
extern "C" fn cublasGetStatusString(status: c_int) -> *const c_char {
    status_words(status).as_ptr()
}

#[crate::entry_point]
extern "C" fn cublasGetStatusName(status: c_int) -> *const c_char {
    status_words(status).as_ptr()
}

#[crate::entry_point]
extern "C" fn cublasLtGetStatusString(status: c_int) -> *const c_char {
    status_words(status).as_ptr()
}

#[crate::entry_point]
extern "C" fn cublasLtGetVersion() -> usize {
    usize::try_from(library_version()).unwrap_or(0)
}

#[crate::entry_point]
extern "C" fn cublasLtGetCudartVersion() -> usize {
    usize::try_from(cuda_version()).unwrap_or(0)
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
struct HeuristicResult {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// One algorithm, which needs no workspace of its own: torch passes the one it has.
#[crate::entry_point]
unsafe extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    _handle: u64,
    _operation: *const c_void,
    _a: *const c_void,
    _b: *const c_void,
    _c: *const c_void,
    _d: *const c_void,
    _preference: *const c_void,
    requested: c_int,
    results: *mut HeuristicResult,
    found: *mut c_int,
) -> i32 {
    if requested < 1 {
        return SUCCESS;
    }
    let result = HeuristicResult {
        algorithm: [1; 8],
        workspace_bytes: 0,
        state: SUCCESS,
        waves: 1.0,
        reserved: [0; 4],
    };
    // SAFETY: the caller's array has room for at least one result.
    unsafe {
        put(results, result);
        put(found, 1);
    }
    SUCCESS
}
