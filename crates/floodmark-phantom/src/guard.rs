//! Catches panics of entry points, and returns an error instead.
//!
//! A panic that reaches the caller, which is C, would abort the program. Instead the call returns the error
//! that its library has for failures inside, stderr gets a message with the name of the call, and the call
//! counts as one that is not supported, so the estimate shows it. `#[crate::entry_point]` wraps every entry
//! point in it.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::status::record_error;
use crate::unsupported;

/// `cudaErrorUnknown`; the driver, NVML, CUPTI and cuRAND have the same number.
pub(crate) const UNKNOWN: i32 = 999;

/// The libraries by the beginning of their functions' names, each with its status for an internal error and
/// for a wrong argument. A beginning of another one comes after it.
const LIBRARIES: [(&str, &str, i32, i32); 14] = [
    ("__cuda", "cudart", UNKNOWN, 1),
    ("cudnn", "cudnn", 4000, 2000),
    ("cuda", "cudart", UNKNOWN, 1),
    ("cublasLt", "cublaslt", 14, 7),
    ("cublas", "cublas", 14, 7),
    ("cusparseLt", "cusparselt", 7, 3),
    ("cusparse", "cusparse", 7, 3),
    ("cusolver", "cusolver", 7, 3),
    ("cufft", "cufft", 5, 4),
    ("curand", "curand", UNKNOWN, UNKNOWN),
    ("cupti", "cupti", UNKNOWN, 1),
    ("cu", "driver", UNKNOWN, 1),
    ("nvml", "nvml", UNKNOWN, 2),
    ("nccl", "nccl", 3, 4),
];

/// A pointer that a caller may leave out. All others of an entry point are checked (`#[entry_point]`).
pub(crate) type OrNull<T> = *mut T;
/// The same, to memory that is only read.
pub(crate) type ConstOrNull<T> = *const T;

/// The panic message of the last call that panicked.
static LAST_FAILURE: Mutex<Option<&'static CStr>> = Mutex::new(None);

thread_local! {
    static FAILED_CALL: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The return value of a function after a panic.
pub(crate) trait AfterPanic {
    /// The value for a function of a library with this status for an internal error.
    fn after_panic(library: &str, status: i32) -> Self;

    /// Whether it is an error.
    fn is_failure(&self) -> bool {
        false
    }
}

impl AfterPanic for i32 {
    fn after_panic(library: &str, status: i32) -> Self {
        if library == "cudart" { record_error(status) } else { status }
    }

    fn is_failure(&self) -> bool {
        *self != 0
    }
}

impl AfterPanic for () {
    fn after_panic(_: &str, _: i32) {}
}

impl AfterPanic for usize {
    fn after_panic(_: &str, _: i32) -> Self {
        0
    }
}

impl AfterPanic for c_char {
    fn after_panic(_: &str, _: i32) -> Self {
        0
    }
}

/// Texts are copied by callers that do not expect a null pointer.
impl AfterPanic for *const c_char {
    fn after_panic(_: &str, _: i32) -> Self {
        c"unknown error".as_ptr()
    }
}

impl AfterPanic for *mut *mut c_void {
    fn after_panic(_: &str, _: i32) -> Self {
        std::ptr::null_mut()
    }
}

/// Runs the body of an entry point.
pub(crate) fn call<R: AfterPanic>(name: &'static str, body: impl FnOnce() -> R) -> R {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let (library, status) = note(name, &*panic);
        R::after_panic(library, status)
    });
    if result.is_failure() {
        note_failed_call(name);
    }
    result
}

/// The return value for a null pointer: for a status, its library's error for a wrong argument.
pub(crate) fn null_argument<R: AfterPanic>(name: &'static str) -> R {
    let (library, _, status) = library_of(name);
    R::after_panic(library, status)
}

/// Remembers the last call of NCCL that failed: its own text has no name of a call.
pub(crate) fn note_failed_call(name: &'static str) {
    if name.starts_with("nccl") {
        FAILED_CALL.set(Some(name));
    }
}

/// The last call of NCCL on this thread that failed.
pub(crate) fn failed_call() -> Option<&'static str> {
    FAILED_CALL.get()
}

/// Counts a call as not supported, and returns the status that its library has for one.
pub(crate) fn refuse(library: &'static str, name: &'static str, status: i32) -> i32 {
    call_or(name, (), || unsupported::note(library, name));
    note_failed_call(name);
    status
}

/// Runs the body of an entry point that returns `after_panic` when it panics.
pub(crate) fn call_or<R>(name: &'static str, after_panic: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        note(name, &*panic);
        after_panic
    })
}

/// The panic message of the last call that panicked, for functions that return the text of an
/// error.
pub(crate) fn last_failure() -> Option<&'static CStr> {
    *LAST_FAILURE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports the panic, and gives the library of the call with its status.
#[expect(clippy::print_stderr, reason = "the program gets a number alone")]
fn note(name: &'static str, panic: &(dyn Any + Send)) -> (&'static str, i32) {
    let (library, status, _) = library_of(name);
    unsupported::note(library, name);
    let reason = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic");
    let failure = format!("`{name}` failed inside floodmark's simulated GPU: {reason}");
    eprintln!("error: {failure}\n\nhint: this is a defect of floodmark; please report it");
    let text = CString::new(failure.replace('\0', "")).unwrap_or_default();
    let mut last = LAST_FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != Some(&text) {
        // Callers keep such texts, so they are never freed.
        *last = Some(Box::leak(text.into_boxed_c_str()));
    }
    (library, status)
}

/// The library of a function, and its status for an internal error and for a wrong argument.
fn library_of(name: &str) -> (&'static str, i32, i32) {
    LIBRARIES
        .iter()
        .find(|(beginning, ..)| name.starts_with(beginning))
        .map_or(("floodmark", -1, -1), |&(_, library, failed, wrong)| (library, failed, wrong))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::runtime::error_words;

    #[crate::entry_point]
    unsafe extern "C" fn cudaPlantedPanic(divisor: *const i32) -> i32 {
        // SAFETY: the test's own number.
        let divisor = unsafe { *divisor };
        assert!(divisor != 0, "the divisor is {divisor}");
        7 / divisor
    }

    #[crate::entry_point]
    extern "C" fn cudnnPlantedPanicOfSize() -> usize {
        panic!("no size")
    }

    #[crate::entry_point(5)]
    extern "C" fn floodmark_phantom_planted_panic() -> i32 {
        panic!("no answer")
    }

    #[test]
    fn a_panic_is_an_error_that_names_the_call() {
        // SAFETY: the pointers are to numbers.
        let (whole, failed) =
            unsafe { (cudaPlantedPanic(&raw const WHOLE), cudaPlantedPanic(&raw const ZERO)) };
        assert_eq!((whole, failed), (7, UNKNOWN));
        let words = error_words(UNKNOWN).1.to_str().expect("it is our text");
        assert_eq!(
            words,
            "`cudaPlantedPanic` failed inside floodmark's simulated GPU: the divisor is 0"
        );
        assert_eq!(crate::status::last_error(), UNKNOWN);
        let calls = unsupported::calls();
        let planted = calls.iter().find(|call| call.name == "cudaPlantedPanic").unwrap();
        assert_eq!((planted.library.as_str(), planted.count), ("cudart", 1));
    }

    static WHOLE: i32 = 1;
    static ZERO: i32 = 0;

    #[test]
    fn a_refused_call_returns_its_status_and_is_counted() {
        assert_eq!(refuse("cublas", "cublasRefusedInATest", 15), 15);
        assert!(unsupported::is_refused("cublasRefusedInATest"));
    }

    #[test]
    fn each_type_has_its_value_after_a_panic() {
        assert_eq!(cudnnPlantedPanicOfSize(), 0);
        assert_eq!(floodmark_phantom_planted_panic(), 5);
        let text: *const c_char = call("cudaPlantedPanicOfText", || panic!("no text"));
        // SAFETY: a text ends with a zero.
        assert_eq!(unsafe { CStr::from_ptr(text) }, c"unknown error");
        call::<()>("__cudaPlantedPanicOfNothing", || panic!("nothing"));
    }

    #[test]
    fn each_library_has_its_own_error() {
        let found = ["cudnnCreate", "cudaMalloc", "cuMemAlloc_v2", "cublasLtCreate", "ncclSend"]
            .map(library_of);
        let expected = [
            ("cudnn", 4000, 2000),
            ("cudart", 999, 1),
            ("driver", 999, 1),
            ("cublaslt", 14, 7),
            ("nccl", 3, 4),
        ];
        assert_eq!(found, expected);
    }

    /// Sources below `folder`.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("the sources can be read").path();
            if path.is_dir() { sources(&path, found) } else { found.push(path) }
        }
    }

    /// Functions for C that the text defines without a guard: the name of each, and the ways to export one.
    fn unguarded(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut is_guarded = false;
        for line in text.lines().map(str::trim) {
            let is_definition = line.ends_with('{') || line.ends_with('(') || line.ends_with("{}");
            if line.starts_with("#[crate::entry_point") {
                is_guarded = true;
            } else if line.starts_with("#[unsafe(") {
                found.push(line.to_owned());
            } else if let Some((before, after)) = line.split_once(concat!("extern \"C\" ", "fn "))
                && is_definition
                && !before.contains([':', '<', '='])
                && !std::mem::take(&mut is_guarded)
            {
                found.push(after.split('(').next().unwrap_or(after).to_owned());
            }
        }
        found
    }

    #[test]
    fn a_function_without_a_guard_is_found() {
        let text = "#[crate::entry_point]\nextern \"C\" fn cudaFine() -> i32 {\n#[unsafe(no_mangle)]\n\
                    unsafe extern \"C\" fn cudaBad(\nf: Option<extern \"C\" fn(u8)>,\n";
        assert_eq!(unguarded(text), ["#[unsafe(no_mangle)]", "cudaBad"]);
    }

    #[test]
    fn every_entry_point_has_a_guard() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let own = Path::new(file!()).file_name();
        let mut guarded = 0;
        for file in files.iter().filter(|file| file.file_name() != own) {
            let text = fs::read_to_string(file).expect("sources are text");
            assert_eq!(unguarded(&text), Vec::<String>::new(), "{}", file.display());
            guarded += text.matches("#[crate::entry_point").count();
        }
        assert!(guarded > 400, "{guarded} entry points were found");
    }
}
