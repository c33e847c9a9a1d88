//! Shared by several libraries: entry points of the same form, and sizes of numbers.

use std::ffi::c_int;

/// Makes functions that return a handle; further arguments are ignored.
macro_rules! creates {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name(to: *mut u64) -> i32 {
            // SAFETY: the caller's pointer, by the library's contract.
            unsafe { $crate::status::put(to, $crate::streams::new_handle()) };
            $crate::status::SUCCESS
        }
    )*};
}

/// Makes functions that have nothing to do.
macro_rules! does_nothing {
    ($($name:ident),* $(,)?) => {$(
        #[crate::entry_point]
        extern "C" fn $name() -> i32 {
            $crate::status::SUCCESS
        }
    )*};
}

/// Makes the driver's functions that are the runtime's under other names.
macro_rules! same_as_runtime {
    ($($name:ident($($argument:ident: $kind:ty),*) = $runtime:path;)*) => {$(
        #[crate::entry_point]
        unsafe extern "C" fn $name($($argument: $kind),*) -> i32 {
            // SAFETY: the contract of the two is the same.
            #[allow(unused_unsafe, reason = "some of the runtime's functions are safe")]
            unsafe { $runtime($($argument),*) }
        }
    )*};
}

pub(crate) use {creates, does_nothing, same_as_runtime};

/// A part of a version that is written as 12 03 02: major, minor or patch.
pub(crate) fn version_part(version: c_int, which: c_int) -> c_int {
    match which {
        0 => version / 10_000,
        1 => version / 100 % 100,
        _ => version % 100,
    }
}

/// The bytes of a number of CUDA's type (`cudaDataType`).
pub(crate) fn type_bytes(kind: c_int) -> u64 {
    match kind {
        2 | 14 | 7 | 9 | 20 | 22 => 2, // half, bfloat16, pairs of bytes, short
        0 | 6 | 10 | 12 | 15 | 21 | 23 => 4, // float, pairs of halves, int
        1 | 4 | 11 | 13 | 24 | 26 => 8, // double, pairs of floats, long
        5 | 25 | 27 => 16,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_three_parts() {
        assert_eq!([0, 1, 2].map(|which| version_part(120_302, which)), [12, 3, 2]);
    }
}
