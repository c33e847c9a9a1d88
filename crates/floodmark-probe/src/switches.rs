//! Whether hooks record: two flags that are false in every child process, however the child was created.
//!
//! `pthread_atfork` handlers run for `fork` only. A child of `_Fork` or of a direct `clone` has the parent's mappings too, and a
//! hook in it would write into the parent's journal. So the flags are in pages that the kernel fills with zeros in
//! a child (`MADV_WIPEONFORK`, Linux 4.14). On an older kernel they are ordinary flags.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Hooks record events.
pub(crate) static ENABLED: ForkFlag = ForkFlag::new();
/// A window is open. While none is, hooks only keep track of live blocks.
pub(crate) static IS_WATCHED: ForkFlag = ForkFlag::new();

const PAGE_BYTES: usize = 4096;

/// A flag that a child process finds cleared.
#[derive(Debug)]
pub(crate) struct ForkFlag {
    /// Null until the flag is first stored.
    page: AtomicPtr<AtomicBool>,
    /// Used on kernels without such pages.
    fallback: AtomicBool,
}

impl ForkFlag {
    pub(crate) const fn new() -> Self {
        Self { page: AtomicPtr::new(std::ptr::null_mut()), fallback: AtomicBool::new(false) }
    }

    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> bool {
        let page = self.page.load(Ordering::Acquire);
        // SAFETY: `store` put it there, and it is never unmapped.
        !page.is_null() && unsafe { (*page).load(order) }
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        let page = self.page.load(Ordering::Acquire);
        let page = if page.is_null() { self.make() } else { page };
        // SAFETY: as above.
        unsafe { (*page).store(value, order) };
    }

    fn make(&self) -> *mut AtomicBool {
        let page = wiped_page().unwrap_or((&raw const self.fallback).cast_mut());
        let made = self.page.compare_exchange(
            std::ptr::null_mut(),
            page,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        made.map_or_else(|other| other, |_| page)
    }
}

fn wiped_page() -> Option<*mut AtomicBool> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping of our own; zero is a valid flag.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), PAGE_BYTES, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE_BYTES);
            return None;
        }
        Some(page.cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that the C library does not register, as with `_Fork`.
    #[test]
    fn a_child_that_no_handler_sees_finds_the_flag_cleared() {
        let flag = ForkFlag::new();
        assert!(!flag.load(Ordering::Acquire));
        flag.store(true, Ordering::SeqCst);
        // SAFETY: the child only reads a flag and ends.
        let status = unsafe {
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
            if child == 0 {
                libc::_exit(i32::from(flag.load(Ordering::Acquire)));
            }
            let mut status = -1;
            libc::waitpid(i32::try_from(child).unwrap(), &raw mut status, 0);
            status
        };
        assert_eq!(status, 0);
        assert!(flag.load(Ordering::Acquire));
    }
}
