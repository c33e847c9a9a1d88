//! Empty libraries with the names of CUDA's.
//!
//! A library that needs `libcublas.so.13`, or opens it by that name, accepts any loaded object with that
//! name. Such an object is a few hundred bytes: its name, and that it needs this library, where its
//! symbols are found. So the real libraries (gigabytes) are never read, and libraries that search for a
//! driver find this one. They are made in memory; nothing is written to disk.

use std::ffi::{CString, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// The names, of CUDA 12 and 13. NVRTC is not among them: it is a compiler, and works without a device.
const NAMES: [&str; 21] = [
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libcupti.so.12",
    "libcupti.so.13",
    "libcudart.so.12",
    "libcudart.so.13",
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libnccl.so.2",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libcusolver.so.11",
    "libcusolver.so.12",
    "libcusolverMg.so.11",
    "libcusolverMg.so.12",
    "libcufft.so.11",
    "libcufft.so.12",
    "libcurand.so.10",
];
const OWN_NAME: &str = "libfloodmark_phantom.so";

/// Loads a stand-in for each name that no loaded object has.
pub(crate) fn load() -> Result<(), String> {
    NAMES.iter().filter(|name| !is_loaded(name)).try_for_each(|name| load_one(name).map(drop))
}

/// Whether an object of that name is one of the libraries that this one answers for, or a part of one:
/// `libcudnn_graph.so.9`, `libcusparseLt-0123.so.0`.
pub(crate) fn is_of_cuda(soname: &str) -> bool {
    NAMES.iter().any(|name| {
        let stem = name.split('.').next().unwrap_or(name);
        // Wheels that carry a library put a number into its name; only cuDNN is in parts.
        let is_end = |rest: &str| {
            rest.starts_with(['.', '-']) || (stem == "libcudnn" && rest.starts_with('_'))
        };
        soname.strip_prefix(stem).is_some_and(is_end)
    })
}

fn is_loaded(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the call loads and runs nothing.
    unsafe { !libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD).is_null() }
}

/// Loads a stand-in, and returns its handle. It is never unloaded.
pub(crate) fn load_one(name: &str) -> Result<*mut c_void, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let failed = || format!("the stand-in for `{name}` cannot be loaded");
    let label = CString::new(name).map_err(|_| failed())?;
    // SAFETY: the name ends with a zero.
    let fd = unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(failed());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let object = shared_object(name);
    // SAFETY: the bytes are there for the length that is given.
    let written = unsafe { libc::write(fd.as_raw_fd(), object.as_ptr().cast(), object.len()) };
    if usize::try_from(written) != Ok(object.len()) {
        return Err(failed());
    }
    let path = path_of(fd.as_raw_fd(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = CString::new(path).map_err(|_| failed())?;
    let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NODELETE;
    // SAFETY: the object has no code and no initialisers.
    let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
    if handle.is_null() { Err(failed()) } else { Ok(handle) }
}

/// A unique path to a descriptor. The loader treats equal paths as the same object, and descriptor
/// numbers are reused: the number of slashes makes each path unique.
fn path_of(fd: i32, number: u32) -> String {
    let bits = (0..u32::BITS).map(|bit| if number >> bit & 1 == 1 { "//." } else { "/." });
    format!("/proc/self{}/fd/{fd}", bits.collect::<String>())
}

/// A symbol of this library.
pub(crate) fn own_symbol(name: &str) -> *mut c_void {
    let (Ok(library), Ok(name)) = (CString::new(OWN_NAME), CString::new(name)) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the library is loaded, since this is a part of it; opening it again runs nothing.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if handle.is_null() { handle } else { libc::dlsym(handle, name.as_ptr()) }
    }
}

const HEADER: usize = 64;
const PROGRAM_HEADERS: usize = 3 * 56;
/// The largest page that a kernel of the architecture may have: the loader refuses an object that is aligned to less.
const LARGEST_PAGE: u64 = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

/// A shared object of that name that needs this library and has nothing else.
fn shared_object(name: &str) -> Vec<u8> {
    let strings = format!("\0{name}\0{OWN_NAME}\0");
    let strings_at = HEADER + PROGRAM_HEADERS;
    let symbols_at = (strings_at + strings.len()).next_multiple_of(8);
    let hash_at = symbols_at + 24;
    let dynamic_at = hash_at + 16;
    let dynamic: [(u64, usize); 8] = [
        (14, 1),             // its own name
        (1, 2 + name.len()), // what it needs
        (5, strings_at),
        (10, strings.len()),
        (6, symbols_at),
        (11, 24),
        (4, hash_at),
        (0, 0),
    ];
    let length = dynamic_at + dynamic.len() * 16;
    let mut object = Vec::with_capacity(length);
    header(&mut object);
    program_header(&mut object, 1, 6, 0, length, LARGEST_PAGE);
    program_header(&mut object, 2, 6, dynamic_at, dynamic.len() * 16, 8);
    // A stack that is not executable: without this the loader would make it so.
    program_header(&mut object, 0x6474_e551, 6, 0, 0, 16);
    object.extend_from_slice(strings.as_bytes());
    object.resize(hash_at, 0);
    for number in [1_u32, 1, 0, 0] {
        object.extend_from_slice(&number.to_le_bytes());
    }
    for (tag, value) in dynamic {
        object.extend_from_slice(&tag.to_le_bytes());
        object.extend_from_slice(&(value as u64).to_le_bytes());
    }
    object
}

fn header(object: &mut Vec<u8>) {
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    object.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    object.extend_from_slice(&3_u16.to_le_bytes());
    object.extend_from_slice(&machine.to_le_bytes());
    object.extend_from_slice(&1_u32.to_le_bytes());
    for number in [0, HEADER as u64, 0] {
        object.extend_from_slice(&number.to_le_bytes());
    }
    object.extend_from_slice(&0_u32.to_le_bytes());
    for number in [64_u16, 56, 3, 64, 0, 0] {
        object.extend_from_slice(&number.to_le_bytes());
    }
}

fn program_header(
    object: &mut Vec<u8>,
    kind: u32,
    flags: u32,
    at: usize,
    length: usize,
    align: u64,
) {
    object.extend_from_slice(&kind.to_le_bytes());
    object.extend_from_slice(&flags.to_le_bytes());
    for number in [at, at, at, length, length] {
        object.extend_from_slice(&(number as u64).to_le_bytes());
    }
    object.extend_from_slice(&align.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_cudas_libraries_are_recognized() {
        for name in ["libcudart.so.13", "libcudnn_graph.so.9", "libcusparseLt-f80c68d1.so.0"] {
            assert!(is_of_cuda(name), "{name}");
        }
        for name in ["libtorch_cuda.so", "libc10_cuda.so", "libcuda_mine.so", "libnvrtc.so.13"] {
            assert!(!is_of_cuda(name), "{name}");
        }
    }

    #[test]
    fn no_two_objects_have_the_same_path() {
        assert_ne!(path_of(5, 0), path_of(5, 1));
        assert!(path_of(5, 6).ends_with("/fd/5"));
    }

    #[test]
    fn a_stand_in_has_the_length_in_its_headers() {
        let object = shared_object("libcublas.so.13");
        assert_eq!(&object[..4], b"\x7fELF");
        let at = |offset: usize| {
            let bytes = object[offset..offset + 8].try_into().expect("there are eight bytes");
            usize::try_from(u64::from_le_bytes(bytes)).expect("it is small")
        };
        assert_eq!(at(HEADER + 32), object.len(), "what is loaded");
        assert_eq!(at(HEADER + 56 + 8) + at(HEADER + 56 + 32), object.len(), "where it ends");
    }
}
