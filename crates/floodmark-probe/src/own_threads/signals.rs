//! No thread of the recorder handles a signal of the program.

use std::mem::MaybeUninit;

/// Raised by an instruction of the thread itself: to block one of these kills the process.
const OWN_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs `spawn` with signals blocked. A thread that it starts keeps them blocked: a handler that ran there would not
/// interrupt the program, and a file that may not grow would end it (`SIGXFSZ`).
pub fn without_signals<R>(spawn: impl FnOnce() -> R) -> R {
    let mut blocked = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `blocked` is filled before it is read; `before` is written by the call.
    let changed = unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for signal in OWN_FAULTS {
            libc::sigdelset(blocked.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = spawn();
    if changed {
        // SAFETY: written by the call that succeeded.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: only asks; the call fills the set.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn a_thread_of_ours_handles_no_signal_of_the_program() {
        let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGXFSZ, libc::SIGBUS, libc::SIGSEGV];
        let before = signals.map(is_blocked);
        let thread = without_signals(|| std::thread::spawn(move || signals.map(is_blocked)));
        assert_eq!(thread.join().unwrap(), [true, true, true, false, false]);
        assert_eq!(signals.map(is_blocked), before, "the caller has its own again");
    }
}
