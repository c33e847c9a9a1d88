//! Batch normalization by the older calls.
//!
//! On an H200 with tensors whose channels are not last, it used no workspace and no reserve. With
//! channels last, torch has its own kernels for most cases, and cuDNN's workspace was not measured: it
//! counts as 0.

use std::ffi::{c_int, c_void};

use super::SUCCESS;
use super::tensors::Tensor;
use crate::status::put;

#[crate::entry_point]
unsafe extern "C" fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    _handle: *mut c_void,
    _mode: c_int,
    _with: c_int,
    _x: *const Tensor,
    _z: *const Tensor,
    _y: *const Tensor,
    _scale: *const Tensor,
    _activation: *const c_void,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { put(bytes, 0) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    _handle: *mut c_void,
    _mode: c_int,
    _with: c_int,
    _x: *const Tensor,
    _y: *const Tensor,
    _dy: *const Tensor,
    _dz: *const Tensor,
    _dx: *const Tensor,
    _scale: *const Tensor,
    _activation: *const c_void,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { put(bytes, 0) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    _handle: *mut c_void,
    _mode: c_int,
    _with: c_int,
    _activation: *const c_void,
    _x: *const Tensor,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { put(bytes, 0) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnBatchNormalizationForwardTrainingEx() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnBatchNormalizationForwardInference() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnBatchNormalizationBackwardEx() -> i32 {
    SUCCESS
}
