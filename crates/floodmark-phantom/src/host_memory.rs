//! The program's own memory, read and written without a fault.
//!
//! A bad pointer must give an error, as from the kernel, and not a signal that ends the program.
//! `process_vm_readv` on the process itself copies and answers `EFAULT`; if a sandbox forbids it, the
//! kernel's list of mappings is read first.

use std::fs;

use libc::{c_void, iovec};

/// No call of the kernel copies more.
const MOST_AT_ONCE: usize = 1 << 30;
const PAGE: u64 = 4096;

/// Copies; `false` when a byte of `from` cannot be read or one of `to` cannot be written.
pub(crate) fn copy(to: u64, from: u64, length: u64) -> bool {
    let Ok(length) = usize::try_from(length) else { return false };
    let mut done = 0;
    while done < length {
        let bytes = (length - done).min(MOST_AT_ONCE);
        let (Some(to), Some(from)) = (after(to, done), after(from, done)) else { return false };
        match copy_by_kernel(to, from, bytes) {
            Copied::All => done += bytes,
            Copied::Fault => return false,
            Copied::Refused => return copy_by_mappings(to, from, length - done),
        }
    }
    true
}

/// Fills with one value; `false` when a byte cannot be written.
pub(crate) fn fill(to: u64, value: u8, length: u64) -> bool {
    let pattern = vec![value; usize::try_from(length.min(1 << 20)).unwrap_or(0)];
    let mut done = 0;
    while done < length {
        let bytes = (length - done).min(pattern.len() as u64);
        let Some(to) = to.checked_add(done) else { return false };
        if !copy(to, pattern.as_ptr() as u64, bytes) {
            return false;
        }
        done += bytes;
    }
    true
}

/// Whether a range can be read, without reading all of it: its ends can, and no page between is missing.
pub(crate) fn is_readable(from: u64, length: u64) -> bool {
    let Some(last) = length.checked_sub(1).and_then(|rest| from.checked_add(rest)) else {
        return length == 0;
    };
    let mut byte = 0_u8;
    let to = &raw mut byte as u64;
    copy(to, from, 1) && copy(to, last, 1) && is_mapped(from, last)
}

enum Copied {
    All,
    Fault,
    /// A sandbox does not allow the call.
    Refused,
}

fn copy_by_kernel(to: u64, from: u64, bytes: usize) -> Copied {
    let to = iovec { iov_base: to as *mut c_void, iov_len: bytes };
    let from = iovec { iov_base: from as *mut c_void, iov_len: bytes };
    // SAFETY: the kernel checks both ranges; the caller requests the write.
    let copied =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    if usize::try_from(copied) == Ok(bytes) {
        return Copied::All;
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    let is_refused = copied < 0 && matches!(error, Some(libc::ENOSYS | libc::EPERM));
    if is_refused { Copied::Refused } else { Copied::Fault }
}

fn copy_by_mappings(to: u64, from: u64, length: usize) -> bool {
    let Ok(mappings) = fs::read_to_string("/proc/self/maps") else { return false };
    let bytes = length as u64;
    let is_allowed =
        allows(&mappings, from, bytes, 0, b'r') && allows(&mappings, to, bytes, 1, b'w');
    if is_allowed {
        // SAFETY: the kernel lists both ranges with the access that is needed.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, length) };
    }
    is_allowed
}

/// Whether the lines of `/proc/self/maps` cover a range with an access: its letter, and where that stands.
fn allows(mappings: &str, start: u64, bytes: u64, at: usize, letter: u8) -> bool {
    let Some(end) = start.checked_add(bytes) else { return false };
    let mut next = start;
    for line in mappings.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some((from, to)), Some(access)) =
            (words.next().and_then(|range| range.split_once('-')), words.next())
        else {
            continue;
        };
        let hex = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        let is_there = (hex(from)..hex(to)).contains(&next);
        if is_there && access.as_bytes().get(at) == Some(&letter) {
            next = hex(to);
        }
        if next >= end {
            return true;
        }
    }
    false
}

/// Whether every page from `first` to `last` belongs to a mapping.
fn is_mapped(first: u64, last: u64) -> bool {
    let mut states = vec![0_u8; 1 << 12];
    let (mut page, end) = (first / PAGE, last / PAGE + 1);
    while page < end {
        let pages = (end - page).min(states.len() as u64);
        let length = usize::try_from(pages * PAGE).unwrap_or(0);
        // SAFETY: there is a byte for each page; the kernel checks the range.
        let status =
            unsafe { libc::mincore((page * PAGE) as *mut c_void, length, states.as_mut_ptr()) };
        if status != 0 {
            return false;
        }
        page += pages;
    }
    true
}

fn after(addr: u64, bytes: usize) -> Option<u64> {
    addr.checked_add(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages: one that can be written, one to read alone, one without access.
    fn pages() -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, whose pages lose rights.
        unsafe {
            let addr = libc::mmap(std::ptr::null_mut(), 3 * 4096, access, flags, -1, 0);
            assert_ne!(addr, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(addr.byte_add(4096), 4096, libc::PROT_READ), 0);
            assert_eq!(libc::mprotect(addr.byte_add(8192), 4096, libc::PROT_NONE), 0);
            addr as u64
        }
    }

    #[test]
    fn bad_pointers_are_an_answer() {
        let pages = pages();
        let other = vec![7_u8; 8192];
        let good = other.as_ptr() as u64;
        assert!(copy(pages, good, 4096));
        assert!(copy(good, pages, 8192));
        assert!(!copy(pages + 4096, good, 16));
        assert!(!copy(good, pages + 4096, 4097));
        for bad in [0, 8, 1 << 62, u64::MAX] {
            assert!(!copy(good, bad, 64), "{bad:x}");
            assert!(!copy(bad, good, 64), "{bad:x}");
            assert!(!is_readable(bad, 64), "{bad:x}");
        }
        assert!(is_readable(pages, 8192));
        assert!(!is_readable(pages, 8193));
        assert!(!is_readable(pages, u64::MAX));
        assert!(fill(pages, 3, 4096) && !fill(pages, 3, 4097));
    }

    #[test]
    fn the_list_of_mappings_says_the_same() {
        let pages = pages();
        let mappings = fs::read_to_string("/proc/self/maps").expect("the kernel has it");
        assert!(allows(&mappings, pages, 8192, 0, b'r'));
        assert!(!allows(&mappings, pages, 8193, 0, b'r'));
        assert!(allows(&mappings, pages, 4096, 1, b'w'));
        assert!(!allows(&mappings, pages, 4097, 1, b'w'));
        assert!(!allows(&mappings, 8, 8, 0, b'r'));
        assert!(!allows(&mappings, u64::MAX, 8, 0, b'r'));
        let from = [1_u8; 16];
        assert!(copy_by_mappings(pages, from.as_ptr() as u64, 16));
        assert!(!copy_by_mappings(pages + 4096, from.as_ptr() as u64, 16));
    }
}
