//! Operator names, for windows that request them.
//!
//! torch calls back at the beginning and end of every operator (`at::addGlobalCallback`). That costs
//! time for every operator, also where nothing is allocated, so it is off by default.

use std::ffi::{CStr, c_char};
use std::os::raw::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use floodmark_trace::TextKind;

use crate::hooks::hidden_result;
use crate::recorder::names::text_id;
use crate::recorder::{RunningOp, with_recording};
use floodmark_slots::find_symbol;

/// `at::RecordFunctionCallback`: same fields from 2.1 to 2.15; ten scopes.
#[repr(C)]
struct Callback {
    start: usize,
    end: unsafe extern "C-unwind" fn(*const c_void, *mut c_void),
    sampling_probability: f64,
    scopes: [bool; 10],
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
}

#[cfg(not(target_arch = "aarch64"))]
type StartFn = unsafe extern "C-unwind" fn(*mut *mut c_void, *const c_void) -> *mut *mut c_void;

/// Only operators: `RecordScope::FUNCTION`.
const SCOPES: [bool; 10] = [true, false, false, false, false, false, false, false, false, false];

static HANDLE: AtomicU64 = AtomicU64::new(0);
static NAME: AtomicUsize = AtomicUsize::new(0);

/// Operators that only create the tensor of the operator that called them.
const CREATES_FOR_CALLER: [&str; 8] = [
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::resize_",
    "aten::to",
    "aten::contiguous",
];

/// Registers the callbacks. Returns false where torch does not export the functions.
pub(crate) fn attach() -> bool {
    if HANDLE.load(Ordering::Acquire) != 0 {
        return true;
    }
    let add = find_symbol(c"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
    let name = find_symbol(c"_ZNK2at14RecordFunction4nameEv");
    let (Some(add), Some(name)) = (add, name) else { return false };
    NAME.store(name, Ordering::Release);
    let callback = Callback {
        start: start_address(),
        end,
        sampling_probability: 1.0,
        scopes: SCOPES,
        needs_inputs: false,
        needs_outputs: false,
        needs_ids: false,
    };
    // SAFETY: `uint64_t at::addGlobalCallback(RecordFunctionCallback)`: a plain struct by value.
    let handle = unsafe {
        std::mem::transmute::<usize, unsafe extern "C-unwind" fn(Callback) -> u64>(add)(callback)
    };
    HANDLE.store(handle, Ordering::Release);
    true
}

/// Removes the callbacks.
pub(crate) fn detach() {
    let handle = HANDLE.swap(0, Ordering::AcqRel);
    if handle == 0 {
        return;
    }
    if let Some(remove) = find_symbol(c"_ZN2at14removeCallbackEm") {
        // SAFETY: `void at::removeCallback(uint64_t)`, with a handle that `attach` got.
        unsafe { std::mem::transmute::<usize, unsafe extern "C-unwind" fn(u64)>(remove)(handle) };
    }
}

/// Where torch calls [`start`].
fn start_address() -> usize {
    #[cfg(target_arch = "aarch64")]
    return start_entry as hidden_result::Entry as usize;
    #[cfg(not(target_arch = "aarch64"))]
    return start as StartFn as usize;
}

hidden_result::entry!(start_entry => start);

/// An operator begins. Returns an empty `std::unique_ptr`, through a hidden pointer.
unsafe extern "C-unwind" fn start(
    context: *mut *mut c_void,
    function: *const c_void,
) -> *mut *mut c_void {
    // SAFETY: the hidden pointer is the caller's; `const char* at::RecordFunction::name() const`.
    let name = unsafe {
        context.write(std::ptr::null_mut());
        let name = NAME.load(Ordering::Acquire);
        let name = std::mem::transmute::<
            usize,
            unsafe extern "C-unwind" fn(*const c_void) -> *const c_char,
        >(name)(function);
        if name.is_null() { c"" } else { CStr::from_ptr(name) }
    };
    with_recording(|recording, local| {
        // In shared state, the end of an operator would end an operator of another thread.
        if local.is_shared {
            return;
        }
        let name = name.to_str().unwrap_or("");
        let outer = local.ops.last().copied();
        let op = if let Some(outer) = outer.filter(|outer| outer.name.number != 0)
            && CREATES_FOR_CALLER.contains(&name)
        {
            outer
        } else {
            let name = text_id(recording, local, TextKind::Op, name);
            RunningOp { name, call: local.begin_op_call() }
        };
        local.ops.push(op);
    });
    context
}

/// An operator ends.
unsafe extern "C-unwind" fn end(_: *const c_void, _: *mut c_void) {
    with_recording(|_, local| local.ops.pop());
}

#[cfg(test)]
mod tests {
    use floodmark_trace::Window;

    use super::*;
    use crate::test_recorder::{Installed, MAX_MEMORY};

    /// The function object is the name here.
    unsafe extern "C-unwind" fn name(function: *const c_void) -> *const c_char {
        function.cast()
    }

    fn begin(operator: &CStr) {
        let mut context = std::ptr::null_mut();
        // SAFETY: `name` is what is called with the second argument.
        unsafe { start(&raw mut context, operator.as_ptr().cast()) };
    }

    fn finish() {
        // SAFETY: it reads neither.
        unsafe { end(std::ptr::null(), std::ptr::null_mut()) };
    }

    fn current() -> u16 {
        let innermost = with_recording(|_, local| local.ops.last().copied());
        innermost.flatten().map_or(0, |op| op.name.number)
    }

    #[test]
    fn an_allocation_belongs_to_the_operator_that_needs_the_tensor() {
        let name = name as unsafe extern "C-unwind" fn(*const c_void) -> *const c_char;
        NAME.store(name as usize, Ordering::Release);
        let _installed = Installed::new(MAX_MEMORY, &[Window::default()]);
        begin(c"aten::mm");
        let mm = current();
        begin(c"aten::empty");
        assert_eq!((mm != 0, current()), (true, mm), "it only makes the tensor of another one");
        finish();
        begin(c"aten::add");
        assert!(![0, mm].contains(&current()));
        finish();
        assert_eq!(current(), mm);
        finish();
        begin(c"aten::empty");
        assert!(![0, mm].contains(&current()), "the program has called it");
        finish();
        assert_eq!(current(), 0);
    }
}
