//! Entry points of the driver, by name.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::entry_points::REFUSED;
use crate::guard::OrNull;
use crate::stand_ins::own_symbol;
use crate::status::{SUCCESS, put, record_error};

const SYMBOL_NOT_FOUND: i32 = 500;

/// The address of a function of the driver: of this library, under its newest name. A refusing
/// function is returned only if there is no other.
pub(crate) fn driver_function(name: &CStr) -> *mut c_void {
    let Ok(name) = name.to_str() else { return std::ptr::null_mut() };
    // The second version of this one has another argument, and is requested by its own name.
    let newer = (name != "cuCtxGetDevice").then(|| format!("{name}_v2"));
    let mut names: Vec<String> = newer.into_iter().chain([name.to_owned()]).collect();
    names.sort_by_key(|name| REFUSED.binary_search(&name.as_str()).is_ok());
    names
        .iter()
        .map(|name| own_symbol(name))
        .find(|found| !found.is_null())
        .unwrap_or(std::ptr::null_mut())
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetDriverEntryPoint(
    name: *const c_char,
    function: *mut *mut c_void,
    _flags: u64,
    result: OrNull<c_int>,
) -> i32 {
    // SAFETY: the caller's name ends with a zero, by CUDA's contract.
    let found = driver_function(unsafe { CStr::from_ptr(name) });
    // SAFETY: the caller's pointers, by CUDA's contract.
    unsafe {
        put(function, found);
        put(result, c_int::from(found.is_null()));
    }
    if found.is_null() { record_error(SYMBOL_NOT_FOUND) } else { SUCCESS }
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetDriverEntryPointByVersion(
    name: *const c_char,
    function: *mut *mut c_void,
    _version: c_uint,
    flags: u64,
    result: OrNull<c_int>,
) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudaGetDriverEntryPoint(name, function, flags, result) }
}
