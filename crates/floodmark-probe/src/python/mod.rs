//! Python's stacks, read without the GIL.
//!
//! torch releases the GIL before it runs an operator, so at the moment of an allocation this thread does
//! not hold it. It need not: the frames of a thread cannot change while the thread is inside C++. Only
//! pointers are read, no reference count is touched.
//!
//! [`prove`] must succeed once before [`walk`] is used: it compares the frames that are read from a known stack with
//! those that Python reports. Where it fails, [`use_slow_way`] uses Python's own functions.

mod layout;
mod lines;
mod slow;

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub use layout::{CodeFacts, StrFacts};
use layout::{CodeLayout, FrameLayout, OWNED_BY_C, StrLayout};

use floodmark_slots::find_symbol;

/// The deepest stack; of a deeper one the innermost frames are kept.
pub const DEEPEST: usize = 2048;
/// The number of deeper stacks.
static CUT_STACKS: AtomicU64 = AtomicU64::new(0);

/// How often this process has left out the outer frames of a stack that is deeper than [`DEEPEST`].
pub fn cut_stacks() -> u64 {
    CUT_STACKS.load(Ordering::Relaxed)
}

/// A frame as it is found: addresses only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawFrame {
    pub(crate) code: usize,
    /// A pointer to the running instruction, or (3.10) its index, or (the slow way) its line.
    pub(crate) instruction: usize,
    /// The first local: `self` in a method.
    pub(crate) first_local: usize,
}

#[derive(Debug)]
struct Layout {
    frame: FrameLayout,
    code: CodeLayout,
    text: StrLayout,
}

/// Functions of the interpreter. They do not need the GIL, except where noted.
#[derive(Debug)]
struct Api {
    this_thread_state: unsafe extern "C" fn() -> usize,
    add_pending_call: unsafe extern "C" fn(unsafe extern "C" fn(usize) -> i32, usize) -> i32,
    /// Python may end the calling thread in it, by unwinding: see [`crate::gil::thread`].
    take_gil: unsafe extern "C-unwind" fn() -> i32,
    give_gil: unsafe extern "C" fn(i32),
    /// Needs the GIL.
    interpreter: unsafe extern "C" fn() -> usize,
    /// Needs the GIL.
    first_thread: unsafe extern "C" fn(usize) -> usize,
    /// Needs the GIL.
    next_thread: unsafe extern "C" fn(usize) -> usize,
    /// Needs the GIL.
    keep: unsafe extern "C" fn(usize),
    /// Needs the GIL.
    release: unsafe extern "C" fn(usize),
}

static LAYOUT: OnceLock<Layout> = OnceLock::new();
static API: OnceLock<Option<Api>> = OnceLock::new();

fn api() -> Option<&'static Api> {
    fn symbol(name: &CStr) -> Option<usize> {
        find_symbol(name)
    }
    API.get_or_init(|| {
        // SAFETY: each is a documented function of the C API with the signature of its field, in every
        // version of CPython from 3.10 on.
        unsafe {
            Some(Api {
                this_thread_state: std::mem::transmute::<usize, unsafe extern "C" fn() -> usize>(
                    symbol(c"PyGILState_GetThisThreadState")?,
                ),
                add_pending_call: std::mem::transmute::<
                    usize,
                    unsafe extern "C" fn(unsafe extern "C" fn(usize) -> i32, usize) -> i32,
                >(symbol(c"Py_AddPendingCall")?),
                take_gil: std::mem::transmute::<usize, unsafe extern "C-unwind" fn() -> i32>(
                    symbol(c"PyGILState_Ensure")?,
                ),
                give_gil: std::mem::transmute::<usize, unsafe extern "C" fn(i32)>(symbol(
                    c"PyGILState_Release",
                )?),
                interpreter: std::mem::transmute::<usize, unsafe extern "C" fn() -> usize>(symbol(
                    c"PyInterpreterState_Get",
                )?),
                first_thread: std::mem::transmute::<usize, unsafe extern "C" fn(usize) -> usize>(
                    symbol(c"PyInterpreterState_ThreadHead")?,
                ),
                next_thread: std::mem::transmute::<usize, unsafe extern "C" fn(usize) -> usize>(
                    symbol(c"PyThreadState_Next")?,
                ),
                keep: std::mem::transmute::<usize, unsafe extern "C" fn(usize)>(symbol(
                    c"Py_IncRef",
                )?),
                release: std::mem::transmute::<usize, unsafe extern "C" fn(usize)>(symbol(
                    c"Py_DecRef",
                )?),
            })
        }
    })
    .as_ref()
}

/// The stack that calls [`prove`], as Python reports it.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// 12 for Python 3.12.
    pub minor_version: u32,
    /// The frames, innermost first: the address of the code object, `f_lasti`, `f_lineno`. The innermost
    /// frame runs while it collects this: its `f_lasti` is −1 and its line 0, for unknown.
    pub frames: Vec<(usize, i64, u32)>,
    /// Some code objects, nested ones, from different lines.
    pub codes: Vec<CodeFacts>,
    /// Strings of every kind.
    pub strings: StrFacts,
}

/// Why stacks cannot be read without the GIL here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The interpreter does not export what we need.
    #[error("the interpreter does not export its thread states")]
    NoApi,
    /// No layout is known.
    #[error("the layout of frames in Python 3.{0} is not known")]
    UnknownVersion(u32),
    /// Code objects have an unknown layout.
    #[error("code objects are not laid out as expected")]
    CodeLayout,
    /// Strings have an unknown layout.
    #[error("strings are not laid out as expected")]
    StrLayout,
    /// The frames that were read differ from those that Python reports.
    #[error("frame {0} of a known stack was read wrongly")]
    Frame(usize),
}

/// Compares the frames of the calling thread with those that Python reports, and keeps the layout if they agree.
///
/// Called with the GIL held, from the innermost of `evidence.frames`.
pub fn prove(evidence: &Evidence) -> Result<(), ProofError> {
    if LAYOUT.get().is_some() {
        return Ok(());
    }
    let api = api().ok_or(ProofError::NoApi)?;
    let runtime = find_symbol(c"_PyRuntime");
    let frame = FrameLayout::of_version(evidence.minor_version, runtime)
        .ok_or(ProofError::UnknownVersion(evidence.minor_version))?;
    let mut code = CodeLayout::measure(&evidence.codes).ok_or(ProofError::CodeLayout)?;
    let text = StrLayout::measure(&evidence.strings).ok_or(ProofError::StrLayout)?;
    let mut found = Vec::new();
    // SAFETY: the GIL is held, so the thread state is this thread's, and its frames do not change.
    unsafe { walk_thread(&frame, (api.this_thread_state)(), &mut found) };
    for (at, &(addr, last, _)) in evidence.frames.iter().enumerate() {
        let walked = found.get(at).ok_or(ProofError::Frame(at))?;
        if walked.code != addr {
            return Err(ProofError::Frame(at));
        }
        let Ok(last) = usize::try_from(last) else { continue };
        if frame.has_instruction_index {
            // Python shows the index times two.
            if walked.instruction * 2 != last {
                return Err(ProofError::Frame(at));
            }
            continue;
        }
        let start = walked.instruction.wrapping_sub(last).wrapping_sub(addr);
        if code.instructions == 0 {
            code.instructions = start;
        }
        if start != code.instructions || start > 1024 {
            return Err(ProofError::Frame(at));
        }
    }
    if found.len() != evidence.frames.len() {
        return Err(ProofError::Frame(evidence.frames.len()));
    }
    let layout = Layout { frame, code, text };
    for (at, (frame, &(_, _, line))) in found.iter().zip(&evidence.frames).enumerate() {
        // SAFETY: the frame is running, so its code object is alive.
        if line != 0 && unsafe { layout.line(frame) } != line {
            return Err(ProofError::Frame(at));
        }
    }
    // Another thread may have stored the layout already.
    let _ = LAYOUT.set(layout);
    Ok(())
}

/// Whether [`prove`] has succeeded.
pub fn is_proven() -> bool {
    LAYOUT.get().is_some()
}

/// Appends the frames of a thread, innermost first.
///
/// # Safety
/// `thread` is null or a thread state whose frames do not change during the call: the caller's own, or
/// any one while the GIL is held.
unsafe fn walk_thread(layout: &FrameLayout, thread: usize, frames: &mut Vec<RawFrame>) {
    if thread == 0 {
        return;
    }
    // SAFETY: the caller's promise, and the offsets were proven or are being proven on this stack.
    unsafe {
        let mut frame = ((thread + layout.current) as *const usize).read();
        if let Some(offset) = layout.through_cframe {
            if frame == 0 {
                return;
            }
            frame = ((frame + offset) as *const usize).read();
        }
        while frame != 0 && frames.len() < DEEPEST {
            let is_c = layout
                .owner
                .is_some_and(|owner| ((frame + owner) as *const u8).read() >= OWNED_BY_C);
            if !is_c {
                let instruction = if layout.has_instruction_index {
                    let index = ((frame + layout.instruction) as *const i32).read();
                    usize::try_from(index).unwrap_or(0)
                } else {
                    ((frame + layout.instruction) as *const usize).read()
                };
                frames.push(RawFrame {
                    code: ((frame + layout.code) as *const usize).read() & !layout.tag_mask,
                    instruction,
                    first_local: ((frame + layout.locals) as *const usize).read()
                        & !layout.tag_mask,
                });
            }
            frame = ((frame + layout.previous) as *const usize).read();
        }
        note_depth(frame);
    }
}

/// `frame` is the first that was not read; 0 where there is none.
fn note_depth(frame: usize) {
    if frame != 0 {
        CUT_STACKS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gets frames from Python's own functions, under the GIL, instead of reading memory. For interpreters that [`prove`] does
/// not support. Returns false where that is not possible.
pub fn use_slow_way() -> bool {
    slow::turn_on()
}

/// Whether [`walk`] may wait for the GIL.
pub(crate) fn may_wait_for_gil() -> bool {
    slow::is_on()
}

/// The frames of this thread, innermost first. Empty before [`prove`], or on a thread without Python.
/// With `may_wait` it may wait for the GIL, which only the slow way does.
pub(crate) fn walk(may_wait: bool, frames: &mut Vec<RawFrame>) {
    frames.clear();
    if slow::is_on() {
        return slow::walk(may_wait, frames);
    }
    let (Some(layout), Some(api)) = (LAYOUT.get(), api()) else { return };
    // SAFETY: the state is this thread's own, and this thread is here, not in the interpreter.
    unsafe { walk_thread(&layout.frame, (api.this_thread_state)(), frames) };
}

/// Calls `each` with the frames of every Python thread, innermost first. The GIL must be held.
///
/// The slow way sees only the calling thread.
pub(crate) fn walk_all_threads(mut each: impl FnMut(&[RawFrame])) {
    if slow::is_on() {
        let mut frames = Vec::new();
        slow::walk(true, &mut frames);
        return each(&frames);
    }
    let (Some(layout), Some(api)) = (LAYOUT.get(), api()) else { return };
    let mut frames = Vec::new();
    // SAFETY: with the GIL held no thread state is created, deleted or changes its frames.
    unsafe {
        let mut thread = (api.first_thread)((api.interpreter)());
        while thread != 0 {
            frames.clear();
            walk_thread(&layout.frame, thread, &mut frames);
            each(&frames);
            thread = (api.next_thread)(thread);
        }
    }
}

/// The attributes of a code object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CodeContents {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) first_line: u32,
    pub(crate) line_table: Vec<u8>,
}

impl CodeContents {
    /// The memory of its parts.
    pub(crate) fn held_bytes(&self) -> usize {
        self.file.len() + self.name.len() + self.line_table.len()
    }
}

impl Layout {
    /// # Safety
    /// The code object is alive.
    unsafe fn line_table(&self, code: usize) -> &[u8] {
        // SAFETY: the caller's promise; a bytes object has its length at 16 and its data at 32, and
        // never changes.
        unsafe {
            let table = ((code + self.code.line_table) as *const usize).read();
            let length = ((table + 16) as *const usize).read();
            std::slice::from_raw_parts((table + 32) as *const u8, length)
        }
    }

    /// # Safety
    /// The frame is running, so its code object is alive.
    unsafe fn line(&self, frame: &RawFrame) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            let table = self.line_table(frame.code);
            let first = ((frame.code + self.code.first_line) as *const u32).read();
            let offset = self.offset(frame);
            if self.frame.has_instruction_index {
                lines::line_at_310(table, first, offset)
            } else {
                lines::line_at(table, first, offset)
            }
        }
    }

    fn offset(&self, frame: &RawFrame) -> usize {
        if self.frame.has_instruction_index {
            frame.instruction * 2
        } else {
            frame.instruction.saturating_sub(frame.code + self.code.instructions)
        }
    }
}

/// Reads a code object. The frame must be running on this thread, or the GIL must be held.
pub(crate) fn code_contents(frame: &RawFrame) -> Option<CodeContents> {
    if slow::is_on() {
        return slow::code_contents(frame);
    }
    let layout = LAYOUT.get()?;
    // SAFETY: the frame holds a reference to its code object, which never changes.
    unsafe {
        let word = |offset: usize| ((frame.code + offset) as *const usize).read();
        Some(CodeContents {
            file: layout.text.read(word(layout.code.file)),
            name: layout.text.read(word(layout.code.name)),
            first_line: ((frame.code + layout.code.first_line) as *const u32).read(),
            line_table: layout.line_table(frame.code).to_vec(),
        })
    }
}

/// Whether a code object has these attributes. The frame must be running on this thread.
pub(crate) fn has_contents(frame: &RawFrame, contents: &CodeContents) -> bool {
    if slow::is_on() {
        return slow::code_contents(frame).is_some_and(|found| found == *contents);
    }
    let Some(layout) = LAYOUT.get() else { return false };
    // SAFETY: the frame holds a reference to its code object, which never changes.
    unsafe {
        let word = |offset: usize| ((frame.code + offset) as *const usize).read();
        ((frame.code + layout.code.first_line) as *const u32).read() == contents.first_line
            && layout.line_table(frame.code) == contents.line_table
            && layout.text.is(word(layout.code.name), &contents.name)
            && layout.text.is(word(layout.code.file), &contents.file)
    }
}

/// The line that a running frame is at.
pub(crate) fn line(frame: &RawFrame) -> u32 {
    if slow::is_on() {
        return u32::try_from(frame.instruction).unwrap_or(0);
    }
    // SAFETY: the frame holds a reference to its code object.
    LAYOUT.get().map_or(0, |layout| unsafe { layout.line(frame) })
}

/// The offset of the instruction in its code.
pub(crate) fn instruction_offset(frame: &RawFrame) -> u32 {
    if slow::is_on() {
        return u32::try_from(frame.instruction).unwrap_or(0);
    }
    LAYOUT.get().map_or(0, |layout| u32::try_from(layout.offset(frame)).unwrap_or(u32::MAX))
}

/// The class of a live object: the address of the type, and its name.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn class_of(object: usize) -> (usize, String) {
    // SAFETY: an object has its type at 8; a type has its `tp_name`, a C string, at 24.
    unsafe {
        let class = ((object + 8) as *const usize).read();
        let name = ((class + 24) as *const *const libc::c_char).read();
        let name = CStr::from_ptr(name).to_string_lossy();
        (class, name.rsplit('.').next().unwrap_or(&name).to_owned())
    }
}

/// Schedules a pending call of `function` on the main thread, with the GIL.
pub(crate) fn call_soon(function: unsafe extern "C" fn(usize) -> i32) -> bool {
    // SAFETY: documented to need neither a thread state nor the GIL.
    api().is_some_and(|api| unsafe { (api.add_pending_call)(function, 0) } == 0)
}

/// Takes the GIL for `work` on a thread with a Python state; does nothing on another thread. The
/// GIL may be held already.
pub(crate) fn with_gil(work: impl FnOnce()) {
    // SAFETY: needs no GIL; the state is that of this thread.
    if api().is_some_and(|api| unsafe { (api.this_thread_state)() } != 0) {
        with_gil_on_any_thread(work);
    }
}

/// Takes the GIL for `work`, also on a thread without a Python state. While the interpreter shuts down this may not
/// return: see [`crate::gil::thread`].
pub(crate) fn with_gil_on_any_thread(work: impl FnOnce()) {
    let Some(api) = api() else { return };
    // SAFETY: documented to work on any thread, and in pairs. `work` does not unwind: see its callers.
    let state = unsafe { (api.take_gil)() };
    work();
    // SAFETY: the same.
    unsafe { (api.give_gil)(state) };
}

/// Takes a reference. The GIL must be held and the object alive.
pub(crate) fn keep(object: usize) {
    if let Some(api) = api() {
        // SAFETY: the caller's promise.
        unsafe { (api.keep)(object) };
    }
}

/// Releases a reference that [`keep`] took. The GIL must be held.
pub(crate) fn release(object: usize) {
    if let Some(api) = api() {
        // SAFETY: `keep` took it.
        unsafe { (api.release)(object) };
    }
}
