//! CUDA runtimes that are linked into a library, rather than beside it: they are not simulated.
//!
//! Such a runtime asks the driver for NVIDIA's private tables and works with nothing else, so each
//! of its calls fails. The estimate names the library, because the memory that it needs is unknown.

use std::borrow::Cow;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;

use crate::unsupported;

/// The most callers that are examined: ours and those of one entry point are fewer.
const FRAMES: c_int = 32;

/// CUDA's own libraries, which request them too and work without.
const GO_ON_WITHOUT: [&str; 8] = [
    "libcublas",
    "libcudart",
    "libcudnn",
    "libcufft",
    "libcusolver",
    "libcusparse",
    "libnvJitLink",
    "libnvrtc",
];

/// Lists the library that asks for private tables among what is not supported.
pub(super) fn note() {
    let Some(object) = calling_object() else { return };
    if !GO_ON_WITHOUT.iter().any(|name| object.starts_with(name)) {
        let name = format!("the CUDA runtime that is linked into {object}");
        unsupported::note("cudart", Cow::Owned(name));
    }
}

/// The file name of the shared object that called this library.
fn calling_object() -> Option<String> {
    let mut frames = [std::ptr::null_mut::<c_void>(); FRAMES as usize];
    // SAFETY: the buffer has room for that many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES) };
    let frames = &frames[..usize::try_from(count).unwrap_or(0)];
    let own = object_of(note as *const c_void)?.dli_fbase;
    let caller = frames
        .iter()
        .filter_map(|&frame| object_of(frame))
        .find(|object| object.dli_fbase != own && !object.dli_fname.is_null())?;
    // SAFETY: the loader's name of a loaded object ends with a zero.
    let path = unsafe { CStr::from_ptr(caller.dli_fname) }.to_string_lossy().into_owned();
    Some(Path::new(&path).file_name()?.to_string_lossy().into_owned())
}

/// The loader's record of an address.
fn object_of(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: all zeroes is a record without names, and the loader only compares the address.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &raw mut found) != 0).then_some(found)
    }
}
