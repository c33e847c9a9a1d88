//! Work that needs the GIL, deferred until a thread can take the GIL.
//!
//! The recorder keeps code objects alive and gives modules their names; both need the GIL. It schedules a pending call
//! on the main thread, once for each new function and each new model, not for each event. The main thread of a server
//! may wait for as long as the server runs, so a request of another thread is also served by a separate thread
//! ([`thread`]).

mod handlers;
pub(crate) mod thread;

use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use handlers::call_backward_handler;
pub use handlers::{set_backward_handler, set_gil_work_handler};

use crate::python;

/// Whether the handler of [`set_gil_work_handler`] is scheduled.
#[derive(Debug, Default)]
pub(crate) struct GilRequest(AtomicBool);

impl GilRequest {
    /// Schedules the handler, unless it is scheduled already.
    pub(crate) fn request(&self) {
        if self.0.swap(true, Ordering::AcqRel) {
            return;
        }
        // When the interpreter's queue is full, the next event tries again.
        if !handlers::has_names_handler() || !python::call_soon(serve) {
            self.0.store(false, Ordering::Release);
        } else if !is_main_thread() {
            thread::wake();
        }
    }

    /// The handler runs: a later request schedules it again.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }
}

fn is_main_thread() -> bool {
    // SAFETY: both calls return numbers and have no other effect.
    unsafe { libc::gettid() == libc::getpid() }
}

unsafe extern "C" fn serve(_: usize) -> i32 {
    handlers::call_names_handler();
    0
}
