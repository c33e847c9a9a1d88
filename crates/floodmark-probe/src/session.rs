//! The recorder of the process: begun by the first window, taken off after the last, and given what Python knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use floodmark_trace::journal::{FLAG_NAME_LEFT_OUT, FLAG_OF_WINDOW, Record};
use floodmark_trace::{Category, Device, EventKind, TextKind};
use parking_lot::{Mutex, MutexGuard};

use crate::clock::monotonic_nanos;
use crate::free_later::free_later;
use crate::handover::Live;
use crate::initial_blocks::FreedMeanwhile;
use crate::names::{TextNumber, label_id, text_id};
use crate::patch::{self, Found};
use crate::recording::{CURRENT, ENABLED, IS_WATCHED, Options, Recording};
use crate::segments::Segments;
use crate::stacks::EPOCH;
use crate::start_error::StartError;
use crate::thread::{
    begin_recording, forget_after_fork, limit_states, wait_until_idle, with_recording,
};
use crate::writer::{self, Ended};
use crate::{autograd, bus_error, gil_thread, ops, own_thread, saved_tensors, tracker};

/// The recorder, as long as its hooks are in.
pub(crate) struct Running {
    recording: *mut Recording,
    stop: Arc<AtomicBool>,
    writer: JoinHandle<Ended>,
    pid: u32,
}

// SAFETY: the pointer is used only under the lock.
unsafe impl Send for Running {}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// Longer than another thread takes to start, or to learn that it cannot.
const LONGEST_START: Duration = Duration::from_secs(2);
static SESSIONS: AtomicU64 = AtomicU64::new(0);
static FORK_HANDLER: std::sync::Once = std::sync::Once::new();

/// Whether hooks record nothing: they were taken off because no window was open for long, or recording failed.
pub(crate) fn is_asleep() -> bool {
    !ENABLED.load(Ordering::SeqCst)
}

pub(crate) fn session_id() -> u64 {
    let count = SESSIONS.fetch_add(1, Ordering::Relaxed);
    let mixed = monotonic_nanos() ^ (u64::from(std::process::id()) << 40) ^ (count << 20);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

impl Running {
    pub(crate) fn recording(&self) -> &Recording {
        // SAFETY: freed by `take_off` only, which has the entry of this.
        unsafe { &*self.recording }
    }

    pub(crate) fn wake_writer(&self) {
        self.writer.thread().unpark();
    }

    /// Waits until the writer has finished all windows, and releases code objects. The GIL must be held. Returns what
    /// the writer left behind, where it ended as it should, and the recording.
    fn end(self) -> (Option<Ended>, *mut Recording) {
        self.stop.store(true, Ordering::Release);
        self.wake_writer();
        // SAFETY: made by `begin`, and freed by the caller.
        let recording = unsafe { &*self.recording };
        let ended = self.writer.join().ok();
        recording.tree.lock().release_codes();
        (ended, self.recording)
    }
}

/// The recorder of this process, locked. `None` in the guard when there is none; an error when another thread
/// begins or ends one for longer than that takes.
pub(crate) fn running() -> Result<MutexGuard<'static, Option<Running>>, StartError> {
    // In a forked child the lock may be held by a thread that is not here.
    let mut running = RUNNING.try_lock_for(LONGEST_START).ok_or(StartError::Busy)?;
    // A forked child has its parent's entry, but neither its thread nor its file.
    if running.as_ref().is_some_and(|running| running.pid != std::process::id()) {
        std::mem::forget(running.take());
        forget_after_fork();
    }
    Ok(running)
}

/// A recorder whose writer waits for what is live, or for the fact that it is unknown.
pub(crate) type Begun = (Running, Sender<Option<Live>>);

/// Begins to record into a journal. torch need not be loaded yet: [`attach_torch`] is called when it is.
pub(crate) fn begin(
    id: u64,
    options: &Options,
    segments: Segments,
    freed_meanwhile: Arc<FreedMeanwhile>,
) -> std::io::Result<Begun> {
    FORK_HANDLER.call_once(|| {
        // SAFETY: registers functions that store to atomics, and one that waits a moment for a lock.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_forked_child));
        };
    });
    autograd::forget_all();
    begin_recording();
    bus_error::install();
    EPOCH.fetch_add(1, Ordering::Release);
    let mut recording = Recording::new(id, options, segments);
    recording.freed_meanwhile = freed_meanwhile;
    limit_states(recording.budget.most_threads());
    let recording = Box::into_raw(Box::new(recording));
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Shared(recording);
    let stops = Arc::clone(&stop);
    let (tell, live) = channel();
    let writer = own_thread::spawn("floodmark-writer", move || {
        let shared = shared;
        // SAFETY: the recording is freed after this thread has been joined.
        writer::run(unsafe { &*shared.0 }, &stops, &live)
    });
    match writer {
        Ok(writer) => Ok((Running { recording, stop, writer, pid: std::process::id() }, tell)),
        Err(error) => {
            // SAFETY: no other thread has the pointer yet.
            let recording = unsafe { Box::from_raw(recording) };
            recording.segments.remove();
            bus_error::remove();
            Err(error)
        }
    }
}

/// Hooks record from here on.
pub(crate) fn enable(running: &Running) {
    CURRENT.store(running.recording, Ordering::Release);
    ENABLED.store(true, Ordering::SeqCst);
}

struct Shared(*mut Recording);

// SAFETY: `Recording` is Sync; the pointer outlives the thread.
unsafe impl Send for Shared {}

/// Ends the recorder: puts torch's slots back, and waits until the writer has finished all windows. The GIL must be
/// held, so that code objects can be released. Returns whether the writer ended as it should.
pub(crate) fn take_off(running: Running) -> bool {
    ENABLED.store(false, Ordering::SeqCst);
    IS_WATCHED.store(false, Ordering::SeqCst);
    patch::remove();
    ops::detach();
    gil_thread::end();
    let is_idle = wait_until_idle();
    let (ended, recording) = running.end();
    bus_error::remove();
    if is_idle {
        CURRENT.store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: no thread is in a hook, none will enter one, and the writer has ended.
        drop(unsafe { Box::from_raw(recording) });
    }
    ended.is_some()
}

/// Puts a new recorder in the place of one that no window is open on. Hooks stay where they are, and no event is
/// missed: each is recorded by the one or the other. Returns what the old one's writer left behind, where it ended
/// as it should, and where no thread was still inside a hook: what such a thread records is in neither. The GIL must
/// be held.
pub(crate) fn replace(old: Running, new: &Running) -> Option<Ended> {
    let folders = old.recording().tree.lock().library().to_vec();
    new.recording().tree.lock().set_library(folders);
    CURRENT.store(new.recording, Ordering::SeqCst);
    // Each thread enters the new one from now on.
    let is_idle = wait_until_idle();
    // What they noted on leaving are times of the old one.
    begin_recording();
    let failure = old.recording().failure();
    let (ended, recording) = old.end();
    if is_idle {
        // SAFETY: no thread is inside the old one, none will enter it, and its writer has ended.
        free_later(unsafe { Box::from_raw(recording) });
    }
    ended.filter(|_| is_idle && failure.is_none())
}

/// Releases code objects, where a recorder waits for a window that will not need them. The GIL must be held.
pub(crate) fn release_codes(recording: &Recording) {
    // First: threads look codes up again instead of trusting their addresses.
    EPOCH.fetch_add(1, Ordering::SeqCst);
    recording.tree.lock().release_codes();
}

/// Hooks record nothing from here on, where no window is open and none is about to be. Returns whether that is so.
/// Waits for no lock: hooks call it.
pub(crate) fn stop_following(recording: &Recording) -> bool {
    if IS_WATCHED.load(Ordering::Acquire) {
        return false;
    }
    let Some(_entry) = RUNNING.try_lock() else { return false };
    let is_unused = recording.windows.try_lock().is_some_and(|windows| windows.open.is_empty());
    if is_unused {
        ENABLED.store(false, Ordering::SeqCst);
    }
    is_unused
}

/// Takes the hooks off, where no window is open and none is about to be. Returns whether they are off. The rest is
/// done with the GIL, when the next window opens or the program ends.
pub(crate) fn fall_asleep(recording: &Recording) -> bool {
    let Some(_entry) = RUNNING.try_lock() else { return false };
    let is_unused = recording.windows.lock().open.is_empty();
    if is_unused {
        ENABLED.store(false, Ordering::SeqCst);
        patch::remove();
    }
    is_unused
}

/// Takes the hooks off where no window is open. The GIL must be held.
pub fn disarm() {
    let Ok(mut running) = running() else { return };
    let is_unused =
        running.as_ref().is_some_and(|running| running.recording().windows.lock().open.is_empty());
    if is_unused && let Some(running) = running.take() {
        take_off(running);
    }
}

unsafe extern "C" fn before_fork() {
    patch::hold_for_fork();
}

unsafe extern "C" fn after_fork() {
    patch::release_after_fork();
}

/// A child of `fork` must not write into its parent's mappings.
unsafe extern "C" fn in_forked_child() {
    patch::forget_followers();
    patch::release_after_fork();
    ENABLED.store(false, Ordering::SeqCst);
    IS_WATCHED.store(false, Ordering::SeqCst);
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    gil_thread::forget_after_fork();
    forget_after_fork();
}

/// Whether a window is open in this process, and its events are recorded.
pub fn is_recording() -> bool {
    IS_WATCHED.load(Ordering::Acquire) && ENABLED.load(Ordering::Acquire)
}

/// What could be attached to torch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// Slots that were found.
    pub found: Found,
    /// Backward allocations can be tied to forward.
    pub backward: bool,
}

/// torch is loaded: puts the hooks in. `folder` is torch's own, whose frames are not the user's.
pub fn attach_torch(folder: String) -> Option<Attached> {
    let backward = autograd::attach();
    saved_tensors::attach();
    with_recording(|recording, _| {
        recording.tree.lock().set_library(vec![recording.own_folder.clone(), folder]);
    })?;
    Some(Attached { found: patch::install(), backward })
}

/// Some window wants operators, and torch is loaded. Returns whether they will be seen.
pub fn attach_ops() -> bool {
    ops::attach()
}

/// CUDA is initialised: asks the native allocator for its events. Returns whether they will come.
pub fn attach_tracker(has_pools: bool) -> bool {
    tracker::attach(has_pools)
}

/// With the GIL held: keeps running code alive, and returns modules that have no name yet, as pairs of
/// the outermost module around them and themselves.
pub fn pin_running_code() -> Vec<(usize, usize)> {
    with_recording(|recording, _| {
        recording.is_gil_work_requested.store(false, Ordering::Release);
        // The last window may have closed since this was asked for.
        if recording.has_stacks() { recording.tree.lock().pin_running_code() } else { Vec::new() }
    })
    .unwrap_or_default()
}

/// Names modules below `root`: address, qualified name, class. The GIL is held, all are alive.
pub fn name_modules(root: usize, named: &[(usize, String, String)]) {
    with_recording(|recording, local| local.name_modules(recording, root, named));
}

/// A module that was named is about to die.
pub fn forget_module(addr: usize) {
    with_recording(|recording, _| recording.tree.lock().forget_module(addr));
}

/// The number of a label, for [`label`].
pub fn define_label(category: Category, name: String, shape: String, dtype: String) -> u32 {
    with_recording(|recording, local| label_id(recording, local, category, name, shape, dtype))
        .unwrap_or(0)
}

/// A tensor whose name is known.
#[derive(Debug, Clone, Copy)]
pub struct LabelledTensor {
    /// Where it is.
    pub device: Device,
    /// Its address.
    pub addr: u64,
    /// From [`define_label`].
    pub label: u32,
}

/// Device type, device index, address, label.
impl From<(String, i32, u64, u32)> for LabelledTensor {
    fn from((kind, index, addr, label): (String, i32, u64, u32)) -> Self {
        Self { device: Device::of_torch(&kind, index), addr, label }
    }
}

/// Says what tensors are called.
pub fn label(tensors: &[LabelledTensor]) {
    for tensor in tensors {
        label_each(&[(tensor.device.canonical(), tensor.label)], &[tensor.addr]);
    }
}

/// Sets the addresses of the tensors that `labels` name, in the same order; 0 for none.
pub fn label_each(labels: &[(Device, u32)], addrs: &[u64]) {
    with_recording(|recording, local| {
        for (&(device, label), &addr) in labels.iter().zip(addrs) {
            if addr != 0 && recording.wants(device) {
                let mut record = Record::new(EventKind::Label as u8, device);
                record.addr = addr;
                record.stack = label;
                record.flags = if label == 0 { FLAG_NAME_LEFT_OUT } else { 0 };
                local.write(recording, record, &[]);
            }
        }
    });
}

fn note(kind: EventKind, number: u32) {
    note_with(kind, number, 0);
}

fn note_text(kind: EventKind, text: TextNumber) {
    let flags = if text.is_left_out { FLAG_NAME_LEFT_OUT } else { 0 };
    note_with(kind, u32::from(text.number), flags);
}

fn note_with(kind: EventKind, number: u32, flags: u8) {
    with_recording(|recording, local| {
        let mut record = Record::new(kind as u8, Device::CPU);
        (record.stack, record.flags) = (number, flags);
        local.write(recording, record, &[]);
    });
}

/// A step ended, in every window. `None` when nothing is recorded, otherwise how many ended before.
pub fn step() -> Option<u32> {
    if !is_recording() {
        return None;
    }
    let number = with_recording(|recording, _| {
        for state in &recording.windows.lock().open {
            state.steps.fetch_add(1, Ordering::Relaxed);
        }
        recording.steps.fetch_add(1, Ordering::Relaxed)
    })?;
    note(EventKind::Step, number);
    Some(number)
}

/// Asks the writer for a lap at once.
pub(crate) fn wake_writer() {
    if let Some(Some(running)) = RUNNING.try_lock().as_deref() {
        running.wake_writer();
    }
}

/// A step, a mark or a phase of one window, which no other one has.
pub(crate) fn note_in_window(kind: EventKind, number: u32, window: u64) {
    with_recording(|recording, local| {
        let mut record = Record::new(kind as u8, Device::CPU);
        (record.stack, record.flags, record.bytes) = (number, FLAG_OF_WINDOW, window);
        local.write(recording, record, &[]);
    });
}

/// The number of the name of a phase or a mark; 0 where there is none left.
pub(crate) fn name_number(kind: TextKind, name: &str) -> u32 {
    let found = with_recording(|recording, local| text_id(recording, local, kind, name));
    found.map_or(0, |found| u32::from(found.number))
}

/// The user marks this moment.
pub fn mark(name: &str) {
    let id = with_recording(|recording, local| text_id(recording, local, TextKind::Mark, name));
    if let Some(id) = id {
        note_text(EventKind::Mark, id);
    }
}

/// A named phase begins on this thread.
pub fn begin_phase(name: &str) {
    let id = with_recording(|recording, local| {
        // The end of a phase would end another thread's.
        if local.is_crowd {
            return None;
        }
        let id = text_id(recording, local, TextKind::Phase, name);
        local.phases.push(id);
        Some(id)
    });
    if let Some(id) = id.flatten() {
        note_text(EventKind::PhaseBegin, id);
    }
}

/// The innermost named phase of this thread ends.
pub fn end_phase() {
    let id = with_recording(|_, local| local.phases.pop()).flatten();
    if let Some(id) = id {
        note_text(EventKind::PhaseEnd, id);
    }
}

/// An optimizer's `step` begins or ends on this thread.
pub fn note_optimizer(begins: bool) {
    note(if begins { EventKind::OptimizerBegin } else { EventKind::OptimizerEnd }, 0);
}
