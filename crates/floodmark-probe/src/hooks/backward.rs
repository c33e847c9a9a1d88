//! Autograd nodes that are created, and backward passes that run.

use std::mem::MaybeUninit;
use std::os::raw::c_void;
use std::sync::atomic::Ordering;

use super::hook::{Hook, original};
use crate::gil;
use crate::recorder::with_recording;
use crate::stacks::autograd_nodes::{self, BackwardState};
use crate::switches::IS_WATCHED;

pub(super) type NextNumber = unsafe extern "C-unwind" fn() -> u64;
pub(super) type Execute = unsafe extern "C-unwind" fn(
    *mut c_void,
    *const c_void,
    *const c_void,
    bool,
    bool,
    bool,
    *const c_void,
) -> VariableList;
pub(super) type IsAccelerator = unsafe extern "C-unwind" fn(i8) -> bool;

pub(super) static NEXT_NUMBER: Hook = Hook::new(c"_ZN2at15sequence_number17get_and_incrementEv");
pub(super) static EXECUTE: Hook = Hook::new(c"_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_");
pub(super) static IS_ACCELERATOR: Hook =
    Hook::new(c"_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE");

/// `at::sequence_number::get_and_increment`: an autograd node is being created.
pub(super) unsafe extern "C-unwind" fn next_number() -> u64 {
    // SAFETY: the replaced function.
    let number = unsafe { original::<NextNumber>(&NEXT_NUMBER).map_or(0, |original| original()) };
    with_recording(|recording, local| {
        if recording.has_stacks() {
            local.remember_node(recording, number);
        }
    });
    number
}

/// `std::vector<at::Tensor>` as it is returned: through a hidden pointer, since it is larger than two words.
#[repr(C)]
pub(super) struct VariableList {
    words: [MaybeUninit<usize>; 3],
}

/// `torch::autograd::Engine::execute`: a backward pass runs. The GIL is not held.
///
/// A pass inside another one (reentrant checkpoints) is part of it. `torch.autograd.grad` accumulates
/// nothing into `.grad`. A pass that throws leaves through here.
pub(super) unsafe extern "C-unwind" fn execute(
    engine: *mut c_void,
    roots: *const c_void,
    inputs: *const c_void,
    keep_graph: bool,
    create_graph: bool,
    accumulate_grad: bool,
    outputs: *const c_void,
) -> VariableList {
    let is_seen = accumulate_grad
        && IS_WATCHED.load(Ordering::Relaxed)
        && autograd_nodes::backward_state() == BackwardState::NotRunning;
    let mut pass = Pass { is_seen, has_failed: true };
    // SAFETY: the replaced function, with its own arguments. It exists, since only its callers'
    // slots lead here; an empty vector is three zeros.
    let found = unsafe {
        match original::<Execute>(&EXECUTE) {
            Some(original) => {
                original(engine, roots, inputs, keep_graph, create_graph, accumulate_grad, outputs)
            }
            None => VariableList { words: [MaybeUninit::new(0); 3] },
        }
    };
    pass.has_failed = false;
    found
}

/// A backward pass that runs. Dropped when it returns or throws.
struct Pass {
    is_seen: bool,
    has_failed: bool,
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.is_seen {
            gil::call_backward_handler(self.has_failed);
        }
    }
}

/// `at::accelerator::isAccelerator`: autograd synchronizes streams where it returns true.
///
/// For fake tensors on a device that does not exist it returns false: otherwise torch refuses to add up
/// gradients that would have to wait for the device.
pub(super) unsafe extern "C-unwind" fn is_accelerator(kind: i8) -> bool {
    let has_none = with_recording(|recording, _| recording.is_without_device());
    if has_none == Some(true) {
        return false;
    }
    // SAFETY: the replaced function, with its own argument.
    unsafe { original::<IsAccelerator>(&IS_ACCELERATOR).is_some_and(|original| original(kind)) }
}
