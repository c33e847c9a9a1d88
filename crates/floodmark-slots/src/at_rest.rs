//! Runs work while the dynamic loader is idle.
//!
//! The loader lists an object as soon as it is mapped, before its slots are filled. At that time the loader overwrites what is
//! stored in a slot, and `dl_iterate_phdr` in another thread can crash: it looks for the thread-local memory of every object,
//! in a list that does not yet have the new object (glibc 2.39, `_dl_tls_get_addr_soft`, while the 65th object with such memory
//! is loaded).
//!
//! The loader does not export its lock. But `dlsym` holds it, and calls a function to get the address of an indirect symbol
//! (`STT_GNU_IFUNC`). So this module looks up an indirect symbol of its own, and runs the work inside that call.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;

/// The name of the symbol below.
const INDIRECT: &CStr = c"floodmark_slots_at_rest";

/// The function that [`resolve`] calls, and its argument.
type Waiting = (unsafe fn(*mut c_void), *mut c_void);

thread_local! {
    /// The work of this thread, from before the lookup until it is done.
    static WAITING: Cell<Option<Waiting>> = const { Cell::new(None) };
}

/// The type of the symbol makes it indirect. Only the loader calls it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn floodmark_slots_at_rest() -> usize {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".type floodmark_slots_at_rest, @gnu_indirect_function",
        "jmp {resolve}",
        resolve = sym resolve
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".type floodmark_slots_at_rest, %gnu_indirect_function",
        "b {resolve}",
        resolve = sym resolve
    );
}

/// The loader calls it with its lock held, to get the address of the symbol. The address is not used.
extern "C" fn resolve() -> usize {
    // A lookup by other code sets no work.
    if let Ok(Some((call, work))) = WAITING.try_with(Cell::take) {
        // SAFETY: `at_rest` of this thread set them, and waits for this call.
        unsafe { call(work) };
    }
    resolve as *const () as usize
}

/// A handle of the object that this code is in.
fn own_handle() -> *mut c_void {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    let find = || {
        // SAFETY: all zeroes is a record without names, and the loader fills it for an address of ours.
        // A handle that is never closed keeps this object loaded, which Python does anyway.
        unsafe {
            let mut record: libc::Dl_info = std::mem::zeroed();
            let own = (resolve as *const ()).cast();
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
            let is_known = libc::dladdr(own, &raw mut record) != 0 && !record.dli_fname.is_null();
            let handle =
                if is_known { libc::dlopen(record.dli_fname, flags) } else { std::ptr::null_mut() };
            // `dlopen` does not open the program itself by its name.
            if handle.is_null() {
                libc::dlopen(std::ptr::null(), flags) as usize
            } else {
                handle as usize
            }
        }
    };
    *HANDLE.get_or_init(find) as *mut c_void
}

/// The work, and later its result.
struct Task<F, R> {
    work: Option<F>,
    result: Option<Result<R, Box<dyn Any + Send>>>,
}

/// Runs the work of a [`Task`].
///
/// # Safety
/// `task` is one of this type, and no other code uses it.
unsafe fn run<F: FnOnce() -> R, R>(task: *mut c_void) {
    // SAFETY: the contract of this function.
    let task = unsafe { &mut *task.cast::<Task<F, R>>() };
    if let Some(work) = task.work.take() {
        // A panic must not unwind through the loader.
        task.result = Some(catch_unwind(AssertUnwindSafe(work)));
    }
}

/// Runs `work` while no other thread loads or unloads an object. Waits for the loader's lock.
///
/// Inside, no object is loaded or unloaded, and all slots are filled. A program that links this crate without
/// exporting its symbols cannot take the lock: there, `work` runs without it.
///
/// # Panics
/// If `work` panics.
pub fn at_rest<R>(work: impl FnOnce() -> R) -> R {
    let mut task = Task { work: Some(work), result: None };
    let call = call_of(&task);
    let data: *mut c_void = (&raw mut task).cast();
    WAITING.set(Some((call, data)));
    // SAFETY: a lookup by name in the object that this code is in.
    unsafe { libc::dlsym(own_handle(), INDIRECT.as_ptr()) };
    if let Some((call, data)) = WAITING.take() {
        // SAFETY: the same task, which has not run.
        unsafe { call(data) };
    }
    match task.result.expect("one of the two calls has done the work") {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

/// The function that runs tasks of this type.
fn call_of<F: FnOnce() -> R, R>(_: &Task<F, R>) -> unsafe fn(*mut c_void) {
    run::<F, R>
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// `build.rs` lets the tests of this crate export the symbol.
    #[test]
    fn no_object_is_loaded_meanwhile() {
        let (sender, receiver) = mpsc::channel();
        let load = move || {
            // SAFETY: a library of the system, which is not loaded yet.
            let handle = unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_LAZY) };
            sender.send(handle.is_null()).expect("the test waits");
        };
        let (thread, early) = at_rest(|| {
            let thread = std::thread::spawn(load);
            (thread, receiver.recv_timeout(Duration::from_millis(100)))
        });
        assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(600)), Ok(false));
        thread.join().expect("it does not panic");
    }

    #[test]
    fn work_may_be_nested_and_returns_its_result() {
        assert_eq!(at_rest(|| at_rest(|| 20) + at_rest(|| 22)), 42);
    }

    #[test]
    fn a_panic_is_resumed_and_the_lock_is_released() {
        let caught = catch_unwind(|| at_rest(|| panic!("on purpose")));
        assert!(caught.is_err());
        assert_eq!(std::thread::spawn(|| at_rest(|| 1)).join().expect("no panic"), 1);
    }
}
