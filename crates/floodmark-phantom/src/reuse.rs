//! Detects when torch allocates device memory again: its old contents have no value any more.
//!
//! torch's caching allocator requests large segments of CUDA and allocates blocks in them by itself. It calls
//! `c10::reportMemoryUsageToProfiler` for every block; this library has a function of that name in front of
//! torch's own, and passes the call on.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use crate::guard::OrNull;
use crate::runtime::forget;

/// `c10::Device`, which is passed in a register: the kind of device in the low byte.
type Device = u16;
type Report = extern "C" fn(*mut c_void, i64, usize, usize, Device);

const CUDA: u16 = 1;
const NAME: *const c_char = c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE".as_ptr();
static TORCHS_OWN: OnceLock<Option<Report>> = OnceLock::new();

/// Under torch's name for it, so that torch's libraries call it.
#[crate::entry_point]
extern "C" fn _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
    addr: OrNull<c_void>,
    bytes: i64,
    allocated: usize,
    reserved: usize,
    device: Device,
) {
    if bytes > 0 && device & 0xff == CUDA {
        forget(addr as u64, bytes.unsigned_abs());
    }
    if let Some(report) = TORCHS_OWN.get_or_init(torchs_own) {
        report(addr, bytes, allocated, reserved, device);
    }
}

fn torchs_own() -> Option<Report> {
    // SAFETY: the library is loaded, since it called; asking for it again runs nothing.
    let found = unsafe {
        let library = libc::dlopen(c"libc10.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if library.is_null() { library } else { libc::dlsym(library, NAME) }
    };
    // SAFETY: torch's function of that mangled name has these arguments.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Report>(found) })
}
