//! What modules and tensors are called, read from torch's Python objects without running Python code.
//!
//! Modules get their qualified names below the outermost module around them. Parameters and buffers of named modules,
//! gradients, and the states of every optimizer that steps get labels, by the address of their storage.
//!
//! The interpreter runs signal handlers of the program, and raises what other threads sent to it, between any two
//! instructions of Python code. Were ours Python code, such an exception could arise in it, and would be taken for a
//! failure of ours. So nothing here enters the interpreter's loop: dictionaries, weak references and tensors are read by
//! C functions only, past `__getattr__`, properties, `__torch_function__` and `__hash__` of the program's classes, and
//! without `str` and `repr`, which run signal handlers too. No debugger sees a frame, no mode a call. Weak references
//! are all that is kept.
//!
//! From the bottom up:
//!
//! ```text
//! torch_objects   reads modules, tensors and optimizers
//! tensor_labels   the label of a tensor; of all gradients of some parameters
//! running_steps   which optimizer steps run
//! names           names of modules and parameters
//! gradients       gradients after a backward pass
//! optimizers      gradients and states when an optimizer steps
//! ```
#![forbid(unsafe_code)]

mod gradients;
mod names;
mod optimizers;
mod running_steps;
mod tensor_labels;
mod torch_objects;

use pyo3::prelude::*;

pub use optimizers::OptimizerHooks;
pub use running_steps::RunningSteps;
pub use tensor_labels::{label_tensor, set_address_finder};

use torch_objects::Torch;

/// Modules that run have no name yet. With the GIL held.
pub fn name_seen_modules() {
    // The interpreter may be ending; then names are not needed any more.
    Python::try_attach(names::name_seen_modules);
}

/// A backward pass has returned or thrown, and the program goes on afterwards. With the GIL held.
pub fn after_backward(has_failed: bool) {
    Python::try_attach(|py| {
        // What the pass raised is not ours to handle.
        let raised = PyErr::take(py);
        gradients::after_backward(py, has_failed);
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}

/// torch is imported; `torch` has the parts of it that are used here.
#[pyfunction]
pub fn attach_names(py: Python<'_>, torch: Torch) {
    torch_objects::set(py, torch);
}

/// A recording ended, or another one began: forget all names.
#[pyfunction]
pub fn forget_names(py: Python<'_>) {
    names::forget_all(py);
}
