//! Keeps the program alive when another program truncates the journal.
//!
//! A page of a mapped file that the file no longer has raises `SIGBUS`, which ends a process. Our handler puts memory
//! of the process in the place of such a page if it belongs to the journal, and notes that recording must end. Every
//! other `SIGBUS` is passed to the earlier handler.
//!
//! A program may install its own handler later. One that calls the earlier handler by `raise`, as Python's `faulthandler` does, hides
//! the address of the fault, so for a signal that was sent the handler tests which pages are missing.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use floodmark_trace::journal::MOST_CHUNKS;
use parking_lot::Mutex;

use crate::switches::ENABLED;

const PAGE_BYTES: usize = 4096;

/// The start and end addresses of the journal's mappings; 0 for none.
static MAPPINGS: [(AtomicUsize, AtomicUsize); MOST_CHUNKS + 1] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST_CHUNKS + 1];
/// No mapping has a number from here on.
static MAPPINGS_END: AtomicUsize = AtomicUsize::new(0);
static WAS_TRUNCATED: AtomicBool = AtomicBool::new(false);

/// The earlier handler.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written under the lock before our handler is in place, and only read by it.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));
static IS_INSTALLED: Mutex<bool> = Mutex::new(false);

/// Guards a mapping from now on. `number` is that of a chunk, or [`MOST_CHUNKS`] for the ledger.
pub(crate) fn guard(number: usize, start: usize, bytes: usize) {
    let (begin, end) = &MAPPINGS[number];
    end.store(start + bytes, Ordering::Release);
    begin.store(start, Ordering::Release);
    MAPPINGS_END.fetch_max(number + 1, Ordering::AcqRel);
}

/// Stops guarding a mapping that is about to be unmapped.
pub(crate) fn forget(number: usize, start: usize) {
    let begin = &MAPPINGS[number].0;
    let _ = begin.compare_exchange(start, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Whether a page of the journal was missing, since the last call of [`install`].
pub(crate) fn was_truncated() -> bool {
    WAS_TRUNCATED.load(Ordering::Acquire)
}

fn handler_address() -> usize {
    on_bus_error as unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize
}

/// Puts the handler in place.
pub(crate) fn install() {
    let mut is_installed = IS_INSTALLED.lock();
    WAS_TRUNCATED.store(false, Ordering::Release);
    // SAFETY: plain calls on structs of our own; the handler calls nothing that a handler must not.
    unsafe {
        let mut current = MaybeUninit::<libc::sigaction>::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), current.as_mut_ptr()) != 0
            || current.assume_init_ref().sa_sigaction == handler_address()
        {
            return;
        }
        (*PREVIOUS.0.get()).write(current.assume_init());
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = handler_address();
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut ours.sa_mask);
        *is_installed = libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) == 0;
    }
}

/// Restores the earlier handler, if ours is still in place.
pub(crate) fn remove() {
    let mut is_installed = IS_INSTALLED.lock();
    if !*is_installed {
        return;
    }
    // SAFETY: as in `install`, which has written the previous handler.
    unsafe {
        let mut current = MaybeUninit::<libc::sigaction>::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), current.as_mut_ptr()) == 0
            && current.assume_init_ref().sa_sigaction == handler_address()
        {
            libc::sigaction(libc::SIGBUS, (*PREVIOUS.0.get()).as_ptr(), std::ptr::null_mut());
            *is_installed = false;
        }
    }
}

/// The page of the journal at an address, to the end of its mapping.
fn missing_pages(addr: usize) -> Option<(usize, usize)> {
    let count = MAPPINGS_END.load(Ordering::Acquire).min(MAPPINGS.len());
    MAPPINGS[..count].iter().find_map(|(begin, end)| {
        let (begin, end) = (begin.load(Ordering::Acquire), end.load(Ordering::Acquire));
        let first = addr & !(PAGE_BYTES - 1);
        (begin != 0 && (begin..end).contains(&addr)).then(|| (first, end - first))
    })
}

/// Whether a page can be read. The kernel reads the set of signals before it refuses the unknown operation.
fn is_readable(page: usize) -> bool {
    // SAFETY: a system call that changes nothing: it fails with `EFAULT` or with `EINVAL`.
    unsafe {
        let (operation, none) = (-1 as libc::c_long, std::ptr::null_mut::<c_void>());
        libc::syscall(libc::SYS_rt_sigprocmask, operation, page, none, 8_usize);
        *libc::__errno_location() != libc::EFAULT
    }
}

/// Replaces all pages that the files of the journal no longer have. False where none is missing.
fn replace_all_missing() -> bool {
    let count = MAPPINGS_END.load(Ordering::Acquire).min(MAPPINGS.len());
    let mut is_any_missing = false;
    for (begin, end) in &MAPPINGS[..count] {
        let (begin, end) = (begin.load(Ordering::Acquire), end.load(Ordering::Acquire));
        if begin == 0 || is_readable(end - PAGE_BYTES) {
            continue;
        }
        // A file loses its end: every page after the first that is missing is missing too.
        let (mut first, mut last) = (0, (end - begin) / PAGE_BYTES - 1);
        while first < last {
            let middle = usize::midpoint(first, last);
            if is_readable(begin + middle * PAGE_BYTES) {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        let start = begin + first * PAGE_BYTES;
        is_any_missing |= replace(start, end - start);
    }
    is_any_missing
}

/// Puts memory of the process in the place of missing pages, and ends the recording.
fn replace(start: usize, bytes: usize) -> bool {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: mapping memory is a plain system call, and it is put where only the journal was.
    let mapped = unsafe { libc::mmap(start as *mut c_void, bytes, access, kind, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    ENABLED.store(false, Ordering::SeqCst);
    WAS_TRUNCATED.store(true, Ordering::Release);
    true
}

unsafe extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a live struct, and `errno` belongs to the code that was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let is_fault = (*info).si_code > 0;
        let is_ours = if is_fault {
            missing_pages((*info).si_addr() as usize)
                .is_some_and(|(start, bytes)| replace(start, bytes))
        } else {
            // Two threads may fault at once, and the first handler replaces the pages of both. The `raise` of the second
            // is then ignored. A fault elsewhere is raised again, with its address, when this handler returns.
            let was_raised = (*info).si_code == libc::SI_TKILL;
            replace_all_missing() || (was_raised && was_truncated())
        };
        *libc::__errno_location() = errno;
        if !is_ours {
            pass_on(signal, info, context, is_fault);
        }
    }
}

/// Calls the earlier handler.
///
/// # Safety
/// With the arguments of a signal handler, from one.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_fault: bool) {
    // SAFETY: our handler is only in place after the previous one was written; its type is in its flags.
    unsafe {
        let previous = (*PREVIOUS.0.get()).assume_init_ref();
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::sigaction(signal, previous, std::ptr::null_mut());
                // A fault happens again when the handler returns; a signal that was sent does not.
                if !is_fault && previous.sa_sigaction == libc::SIG_DFL {
                    libc::raise(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                std::mem::transmute::<
                    usize,
                    unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void),
                >(handler)(signal, info, context);
            }
            handler => {
                std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(signal);
            }
        }
    }
}
