//! Python's stacks from its own functions, for an interpreter whose frames cannot be read.
//!
//! Needs the GIL for every walk, so it is slower, and it cannot be taken everywhere: CUDA allocations
//! happen under the allocator's lock, and a thread that holds the GIL may be waiting for that lock. There
//! the stack is read only if this thread holds the GIL already.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::{CodeContents, DEEPEST, RawFrame, note_depth};
use floodmark_slots::find_symbol;

static IS_ON: AtomicBool = AtomicBool::new(false);
static API: OnceLock<Option<Api>> = OnceLock::new();
/// The attributes of the code objects of the last walks; read under the GIL, used after it.
static CONTENTS: Mutex<Option<HashMap<usize, CodeContents>>> = Mutex::new(None);

type Object = usize;

macro_rules! api {
    ($($field:ident = $symbol:literal: $kind:ty;)*) => {
        struct Api { $($field: $kind,)* }

        fn api() -> Option<&'static Api> {
            API.get_or_init(|| {
                // SAFETY: documented functions of the C API, with these signatures, from 3.9 on.
                unsafe { Some(Api { $($field: std::mem::transmute::<usize, $kind>(find_symbol($symbol)?),)* }) }
            })
            .as_ref()
        }
    };
}

api! {
    has_gil = c"PyGILState_Check": unsafe extern "C" fn() -> c_int;
    take_gil = c"PyGILState_Ensure": unsafe extern "C" fn() -> c_int;
    give_gil = c"PyGILState_Release": unsafe extern "C" fn(c_int);
    frame = c"PyEval_GetFrame": unsafe extern "C" fn() -> Object;
    code = c"PyFrame_GetCode": unsafe extern "C" fn(Object) -> Object;
    back = c"PyFrame_GetBack": unsafe extern "C" fn(Object) -> Object;
    line = c"PyFrame_GetLineNumber": unsafe extern "C" fn(Object) -> c_int;
    attribute = c"PyObject_GetAttrString": unsafe extern "C" fn(Object, *const c_char) -> Object;
    item = c"PyMapping_GetItemString": unsafe extern "C" fn(Object, *const c_char) -> Object;
    text = c"PyUnicode_AsUTF8AndSize": unsafe extern "C" fn(Object, *mut isize) -> *const u8;
    number = c"PyLong_AsLong": unsafe extern "C" fn(Object) -> i64;
    forget_error = c"PyErr_Clear": unsafe extern "C" fn();
    keep = c"Py_IncRef": unsafe extern "C" fn(Object);
    release = c"Py_DecRef": unsafe extern "C" fn(Object);
}

/// Uses Python's functions from now on. Returns false where the interpreter does not export them.
pub(super) fn turn_on() -> bool {
    let has_api = api().is_some();
    IS_ON.store(has_api, Ordering::Release);
    has_api
}

pub(super) fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// The frames of this thread, innermost first; empty where waiting for the GIL is not allowed.
pub(super) fn walk(may_wait: bool, frames: &mut Vec<RawFrame>) {
    let Some(api) = api() else { return };
    // SAFETY: the GIL is held from `take_gil` to `give_gil`; every new reference is released.
    unsafe {
        if (api.has_gil)() == 0 && !may_wait {
            return;
        }
        let state = (api.take_gil)();
        let mut frame = (api.frame)();
        if frame != 0 {
            (api.keep)(frame);
        }
        let mut contents = CONTENTS.lock();
        let contents = contents.get_or_insert_default();
        while frame != 0 && frames.len() < DEEPEST {
            frames.push(api.raw_frame(frame, contents));
            let outer = (api.back)(frame);
            (api.release)(frame);
            frame = outer;
        }
        note_depth(frame);
        if frame != 0 {
            (api.release)(frame);
        }
        (api.give_gil)(state);
    }
}

/// The attributes of a code object of one of the last walks.
pub(super) fn code_contents(frame: &RawFrame) -> Option<CodeContents> {
    CONTENTS.lock().as_ref()?.get(&frame.code).cloned()
}

impl Api {
    /// # Safety
    /// The GIL is held, and `frame` is alive.
    unsafe fn raw_frame(
        &self,
        frame: Object,
        known: &mut HashMap<usize, CodeContents>,
    ) -> RawFrame {
        // SAFETY: the caller's promise; the frame keeps its code object alive after our release.
        unsafe {
            let code = (self.code)(frame);
            let contents = CodeContents {
                file: self.string(code, c"co_filename"),
                name: self.string(code, c"co_name"),
                first_line: self.integer(code, c"co_firstlineno"),
                line_table: Vec::new(),
            };
            let calls_module = contents.name == "_wrapped_call_impl";
            known.insert(code, contents);
            (self.release)(code);
            let line = usize::try_from((self.line)(frame)).unwrap_or(0);
            let first_local = if calls_module { self.local(frame, c"self") } else { 0 };
            RawFrame { code, instruction: line, first_local }
        }
    }

    /// # Safety
    /// The GIL is held, and `object` is alive.
    unsafe fn string(&self, object: Object, name: &CStr) -> String {
        // SAFETY: the caller's promise; the text belongs to the attribute, which the object keeps.
        unsafe {
            let value = (self.attribute)(object, name.as_ptr());
            if value == 0 {
                (self.forget_error)();
                return String::new();
            }
            let mut length = 0;
            let text = (self.text)(value, &raw mut length);
            let text = if text.is_null() {
                (self.forget_error)();
                String::new()
            } else {
                let length = usize::try_from(length).unwrap_or(0);
                String::from_utf8_lossy(std::slice::from_raw_parts(text, length)).into_owned()
            };
            (self.release)(value);
            text
        }
    }

    /// # Safety
    /// The GIL is held, and `object` is alive.
    unsafe fn integer(&self, object: Object, name: &CStr) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            let value = (self.attribute)(object, name.as_ptr());
            if value == 0 {
                (self.forget_error)();
                return 0;
            }
            let number = (self.number)(value);
            (self.release)(value);
            u32::try_from(number).unwrap_or(0)
        }
    }

    /// The address of a local; the frame keeps it alive.
    ///
    /// # Safety
    /// The GIL is held, and `frame` is alive.
    unsafe fn local(&self, frame: Object, name: &CStr) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let locals = (self.attribute)(frame, c"f_locals".as_ptr());
            if locals == 0 {
                (self.forget_error)();
                return 0;
            }
            let value = (self.item)(locals, name.as_ptr());
            if value == 0 {
                (self.forget_error)();
            } else {
                (self.release)(value);
            }
            (self.release)(locals);
            value
        }
    }
}
