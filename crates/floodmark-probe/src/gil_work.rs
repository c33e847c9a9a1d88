//! Work that needs the GIL, deferred to a time when Python can do it.
//!
//! Code objects must be kept alive and modules must get their names; both need Python. The interpreter
//! is asked for a call on the main thread at its next chance. That happens once for each new function
//! and each new model, not once for each event. The main thread of a server may wait for as long as the
//! server runs, so what another thread asks for is also done by [`gil_thread`].
//!
//! After a backward pass Python labels the gradients, on the thread that ran it and before the program
//! goes on: they may be freed soon.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::recording::Recording;
use crate::{gil_thread, python};

/// What to call with the GIL held: set by the Python boundary.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that is called, with the GIL held, when such work is requested.
/// It calls [`crate::pin_running_code`] and names the modules that it returns.
pub fn set_gil_work_handler(handler: fn()) {
    HANDLER.store(handler as usize, Ordering::Release);
}

/// What to call after a backward pass: set by the Python boundary.
static BACKWARD_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that is called, with the GIL held, after each outermost backward pass that
/// accumulates gradients.
/// It gets whether the pass threw.
pub fn set_backward_handler(handler: fn(bool)) {
    BACKWARD_HANDLER.store(handler as usize, Ordering::Release);
}

/// Calls the handler of [`set_backward_handler`].
pub(crate) fn after_backward(has_failed: bool) {
    let handler = BACKWARD_HANDLER.load(Ordering::Acquire);
    if handler != 0 {
        // SAFETY: only `set_backward_handler` stores here.
        let handler = unsafe { std::mem::transmute::<usize, fn(bool)>(handler) };
        // torch runs a pass without the GIL. A panic must not reach torch.
        python::with_gil(|| drop(std::panic::catch_unwind(|| handler(has_failed))));
    }
}

pub(crate) fn request(recording: &Recording) {
    if recording.is_gil_work_requested.swap(true, Ordering::AcqRel) {
        return;
    }
    // When the interpreter's queue is full we ask again at the next chance.
    if HANDLER.load(Ordering::Acquire) == 0 || !python::call_soon(serve) {
        recording.is_gil_work_requested.store(false, Ordering::Release);
    } else if !is_main_thread() {
        gil_thread::wake();
    }
}

fn is_main_thread() -> bool {
    // SAFETY: both only ask for numbers.
    unsafe { libc::gettid() == libc::getpid() }
}

unsafe extern "C" fn serve(_: usize) -> i32 {
    do_requested();
    0
}

/// Calls the handler of [`set_gil_work_handler`]. The GIL must be held.
pub(crate) fn do_requested() {
    let handler = HANDLER.load(Ordering::Acquire);
    if handler != 0 {
        // SAFETY: only `set_gil_work_handler` stores here.
        let handler = unsafe { std::mem::transmute::<usize, fn()>(handler) };
        // A panic must not reach the interpreter.
        let _ = std::panic::catch_unwind(handler);
    }
}
