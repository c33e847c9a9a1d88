//! Threads of the recorder.

pub(crate) mod free_later;
pub(crate) mod signals;

use std::ffi::CString;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::{Builder, JoinHandle};

use crate::own_threads::signals::without_signals;

/// Starts a thread that handles no signal. It has its name before this returns, so that code that forks can see that it is not
/// the program's. Linux keeps 15 letters of a name.
pub(crate) fn spawn<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    let thread = without_signals(|| Builder::new().name(name.to_owned()).spawn(work))?;
    if let Ok(short) = CString::new(&name[..name.len().min(15)]) {
        // SAFETY: it is not joined yet, so its number is valid; the text ends in zero and is short enough.
        unsafe { libc::pthread_setname_np(thread.as_pthread_t(), short.as_ptr()) };
    }
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_name_at_once() {
        for _ in 0..100 {
            let thread = spawn("floodmark-a-long-name", std::thread::park).unwrap();
            let mut name = [0_u8; 16];
            // SAFETY: the thread waits; the call writes at most 16 bytes.
            unsafe {
                libc::pthread_getname_np(thread.as_pthread_t(), name.as_mut_ptr().cast(), 16);
            }
            assert_eq!(&name, b"floodmark-a-lon\0");
            thread.thread().unpark();
            thread.join().unwrap();
        }
    }
}
