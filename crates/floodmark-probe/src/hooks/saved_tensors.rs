//! Tensors that autograd saves for the backward pass, and gradients that it accumulates.
//!
//! Every operator that needs a tensor in backward creates a `torch::autograd::SavedVariable` of it, in C++ and
//! in Python's `ctx.save_for_backward`. Its constructor and its `unpack` are exported functions that torch
//! calls through slots, so nothing is registered with torch and no hook of the program's is touched.
//!
//! After a gradient was added to a leaf's `.grad`, and before the program's own hooks run, torch reads
//! those hooks (`torch::autograd::impl::post_acc_grad_hooks`). Every gradient passes there, on
//! every thread.

use std::os::raw::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use floodmark_slots::find_symbol;
use floodmark_trace::journal::Record;
use floodmark_trace::{Category, EventKind};

use super::hidden_result;
use super::hook::{Hook, original};
use crate::blocks::tensor_storage::storage_of;
use crate::recorder::names::label_id;
use crate::recorder::with_recording;
use crate::switches::IS_WATCHED;

pub(super) type Save = unsafe extern "C-unwind" fn(*mut c_void, *const usize, bool, bool);
/// `SavedVariable::unpack`, as torch calls it.
#[cfg(target_arch = "aarch64")]
pub(super) type UnpackEntry = hidden_result::Entry;
#[cfg(not(target_arch = "aarch64"))]
pub(super) type UnpackEntry = hidden_result::Member;
pub(super) type PostAccumulate = unsafe extern "C-unwind" fn(*const usize) -> *const c_void;

pub(super) static SAVE: Hook = Hook::new(c"_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb");
pub(super) static UNPACK: Hook =
    Hook::new(c"_ZNK5torch8autograd13SavedVariable6unpackESt10shared_ptrINS0_4NodeEE");
pub(super) static UNPACK_INTRUSIVE: Hook = Hook::new(c"_ZNK5torch8autograd13SavedVariable6unpackEN3c1013intrusive_ptrINS0_4NodeENS2_6detail34intrusive_target_default_null_typeIS4_EEEE");
pub(super) static POST_ACCUMULATE: Hook =
    Hook::new(c"_ZN5torch8autograd4impl19post_acc_grad_hooksERKN2at6TensorE");

/// `const at::Tensor& c10::TensorImpl::grad() const`.
static GET_GRADIENT: AtomicUsize = AtomicUsize::new(0);

/// Looks up torch's functions.
pub(crate) fn attach() {
    let function = find_symbol(c"_ZNK3c1010TensorImpl4gradEv").unwrap_or(0);
    GET_GRADIENT.store(function, Ordering::Release);
}

/// Records what happened to the allocation of a tensor.
///
/// # Safety
/// `tensor` points to an `at::Tensor` that no other thread changes now.
unsafe fn note(kind: EventKind, tensor: *const usize) {
    if !IS_WATCHED.load(Ordering::Relaxed) {
        return;
    }
    with_recording(|recording, local| {
        // SAFETY: the caller's promise.
        let place = unsafe { storage_of(recording.sources(), tensor) };
        if let Some((device, addr)) = place.filter(|(device, _)| recording.wants(*device)) {
            local.write(recording, Record::block(kind, device, addr, 0), &[]);
        }
    });
}

/// `SavedVariable::SavedVariable(const at::Tensor&, bool is_output, bool is_inplace_on_view)`.
pub(super) unsafe extern "C-unwind" fn save(
    this: *mut c_void,
    variable: *const usize,
    is_output: bool,
    is_inplace_on_view: bool,
) {
    // SAFETY: torch passes a tensor; then the replaced function, with its own arguments.
    unsafe {
        note(EventKind::Saved, variable);
        if let Some(original) = original::<Save>(&SAVE) {
            original(this, variable, is_output, is_inplace_on_view);
        }
    }
}

/// `at::Tensor SavedVariable::unpack(std::shared_ptr<Node>) const`. The result is written where `result` points.
pub(super) unsafe extern "C-unwind" fn unpack(
    result: *mut usize,
    this: *const c_void,
    saved_for: *mut c_void,
) -> *mut usize {
    // SAFETY: torch's own arguments.
    unsafe { unpack_as(&UNPACK, result, this, saved_for) }
}

/// `at::Tensor SavedVariable::unpack(c10::intrusive_ptr<Node>) const`, as [`unpack`].
pub(super) unsafe extern "C-unwind" fn unpack_intrusive(
    result: *mut usize,
    this: *const c_void,
    saved_for: *mut c_void,
) -> *mut usize {
    // SAFETY: torch's own arguments.
    unsafe { unpack_as(&UNPACK_INTRUSIVE, result, this, saved_for) }
}

#[cfg(not(target_arch = "aarch64"))]
pub(super) use {unpack as unpack_entry, unpack_intrusive as unpack_intrusive_entry};
hidden_result::entry!(unpack_entry => unpack);
hidden_result::entry!(unpack_intrusive_entry => unpack_intrusive);

/// Calls the function that `hook` replaces, and records the tensor that it returns.
///
/// # Safety
/// The arguments are those of that function.
unsafe fn unpack_as(
    hook: &Hook,
    result: *mut usize,
    this: *const c_void,
    saved_for: *mut c_void,
) -> *mut usize {
    // SAFETY: the caller's promise. The function is there, since only its callers' slots lead here. What it
    // returns is a tensor.
    unsafe {
        if let Some(original) = original::<hidden_result::Member>(hook) {
            hidden_result::call(original, result, this, saved_for);
            note(EventKind::Unpacked, result);
        }
    }
    result
}

/// `torch::autograd::impl::post_acc_grad_hooks(const at::Tensor&)`: `variable.grad` has its new value.
pub(super) unsafe extern "C-unwind" fn post_accumulate(variable: *const usize) -> *const c_void {
    let gradient = GET_GRADIENT.load(Ordering::Acquire);
    if gradient != 0 && IS_WATCHED.load(Ordering::Relaxed) {
        // SAFETY: torch passes a tensor that is defined. Its `grad()` returns a reference to a tensor, which
        // may be undefined and lives as long as the variable. torch holds a lock of the variable's node here.
        unsafe {
            let get = std::mem::transmute::<
                usize,
                unsafe extern "C-unwind" fn(usize) -> *const usize,
            >(gradient);
            label_gradient(get(variable.read()));
        }
    }
    // SAFETY: the replaced function, with its own argument; only its callers' slots lead here.
    unsafe {
        original::<PostAccumulate>(&POST_ACCUMULATE)
            .map_or(std::ptr::null(), |original| original(variable))
    }
}

/// Labels a gradient. Python adds its name, that of the parameter, after the backward pass.
///
/// # Safety
/// As for [`storage_of`].
unsafe fn label_gradient(gradient: *const usize) {
    with_recording(|recording, local| {
        // SAFETY: the caller's promise.
        let place = unsafe { storage_of(recording.sources(), gradient) };
        if let Some((device, addr)) = place.filter(|(device, _)| recording.wants(*device)) {
            let nothing = String::new;
            let category = Category::Gradient;
            let label = label_id(recording, local, category, nothing(), nothing(), nothing());
            local.write(recording, Record::label(device, addr, label), &[]);
        }
    });
}
