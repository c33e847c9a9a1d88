//! The functions that run with the GIL held, set by the Python boundary.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::python;

/// Names modules and takes references to code objects.
static NAMES_HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Labels gradients after a backward pass.
static BACKWARD_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that is called, with the GIL held, after [`super::GilRequest::request`].
/// It calls [`crate::pin_running_code`] and names the modules that it returns.
pub fn set_gil_work_handler(handler: fn()) {
    NAMES_HANDLER.store(handler as usize, Ordering::Release);
}

/// Sets the function that is called, with the GIL held, after each outermost backward pass that
/// accumulates gradients. Its argument is true where the pass threw.
pub fn set_backward_handler(handler: fn(bool)) {
    BACKWARD_HANDLER.store(handler as usize, Ordering::Release);
}

/// Calls the handler of [`set_backward_handler`], on the thread that ran the pass: the program may free the gradients
/// soon after.
pub(crate) fn call_backward_handler(has_failed: bool) {
    let handler = BACKWARD_HANDLER.load(Ordering::Acquire);
    if handler != 0 {
        // SAFETY: only `set_backward_handler` stores here.
        let handler = unsafe { std::mem::transmute::<usize, fn(bool)>(handler) };
        // torch runs a pass without the GIL. A panic must not reach torch.
        python::with_gil(|| drop(std::panic::catch_unwind(|| handler(has_failed))));
    }
}

pub(super) fn has_names_handler() -> bool {
    NAMES_HANDLER.load(Ordering::Acquire) != 0
}

/// Calls the handler of [`set_gil_work_handler`]. The GIL must be held.
pub(super) fn call_names_handler() {
    let handler = NAMES_HANDLER.load(Ordering::Acquire);
    if handler != 0 {
        // SAFETY: only `set_gil_work_handler` stores here.
        let handler = unsafe { std::mem::transmute::<usize, fn()>(handler) };
        // A panic must not reach the interpreter.
        let _ = std::panic::catch_unwind(handler);
    }
}
