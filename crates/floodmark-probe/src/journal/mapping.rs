//! Memory that is shared with a file of the journal.
//!
//! A file is allocated on disk before it is mapped, so a full disk is an error here and never a signal
//! later, when a record is written into a page that has no place on disk.

use std::io;
use std::path::Path;

use crate::files::own_file::{OwnFile, check_length};
use crate::journal::bus_error;

/// The size of a page of memory.
pub(crate) const PAGE_BYTES: usize = 4096;

/// A file, mapped shared.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) addr: *mut u8,
    bytes: usize,
    /// Its number for [`bus_error`], where it is a file.
    guarded: Option<usize>,
}

// SAFETY: shared memory; its users state what threads may do with it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(number) = self.guarded {
            bus_error::forget(number, self.addr as usize);
        }
        // SAFETY: mapped by `create`, and no other thread has the address any more.
        unsafe { libc::munmap(self.addr.cast(), self.bytes) };
    }
}

impl Mapping {
    /// Maps memory that no file backs.
    pub(crate) fn of_memory(bytes: usize) -> io::Result<Self> {
        Ok(Self { addr: map_memory(bytes)?, bytes, guarded: None })
    }

    /// Creates a file, allocates it on disk, writes its contents and maps it.
    pub(crate) fn create(
        path: &Path,
        bytes: usize,
        guarded: usize,
        write: impl FnOnce(&mut OwnFile) -> io::Result<()>,
    ) -> io::Result<Self> {
        check_length(bytes)?;
        let mut file = OwnFile::create_new(path)?;
        let mapped = allocate(&file, bytes).and_then(|()| write(&mut file));
        let addr = match mapped.and_then(|()| map(&file, bytes)) {
            Ok(addr) => addr,
            Err(error) => {
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
        };
        bus_error::guard(guarded, addr as usize, bytes);
        Ok(Self { addr, bytes, guarded: Some(guarded) })
    }

    /// Maps all pages for writing. A page fault inside a hook costs the program more than the
    /// record does. No other thread has the mapping yet.
    pub(crate) fn touch(&self) {
        // SAFETY: the mapping is ours; this changes none of its bytes.
        let failed =
            unsafe { libc::madvise(self.addr.cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        if failed == 0 {
            return;
        }
        // Kernels before 5.14 do not have the call.
        for page in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: inside the mapping, which no other thread has.
            unsafe {
                let page = self.addr.add(page);
                page.write_volatile(page.read_volatile());
            }
        }
    }

    /// Writes bytes that no other thread reads yet.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.bytes);
        // SAFETY: inside the mapping, and the caller's promise.
        unsafe { self.addr.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// Allocates the blocks of a new file on disk.
fn allocate(file: &OwnFile, bytes: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: a plain system call on a descriptor that is open.
    let failed = unsafe { libc::posix_fallocate(file.descriptor(), 0, length) };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

/// Maps a file that was just created.
fn map(file: &OwnFile, bytes: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (fd, shared) = (file.descriptor(), libc::MAP_SHARED);
    // SAFETY: a new mapping of a descriptor that is open.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, shared, fd, 0) };
    if addr == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(addr.cast()) }
}

/// Maps memory that no file backs.
fn map_memory(bytes: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if addr == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(addr.cast()) }
}
