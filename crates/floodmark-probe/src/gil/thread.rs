//! The thread that takes the GIL while Python's main thread waits.
//!
//! It is started at the first request of a thread other than the main one, sleeps between requests, and ends with the
//! recording. Python may end a thread that requests the GIL while the interpreter shuts down: it unwinds the thread's
//! stack without a panic. So the frames around that call have nothing to drop, and no Rust thread is around them.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::own_threads::signals::without_signals;
use crate::python;
use crate::switches::ENABLED;

use super::handlers;

/// No thread.
const NONE: u8 = 0;
/// The writer must start one: hooks start no thread.
const WANTED: u8 = 1;
/// It sleeps, or serves a request.
const STARTED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NONE);
/// Incremented by each request; the thread sleeps until it changes.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// The thread runs Python code.
static IS_AT_WORK: AtomicBool = AtomicBool::new(false);

/// Enough for the names of a model, which are found without recursion.
const STACK_BYTES: usize = 1 << 20;
/// How long the end of the program waits for names.
const LONGEST_WORK: Duration = Duration::from_secs(1);

/// Requests work. Does not wait: hooks call it.
pub(crate) fn wake() {
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    let _ = STATE.compare_exchange(NONE, WANTED, Ordering::SeqCst, Ordering::SeqCst);
    // SAFETY: the address is that of a static; a wake reads nothing else.
    unsafe {
        libc::syscall(libc::SYS_futex, REQUESTS.as_ptr(), libc::FUTEX_WAKE | PRIVATE, 1);
    }
}

/// Starts the thread if it was requested. The writer calls this.
pub(crate) fn start_if_requested() {
    if STATE.compare_exchange(WANTED, STARTED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        && !without_signals(start)
    {
        STATE.store(NONE, Ordering::SeqCst);
    }
}

/// Ends the thread, once nothing is recorded any more.
pub(crate) fn end() {
    if STATE.load(Ordering::SeqCst) == STARTED {
        wake();
    }
}

/// Waits until the thread runs no Python code. Nothing is recorded any more, and the GIL must not be held.
pub fn wait_for_names() {
    let begin = Instant::now();
    while IS_AT_WORK.load(Ordering::SeqCst) && begin.elapsed() < LONGEST_WORK {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A forked child has no such thread.
pub(crate) fn forget_after_fork() {
    STATE.store(NONE, Ordering::SeqCst);
    IS_AT_WORK.store(false, Ordering::SeqCst);
}

const PRIVATE: libc::c_int = libc::FUTEX_PRIVATE_FLAG;

/// What `pthread_create` calls: Python may unwind it.
type Body = extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void;
/// The same as `libc` declares it.
type DeclaredBody = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

fn start() -> bool {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let mut thread = std::mem::MaybeUninit::uninit();
    // SAFETY: the two types differ in what may unwind, which the C library allows of its threads. The attributes are
    // made before they are used, and the thread is never joined.
    unsafe {
        let body = std::mem::transmute::<Body, DeclaredBody>(run);
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return false;
        }
        let attributes = attributes.as_mut_ptr();
        libc::pthread_attr_setstacksize(attributes, STACK_BYTES);
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        let status =
            libc::pthread_create(thread.as_mut_ptr(), attributes, body, std::ptr::null_mut());
        libc::pthread_attr_destroy(attributes);
        status == 0
    }
}

extern "C-unwind" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: names this thread, with a text that ends in zero and is short enough.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), c"floodmark-names".as_ptr()) };
    loop {
        let seen = REQUESTS.load(Ordering::SeqCst);
        if ENABLED.load(Ordering::SeqCst) {
            python::with_gil_on_any_thread(work);
        } else {
            STATE.store(NONE, Ordering::SeqCst);
            // A request since then may have found this thread running, and started no other.
            if REQUESTS.load(Ordering::SeqCst) == seen
                || STATE
                    .compare_exchange(NONE, STARTED, Ordering::SeqCst, Ordering::SeqCst)
                    .is_err()
            {
                return std::ptr::null_mut();
            }
        }
        // SAFETY: the address is that of a static. The call returns at once after a new request.
        unsafe {
            let none = std::ptr::null::<libc::timespec>();
            libc::syscall(
                libc::SYS_futex,
                REQUESTS.as_ptr(),
                libc::FUTEX_WAIT | PRIVATE,
                seen,
                none,
            );
        }
    }
}

/// The GIL is held here and where a recording ends: the end waits for this call, or this call does nothing.
fn work() {
    if ENABLED.load(Ordering::SeqCst) {
        IS_AT_WORK.store(true, Ordering::SeqCst);
        handlers::call_names_handler();
        IS_AT_WORK.store(false, Ordering::SeqCst);
    }
}
