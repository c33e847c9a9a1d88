//! A function of torch that a hook replaces.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of torch that a hook replaces.
pub(super) struct Hook {
    /// Its mangled name.
    pub(super) symbol: &'static CStr,
    /// The address of the function itself; 0 until it is found.
    pub(super) original: AtomicUsize,
}

impl Hook {
    pub(super) const fn new(symbol: &'static CStr) -> Self {
        Self { symbol, original: AtomicUsize::new(0) }
    }
}

/// The function that a hook replaces.
///
/// # Safety
/// `F` is its type.
pub(super) unsafe fn original<F: Copy>(hook: &Hook) -> Option<F> {
    let address = hook.original.load(Ordering::Acquire);
    if address == 0 {
        return None;
    }
    // SAFETY: the caller's promise; a function pointer is one word.
    Some(unsafe { std::mem::transmute_copy::<usize, F>(&address) })
}
