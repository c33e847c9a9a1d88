//! The recorder of the process: started by the first window, removed after the last.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::clock::monotonic_nanos;
use crate::files::start_error::StartError;
use crate::gil::thread as gil_thread;
use crate::hooks::{operators, patch};
use crate::journal::bus_error;
use crate::journal::chunks::Chunks;
use crate::own_threads;
use crate::own_threads::free_later::free_later;
use crate::recorder::freed_blocks::FreedBlocks;
use crate::recorder::recording::CURRENT;
use crate::recorder::thread::{begin_recording, forget_after_fork, limit_states, wait_until_idle};
use crate::recorder::window_change::WINDOW_CHANGE;
use crate::recorder::{Recording, WindowOptions};
use crate::stacks::EPOCH;
use crate::stacks::autograd_nodes;
use crate::switches::{ENABLED, IS_WATCHED};
use crate::writer::live_blocks::LiveBlocks;
use crate::writer::{self, Ended};

/// The recorder, while its hooks are installed.
pub(crate) struct RunningRecorder {
    recording: *mut Recording,
    stop: Arc<AtomicBool>,
    writer: JoinHandle<Ended>,
    pid: u32,
}

// SAFETY: the pointer is used only under the lock.
unsafe impl Send for RunningRecorder {}

static RUNNING: Mutex<Option<RunningRecorder>> = Mutex::new(None);
/// Longer than another thread needs to start a recorder, or to fail.
const LONGEST_START: Duration = Duration::from_secs(2);
static SESSIONS: AtomicU64 = AtomicU64::new(0);
static FORK_HANDLER: std::sync::Once = std::sync::Once::new();

/// Whether hooks record nothing: they were removed because no window was open, or recording failed.
pub(crate) fn is_disabled() -> bool {
    !ENABLED.load(Ordering::SeqCst)
}

pub(crate) fn new_session_id() -> u64 {
    let count = SESSIONS.fetch_add(1, Ordering::Relaxed);
    let mixed = monotonic_nanos() ^ (u64::from(std::process::id()) << 40) ^ (count << 20);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

impl RunningRecorder {
    pub(crate) fn recording(&self) -> &Recording {
        // SAFETY: freed by `end_recorder` only, which has the entry of this.
        unsafe { &*self.recording }
    }

    pub(crate) fn wake_writer(&self) {
        self.writer.thread().unpark();
    }

    /// Waits until the writer has finished all windows, and releases code objects. The GIL must be held. Returns what
    /// the writer returns, where it did not panic, and the recording.
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

/// The recorder of this process, while its windows may change: no other thread opens or closes one.
pub(crate) struct RunningGuard {
    running: MutexGuard<'static, Option<RunningRecorder>>,
    _change: MutexGuard<'static, ()>,
}

impl Deref for RunningGuard {
    type Target = Option<RunningRecorder>;

    fn deref(&self) -> &Self::Target {
        &self.running
    }
}

impl DerefMut for RunningGuard {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.running
    }
}

/// Locks the recorder of this process; it may be `None`. An error when another thread holds the lock for longer than a
/// start or a stop takes.
pub(crate) fn lock_running() -> Result<RunningGuard, StartError> {
    // In a forked child a thread that does not exist there may hold the locks.
    let change = WINDOW_CHANGE.try_lock_for(LONGEST_START).ok_or(StartError::Busy)?;
    let mut running = RUNNING.try_lock_for(LONGEST_START).ok_or(StartError::Busy)?;
    // A forked child has its parent's entry, but neither its thread nor its file.
    if running.as_ref().is_some_and(|running| running.pid != std::process::id()) {
        std::mem::forget(running.take());
        forget_after_fork();
    }
    Ok(RunningGuard { running, _change: change })
}

/// A recorder whose writer waits for the live blocks, or for `None`.
pub(crate) type Begun = (RunningRecorder, Sender<Option<LiveBlocks>>);

/// Starts a recorder. torch need not be loaded yet: [`crate::attach_torch`] is called when it is.
pub(crate) fn begin(
    id: u64,
    options: &WindowOptions,
    chunks: Chunks,
    freed_blocks: Arc<FreedBlocks>,
) -> std::io::Result<Begun> {
    FORK_HANDLER.call_once(|| {
        // SAFETY: registers functions that store to atomics, and one that waits a moment for a lock.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_forked_child));
        };
    });
    autograd_nodes::forget_all();
    begin_recording();
    bus_error::install();
    EPOCH.fetch_add(1, Ordering::Release);
    let mut recording = Recording::new(id, options, chunks);
    recording.freed_blocks = freed_blocks;
    limit_states(recording.budget.most_threads());
    let recording = Box::into_raw(Box::new(recording));
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Shared(recording);
    let stops = Arc::clone(&stop);
    let (tell, live) = channel();
    let writer = own_threads::spawn("floodmark-writer", move || {
        let shared = shared;
        // SAFETY: the recording is freed after this thread has been joined.
        writer::run(unsafe { &*shared.0 }, &stops, &live)
    });
    match writer {
        Ok(writer) => {
            Ok((RunningRecorder { recording, stop, writer, pid: std::process::id() }, tell))
        }
        Err(error) => {
            // SAFETY: no other thread has the pointer yet.
            let recording = unsafe { Box::from_raw(recording) };
            recording.journal.chunks.remove();
            bus_error::remove();
            Err(error)
        }
    }
}

/// Hooks record from here on.
pub(crate) fn enable(running: &RunningRecorder) {
    CURRENT.store(running.recording, Ordering::Release);
    ENABLED.store(true, Ordering::SeqCst);
}

struct Shared(*mut Recording);

// SAFETY: `Recording` is Sync; the pointer outlives the thread.
unsafe impl Send for Shared {}

/// Ends the recorder: puts torch's slots back, and waits until the writer has finished all windows. The GIL must be
/// held, so that code objects can be released. Returns false where the writer panicked.
pub(crate) fn end_recorder(running: RunningRecorder) -> bool {
    ENABLED.store(false, Ordering::SeqCst);
    IS_WATCHED.store(false, Ordering::SeqCst);
    patch::remove();
    operators::detach();
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
/// missed: each is recorded by the one or the other. Returns the result of the old writer, if it did not panic and no
/// thread was still inside a hook: neither recorder has the events of such a thread. The GIL must be held.
pub(crate) fn replace(old: RunningRecorder, new: &RunningRecorder) -> Option<Ended> {
    let folders = old.recording().tree.lock().folders.clone();
    new.recording().tree.lock().folders = folders;
    CURRENT.store(new.recording, Ordering::SeqCst);
    // Each thread enters the new one from now on.
    let is_idle = wait_until_idle();
    // Their published times belong to the old recorder.
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

/// Removes the hooks where no window is open. The GIL must be held.
pub fn remove_unused_hooks() {
    let Ok(mut running) = lock_running() else { return };
    let is_unused =
        running.as_ref().is_some_and(|running| running.recording().windows.lock().open.is_empty());
    if is_unused && let Some(running) = running.take() {
        end_recorder(running);
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

/// Starts the writer's next round at once.
pub(crate) fn wake_writer() {
    if let Some(Some(running)) = RUNNING.try_lock().as_deref() {
        running.wake_writer();
    }
}
