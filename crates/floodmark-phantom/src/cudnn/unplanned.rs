//! Descriptors of our own, for a cuDNN that cannot plan without a device.
//!
//! Every graph has one plan, and it takes no workspace. The requests for a plan are reported with the
//! refused calls, since the estimate lacks the workspaces of the real plans.

use std::ffi::{c_int, c_void};

use super::library::Descriptor;
use super::tensors::destroy_descriptor;
use super::{BAD_PARAM, SUCCESS};
use crate::guard::refuse;
use crate::status::put;

const RESULTS_OF_HEURISTICS: c_int = 202;
const WORKSPACE_OF_CONFIGURATION: c_int = 303;
const WORKSPACE_OF_PLAN: c_int = 402;
const TYPE_NUMBER: c_int = 3;

/// Makes a descriptor of any kind.
///
/// # Safety
/// The pointer is null or can be written to.
pub(super) unsafe fn create(to: *mut Descriptor) -> i32 {
    // A byte of its own, so that each has an address of its own.
    // SAFETY: by this function's contract.
    unsafe { put(to, Box::into_raw(Box::new(0_u8)).cast()) };
    SUCCESS
}

/// Destroys a descriptor.
///
/// # Safety
/// It came from [`create`], and is not used again.
pub(super) unsafe fn destroy(descriptor: Descriptor) -> i32 {
    // SAFETY: by this function's contract.
    unsafe { destroy_descriptor(descriptor.cast::<u8>()) }
}

/// Returns one plan without workspace for heuristics and plans; nothing else.
///
/// # Safety
/// `count` and `values` are null or can be written to.
pub(super) unsafe fn get(
    attribute: c_int,
    kind: c_int,
    room: i64,
    count: *mut i64,
    values: *mut c_void,
) -> i32 {
    // SAFETY: by this function's contract; a number has eight bytes.
    unsafe {
        match attribute {
            // The caller created the descriptors to fill.
            RESULTS_OF_HEURISTICS => put(count, 1),
            WORKSPACE_OF_PLAN | WORKSPACE_OF_CONFIGURATION if kind == TYPE_NUMBER && room > 0 => {
                refuse("cudnn", "workspace", 0);
                put(count, 1);
                put(values.cast::<i64>(), 0);
            }
            _ if room < 0 => return BAD_PARAM,
            _ => put(count, 0),
        }
    }
    SUCCESS
}
