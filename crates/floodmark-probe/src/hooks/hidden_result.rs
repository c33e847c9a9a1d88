//! Functions of C++ that return an object through a hidden pointer, called and replaced from Rust.
//!
//! On `x86_64` the pointer is the first argument, and a function with one more argument has the same calling
//! convention. On `aarch64` it is in the register `x8`, which a function of Rust does not see: a few instructions
//! there move it to the first argument and back. They jump and leave no frame, so exceptions pass.

use std::os::raw::c_void;

/// A function that C++ calls. Only its address is used.
#[cfg(target_arch = "aarch64")]
pub(crate) type Entry = unsafe extern "C" fn();

/// A member function with one argument: where its result goes, `this`, the argument.
pub(crate) type Member =
    unsafe extern "C-unwind" fn(*mut usize, *const c_void, *mut c_void) -> *mut usize;

/// Makes a function that C++ calls out of one that has the hidden pointer as its first argument, before one or two
/// others.
macro_rules! entry {
    ($name:ident => $function:path) => {
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "mov x2, x1",
                "mov x1, x0",
                "mov x0, x8",
                "b {function}",
                function = sym $function,
            )
        }
    };
}
pub(crate) use entry;

/// Calls a member function of C++.
///
/// # Safety
/// `original` is such a function, and the arguments are its own.
#[inline]
pub(crate) unsafe fn call(
    original: Member,
    result: *mut usize,
    this: *const c_void,
    argument: *mut c_void,
) {
    // SAFETY: the caller's promise.
    #[cfg(not(target_arch = "aarch64"))]
    unsafe {
        original(result, this, argument);
    }
    // SAFETY: the same; `call_with_x8` jumps to its fourth argument.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        let function: unsafe extern "C-unwind" fn(*mut usize, *const c_void, *mut c_void, Member) =
            std::mem::transmute(call_with_x8 as Entry);
        function(result, this, argument, original);
    }
}

/// Jumps to the function in `x3`, with the first argument in `x8` and the others in its place.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn call_with_x8() {
    // Through `x16`: a jump to the beginning of a function is allowed from there, where branches are checked.
    std::arch::naked_asm!("mov x8, x0", "mov x0, x1", "mov x1, x2", "mov x16, x3", "br x16")
}
