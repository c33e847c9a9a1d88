//! Starting, stopping, and what Python tells a recording.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use floodmark_trace::journal::{FLAG_NAME_LEFT_OUT, Record};
use floodmark_trace::{Bytes, Category, Device, EventKind, Header, StepTotals, TextKind};
use parking_lot::Mutex;

use crate::clock::{Clock, monotonic_nanos};
use crate::names::{TextNumber, label_id, text_id};
use crate::output::{Output, remove_journal};
use crate::patch::{self, Found};
use crate::recording::{CURRENT, ENABLED, Options, Recording, unix_micros};
use crate::segments::Segments;
use crate::signals::without_signals;
use crate::stacks::EPOCH;
use crate::start_error::StartError;
use crate::state_file::StateFile;
use crate::thread::{begin_recording, forget_after_fork, wait_until_idle, with_recording};
use crate::writer::{self, Written};
use crate::{autograd, bus_error, ops, saved_tensors, tracker};

struct Running {
    recording: *mut Recording,
    stop: Arc<AtomicBool>,
    writer: JoinHandle<Written>,
    pid: u32,
}

// SAFETY: the pointer is used only under the lock.
unsafe impl Send for Running {}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// Longer than another thread takes to start, or to learn that it cannot.
const LONGEST_START: Duration = Duration::from_secs(2);
static SESSIONS: AtomicU64 = AtomicU64::new(0);
static FORK_HANDLER: std::sync::Once = std::sync::Once::new();

fn session_id() -> u64 {
    let count = SESSIONS.fetch_add(1, Ordering::Relaxed);
    let mixed = monotonic_nanos() ^ (u64::from(std::process::id()) << 40) ^ (count << 20);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Starts to record. torch need not be loaded yet: [`attach_torch`] is called when it is.
pub fn start(mut options: Options) -> Result<(), StartError> {
    // In a forked child the lock may be held by a thread that is not here.
    let Some(mut running) = RUNNING.try_lock() else { return Err(StartError::AlreadyRunning) };
    match running.take() {
        Some(own) if own.pid == std::process::id() => {
            *running = Some(own);
            return Err(StartError::AlreadyRunning);
        }
        // A forked child has its parent's entry, but neither its thread nor its file.
        Some(inherited) => {
            std::mem::forget(inherited);
            forget_after_fork();
        }
        None => {}
    }
    let path = options.path.clone();
    let id = session_id();
    options.header.session = format!("{id:016x}");
    // Both at once: a time of the program's own clock is looked up in the trace by their difference.
    let clock = Clock::start();
    options.header.started_unix_micros = unix_micros();
    let Output { folder, state, trace } =
        Output::create(&path, id, &options.header, options.replace)?;
    let segments = match Segments::create(folder.clone(), id, options.max_memory) {
        Ok(segments) => segments,
        Err(source) => {
            remove_output(&path, &folder, &state);
            return Err(StartError::Journal { path: folder, source });
        }
    };
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
    let recording = Box::into_raw(Box::new(Recording::new(id, clock, options, segments, state)));
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Shared(recording);
    let told = Arc::clone(&stop);
    let thread = std::thread::Builder::new().name("floodmark-writer".to_owned());
    let writer = without_signals(|| {
        thread.spawn(move || {
            let shared = shared;
            // SAFETY: the recording is freed after this thread has been joined.
            writer::run(unsafe { &*shared.0 }, trace, &told)
        })
    });
    let writer = match writer {
        Ok(writer) => writer,
        Err(source) => {
            // SAFETY: nobody else has the pointer yet.
            let recording = unsafe { Box::from_raw(recording) };
            recording.segments.remove();
            bus_error::remove();
            remove_output(&path, recording.segments.folder(), &recording.state);
            return Err(StartError::File { path, source });
        }
    };
    CURRENT.store(recording, Ordering::Release);
    ENABLED.store(true, Ordering::SeqCst);
    *running = Some(Running { recording, stop, writer, pid: std::process::id() });
    Ok(())
}

/// A recording that did not come to be leaves no file.
fn remove_output(path: &Path, folder: &Path, state: &StateFile) {
    let _ = std::fs::remove_file(path);
    remove_journal(folder, state);
}

struct Shared(*mut Recording);

// SAFETY: `Recording` is Sync; the pointer outlives the thread.
unsafe impl Send for Shared {}

/// Stops recording, puts torch's slots back and finishes the file. The GIL must be held, so that code
/// objects can be let go of. `None` when nothing was running.
pub fn stop() -> Option<Written> {
    // Held to the end: a recording that started meanwhile would lose its hooks and `CURRENT` to us. Not for
    // ever, since in a forked child the lock may be held by a thread that is not here.
    let mut entry = RUNNING.try_lock_for(LONGEST_START)?;
    let running = entry.take()?;
    if running.pid != std::process::id() {
        // A forked child has the parent's record of the recording, but neither its thread nor its file.
        std::mem::forget(running);
        return None;
    }
    ENABLED.store(false, Ordering::SeqCst);
    patch::remove();
    ops::detach();
    let is_idle = wait_until_idle();
    running.stop.store(true, Ordering::Release);
    running.writer.thread().unpark();
    let written = running.writer.join().unwrap_or_else(|_| Written {
        failure: "the recorder's writer failed: a bug in floodmark".to_owned(),
        ..Written::default()
    });
    // SAFETY: started by `start`, and still there.
    let recording = unsafe { &*running.recording };
    recording.tree.lock().release_codes();
    bus_error::remove();
    // A thread that hangs in a hook must not keep the name from the next recording.
    recording.state.release();
    if is_idle {
        CURRENT.store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: no thread is in a hook, none will enter one, and the writer has ended.
        drop(unsafe { Box::from_raw(running.recording) });
    }
    Some(written)
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
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    forget_after_fork();
}

/// Whether a recording runs in this process.
pub fn is_recording() -> bool {
    ENABLED.load(Ordering::Acquire)
}

/// What could be attached to torch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// Slots that were found.
    pub found: Found,
    /// Backward allocations can be tied to forward.
    pub backward: bool,
    /// Operators are recorded.
    pub ops: bool,
}

/// torch is loaded: puts the hooks in. `folder` is torch's own, whose frames are not the user's.
pub fn attach_torch(folder: String) -> Option<Attached> {
    let backward = autograd::attach();
    saved_tensors::attach();
    let wants_ops = with_recording(|recording, _| {
        recording.tree.lock().set_library(vec![recording.options.own_folder.clone(), folder]);
        recording.options.ops
    })?;
    let found = patch::install();
    let ops = wants_ops && ops::attach();
    Some(Attached { found, backward, ops })
}

/// CUDA is initialised: asks the native allocator for its events. Returns whether they will come.
pub fn attach_tracker(has_pools: bool) -> bool {
    tracker::attach(has_pools)
}

/// Something was learnt about the program or the machine.
pub fn update_header(change: impl FnOnce(&mut Header)) {
    with_recording(|recording, _| {
        let mut header = recording.header.lock();
        change(&mut header.0);
        header.1 = true;
    });
}

/// With the GIL held: keeps running code alive, and returns modules that have no name yet, as pairs of
/// the outermost module around them and themselves.
pub fn attend() -> Vec<(usize, usize)> {
    with_recording(|recording, _| {
        recording.is_attending.store(false, Ordering::Release);
        recording.tree.lock().attend()
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

/// Says at which addresses the tensors are that `labels` stand for, in the same order; 0 for none.
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

/// A block, or a segment, that was there before recording began.
#[derive(Debug, Clone, Copy)]
pub struct BaseBlock {
    /// Where.
    pub device: Device,
    /// Its address.
    pub addr: u64,
    /// Its size.
    pub bytes: u64,
    /// What was asked for; 0 when not known.
    pub requested: u64,
    /// A segment, not a block.
    pub is_segment: bool,
}

/// Device type, device index, address, size, requested size, is it a segment.
impl From<(String, i32, u64, u64, u64, bool)> for BaseBlock {
    fn from(told: (String, i32, u64, u64, u64, bool)) -> Self {
        let (kind, index, addr, bytes, requested, is_segment) = told;
        Self { device: Device::of_torch(&kind, index), addr, bytes, requested, is_segment }
    }
}

/// Tells of blocks from before.
pub fn base(blocks: &[BaseBlock]) {
    with_recording(|recording, local| {
        for block in blocks {
            let kind = if block.is_segment { EventKind::BaseSegment } else { EventKind::Base };
            let device = block.device.canonical();
            if recording.wants(device) {
                let mut record = Record::new(kind as u8, device);
                record.addr = block.addr;
                record.bytes = block.bytes;
                record.requested = block.requested;
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

/// A step ended. Returns its number; `None` when nothing is recorded.
pub fn step() -> Option<u32> {
    let number = with_recording(|recording, _| recording.steps.fetch_add(1, Ordering::Relaxed))?;
    note(EventKind::Step, number);
    Some(number)
}

/// The totals of the steps that ended, from `first` on, as far as they are known: the writer is one lap
/// behind. With a wait, it is woken, and has so long to catch up.
pub fn ended_steps(first: u32, wait_millis: u64) -> Vec<StepTotals> {
    let found = with_recording(|recording, _| {
        (recording.steps.load(Ordering::Relaxed), Arc::clone(&recording.ended_steps))
    });
    let Some((told, ended)) = found else { return Vec::new() };
    if wait_millis > 0 && told > first {
        if let Some(Some(running)) = RUNNING.try_lock().as_deref() {
            running.writer.thread().unpark();
        }
        ended.wait_for(told - 1, Duration::from_millis(wait_millis));
    }
    ended.from(first)
}

/// The most that was allocated on each device, as far as the writer gets within `wait_millis`.
pub fn peaks(wait_millis: u64) -> Vec<(Device, Bytes)> {
    let found = with_recording(|recording, _| {
        (Arc::clone(&recording.peaks), recording.failure.lock().is_some())
    });
    let Some((peaks, has_failed)) = found else { return Vec::new() };
    // Once the trace cannot be written any more, there are no laps.
    let wait_millis = if has_failed { 0 } else { wait_millis };
    if let Some(Some(running)) = RUNNING.try_lock().as_deref() {
        running.writer.thread().unpark();
    }
    peaks.after_next_lap(Duration::from_millis(wait_millis))
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
        let id = text_id(recording, local, TextKind::Phase, name);
        local.phases.push(id);
        id
    });
    if let Some(id) = id {
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
