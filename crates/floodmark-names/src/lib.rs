//! Names of modules and tensors, read from torch's Python objects without running Python code.
//!
//! Modules get their qualified names below the outermost module around them. Parameters and buffers of named modules,
//! gradients, and the states of every optimizer that steps get labels, by the address of their storage.
//!
//! The interpreter runs signal handlers of the program, and raises what other threads sent to it, between any two
//! instructions of Python code. In Python code of the recorder such an exception would look like a
//! failure of the recorder. So nothing here enters the interpreter's loop: dictionaries, weak references and tensors are read by
//! C functions only, past `__getattr__`, properties, `__torch_function__` and `__hash__` of the program's classes, and
//! without `str` and `repr`, which run signal handlers too. No debugger sees a frame and no mode a call. Only weak references
//! are kept.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`torch_objects`]: reads modules, tensors and optimizers; [`running_steps`]: which optimizer steps run.
//! 2. [`tensor_labels`]: the label of a tensor; of all gradients of some parameters.
//! 3. [`names`]: names of modules and parameters.
//! 4. [`gradients`]: gradients after a backward pass.
//! 5. [`optimizers`]: gradients and states when an optimizer steps.
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

/// Names the running modules that have no name yet. The GIL is held.
pub fn name_seen_modules() {
    // The interpreter may be ending; then names are not needed any more.
    Python::try_attach(names::name_seen_modules);
}

/// Called after a backward pass has returned or thrown. The GIL is held.
pub fn after_backward(has_failed: bool) {
    Python::try_attach(|py| {
        // An exception of the pass stays set for torch.
        let raised = PyErr::take(py);
        gradients::after_backward(py, has_failed);
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}

/// Stores the parts of torch that are used here, after its import.
#[pyfunction]
pub fn attach_names(py: Python<'_>, torch: Torch) {
    torch_objects::set(py, torch);
}

/// Clears all names, when a recording starts or ends.
#[pyfunction]
pub fn forget_names(py: Python<'_>) {
    names::forget_all(py);
}
