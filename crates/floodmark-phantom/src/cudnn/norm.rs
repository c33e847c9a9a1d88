//! Batch normalization by the older calls.
//!
//! On an H200 with tensors whose channels do not come last, it was seen to take no workspace and to keep
//! nothing. With channels last, torch has kernels of its own for most cases, and what cuDNN's would take
//! was not measured: it is counted as nothing.

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
