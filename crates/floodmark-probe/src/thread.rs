//! What a traced thread keeps to itself: its journal, its last stack, its open phase.
//!
//! A thread's state is made once, never freed, and handed to another thread when its own has ended, so
//! no pointer to it can dangle. The next thread goes on in the same segment of the journal: each record says
//! which thread wrote it. `busy` tells whether its thread is inside a hook; stopping waits for it.
//!
//! The memory limit bounds how many threads have a state, and how many of them a segment. Threads beyond that share
//! one state, or one segment, under a lock.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use floodmark_trace::Device;
use floodmark_trace::journal::{FLAG_NAME_LEFT_OUT, MAX_PAYLOAD_BYTES, Record, SLOTS_PER_SEGMENT};
use parking_lot::{Mutex, ReentrantMutex};

use crate::autograd::{self, RingPages, Running};
use crate::gil_work;
use crate::names::TextNumber;
use crate::python::{self, RawFrame};
use crate::recording::{CURRENT, ENABLED, Recording};
use crate::segments::Segment;
use crate::session::stop_following;
use crate::shortcuts::Shortcuts;
use crate::stacks::{Definitions, EPOCH, Node, SeenFrame, follow, innermost, keep_common};

/// How many states of ended threads keep their segment for the next thread.
const MOST_IDLE: usize = 64;
/// How long a thread waits for the writer when the journal is full, and how often it says that it still does.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
const WAIT_LAP: Duration = Duration::from_millis(2);

/// State that only its own thread touches.
#[derive(Debug, Default)]
pub(crate) struct Local {
    recording: u64,
    number: u32,
    /// Threads without a state of their own share this one. What differs from thread to thread is not kept in it.
    pub(crate) is_crowd: bool,
    journal: JournalPosition,
    frames: Vec<RawFrame>,
    seen: Vec<SeenFrame>,
    shortcuts: Shortcuts,
    epoch: u32,
    torch_thread: Option<usize>,
    ring: RingPages,
    pub(crate) phases: Vec<TextNumber>,
    pub(crate) ops: Vec<RunningOp>,
    /// How many operator calls began on this thread.
    op_calls: u32,
    /// The call of its latest block.
    op_call_of_block: u32,
    /// The device of this thread's latest block that is not on the host.
    pub(crate) last_device: Option<Device>,
    /// Blocks that this thread has given to cuBLAS.
    pub(crate) workspaces: Vec<u64>,
    /// Streams and pools that have a number, by their handle.
    pub(crate) handles: Vec<(u8, u64, TextNumber)>,
}

/// An operator that runs on a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningOp {
    pub(crate) name: TextNumber,
    /// The number of the call.
    pub(crate) call: u32,
}

/// Where the next record goes.
#[derive(Debug, Default)]
pub(crate) struct JournalPosition {
    /// The recording that the segment belongs to.
    recording: u64,
    segment: Option<Arc<Segment>>,
    slot: usize,
    records: u32,
    first_ordinal: u32,
    /// The time of the last record: the next one is later.
    last_nanos: u64,
    /// The thread's [`Thread::last_nanos`].
    published: Option<&'static AtomicU64>,
}

/// A thread as others see it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Thread {
    busy: AtomicBool,
    is_crowd: bool,
    /// The time of its last record. While it is busy, no earlier one will come.
    last_nanos: AtomicU64,
    local: UnsafeCell<Local>,
}

// SAFETY: `local` is touched only by the thread that set `busy`.
unsafe impl Sync for Thread {}

/// The states of all threads of this process.
#[derive(Debug, Default)]
struct Threads {
    all: Mutex<Vec<&'static Thread>>,
    /// Those whose thread has ended.
    free: Mutex<Vec<&'static Thread>>,
    /// For threads whose own state is gone already: what they still free while they end.
    ending: Mutex<Option<&'static Thread>>,
    /// For threads that the memory limit leaves no state for. A hook that is called inside a hook finds it busy.
    crowd: ReentrantMutex<OnceCell<&'static Thread>>,
}

/// The number of the threads that share a state: beyond those that the file can tell apart.
const CROWD: u32 = u32::MAX;
/// How many threads may have a state of their own.
static MOST_STATES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Replaced in a forked child, where the locks of the parent's may be held for ever.
static THREADS: AtomicPtr<Threads> = AtomicPtr::new(std::ptr::null_mut());

fn threads() -> &'static Threads {
    let threads = THREADS.load(Ordering::Acquire);
    if !threads.is_null() {
        // SAFETY: made below, and never freed.
        return unsafe { &*threads };
    }
    let made = Box::into_raw(Box::<Threads>::default());
    let null = std::ptr::null_mut();
    match THREADS.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just made, and never freed.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            // SAFETY: no other thread has ours; the other one is as above.
            unsafe {
                drop(Box::from_raw(made));
                &*other
            }
        }
    }
}

struct Owner(Cell<Option<&'static Thread>>);

impl Owner {
    #[cold]
    fn find(&self) -> Option<&'static Thread> {
        self.0.set(new_thread());
        self.0.get()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let Some(thread) = self.0.take() else { return };
        let mut free = threads().free.lock();
        let keeps_segment = free.len() < MOST_IDLE;
        thread.enter(|recording, local| {
            if !keeps_segment || !recording.segments.has_room() {
                local.journal.seal(recording);
            }
            local.recording = 0;
        });
        free.push(thread);
    }
}

thread_local! {
    static OWNER: Owner = const { Owner(Cell::new(None)) };
}

fn make_thread(is_crowd: bool) -> &'static Thread {
    let thread = Box::leak(Box::new(Thread {
        busy: AtomicBool::new(false),
        is_crowd,
        last_nanos: AtomicU64::new(0),
        local: UnsafeCell::new(Local::default()),
    }));
    threads().all.lock().push(thread);
    thread
}

/// A state for this thread; `None` when there are too many.
fn new_thread() -> Option<&'static Thread> {
    let idle = threads().free.lock().pop();
    idle.or_else(|| {
        let is_full = threads().all.lock().len() >= MOST_STATES.load(Ordering::Relaxed);
        (!is_full).then(|| make_thread(false))
    })
}

/// Runs `work` on the recording and this thread's state; nothing when no recording runs, when this thread
/// is inside a hook already, or when `work` panics (which ends the recording, not the program).
#[inline]
pub(crate) fn with_recording<R>(work: impl FnOnce(&Recording, &mut Local) -> R) -> Option<R> {
    if !ENABLED.load(Ordering::Relaxed) {
        return None;
    }
    match OWNER.try_with(|owner| owner.0.get().or_else(|| owner.find())) {
        Ok(Some(thread)) => thread.enter(work),
        Ok(None) => {
            let crowd = threads().crowd.lock();
            crowd.get_or_init(|| make_thread(true)).enter(work)
        }
        Err(_) => threads().ending.lock().get_or_insert_with(|| make_thread(false)).enter(work),
    }
}

/// Waits until no thread is inside a hook. Returns whether that came to be within a second.
pub(crate) fn wait_until_idle() -> bool {
    let threads = threads().all.lock().clone();
    let begin = std::time::Instant::now();
    for thread in threads {
        while thread.busy.load(Ordering::SeqCst) {
            if begin.elapsed().as_secs() >= 1 {
                return false;
            }
            std::thread::yield_now();
        }
    }
    true
}

/// A time before which no thread will write another record.
///
/// A thread marks itself busy before it reads the clock. So a thread that is not busy now gets a later time than
/// `now`, and one that is busy gets a later time than its last one.
pub(crate) fn frontier_nanos(recording: &Recording, before: u64) -> u64 {
    let now = recording.nanos();
    std::sync::atomic::fence(Ordering::SeqCst);
    let threads = threads().all.lock();
    let busy = threads.iter().filter(|thread| thread.busy.load(Ordering::SeqCst));
    let last = busy.map(|thread| thread.last_nanos.load(Ordering::Acquire)).min();
    // What was safe once is safe for ever.
    last.map_or(now, |last| last.min(now)).max(before)
}

/// Limits how many threads have a state of their own.
pub(crate) fn limit_states(most: usize) {
    // Where Python's own functions give the stacks, a thread waits for the GIL inside a hook: not under a lock.
    let most = if python::may_wait_for_gil() { usize::MAX } else { most };
    MOST_STATES.store(most, Ordering::Relaxed);
}

/// A recording is about to begin: times of an earlier one mean nothing in it.
pub(crate) fn begin_recording() {
    for thread in threads().all.lock().iter() {
        thread.last_nanos.store(0, Ordering::SeqCst);
    }
}

/// In a child of `fork` the other threads are gone, and their locks may be held for ever: their state is
/// left where it is, and new state is made where it is needed.
pub(crate) fn forget_after_fork() {
    THREADS.store(std::ptr::null_mut(), Ordering::Release);
    let _ = OWNER.try_with(|owner| owner.0.set(None));
}

impl Thread {
    #[inline]
    fn enter<R>(&'static self, work: impl FnOnce(&Recording, &mut Local) -> R) -> Option<R> {
        if self.busy.swap(true, Ordering::SeqCst) {
            return None;
        }
        let mut result = None;
        // Read after `busy` was set, so the thread that stops the recording sees one or the other.
        if ENABLED.load(Ordering::SeqCst) {
            // SAFETY: the recording is dropped only after ENABLED is false and no thread is busy.
            // `local` is ours while `busy` is set.
            let (recording, local) =
                unsafe { (&*CURRENT.load(Ordering::Acquire), &mut *self.local.get()) };
            let work = AssertUnwindSafe(|| {
                local.join(recording, self);
                work(recording, local)
            });
            match std::panic::catch_unwind(work) {
                Ok(value) => result = Some(value),
                Err(_) => recording.fail("the recorder failed: a bug in floodmark".to_owned()),
            }
            self.last_nanos.store(local.journal.last_nanos, Ordering::Release);
        }
        self.busy.store(false, Ordering::Release);
        result
    }
}

impl JournalPosition {
    /// Whether a record of so many slots fits into the segment.
    #[inline]
    fn has_room(&self, slots: usize) -> bool {
        self.segment.is_some() && self.slot + slots <= SLOTS_PER_SEGMENT
    }

    /// Writes a record that fits.
    #[inline]
    fn write(&mut self, recording: &Recording, thread: u32, mut record: Record, payload: &[u8]) {
        let Some(segment) = &self.segment else { return };
        // The clock is read last: once a thread has its time, it is sure to write the record.
        let now = recording.nanos().max(self.last_nanos + 1);
        (record.thread, record.time_nanos) = (thread, now);
        let ordinal = self.first_ordinal.wrapping_add(self.records);
        let bytes = record.to_bytes(recording.seed, ordinal, payload);
        segment.write(self.slot, bytes.words(), payload);
        self.slot += bytes.slots;
        self.records += 1;
        self.last_nanos = now;
        segment.commit(self.slot, self.records);
    }

    fn seal(&mut self, recording: &Recording) {
        if let Some(full) = self.segment.take() {
            recording.segments.seal(&full);
        }
    }

    fn take_segment(&mut self, recording: &Recording) -> std::io::Result<()> {
        let segment = recording.segments.take()?;
        (self.recording, self.slot, self.records) = (recording.id, 0, 0);
        self.first_ordinal = segment.first_ordinal();
        self.segment = Some(segment);
        Ok(())
    }
}

/// Writes records into a thread's journal.
struct Journal<'a> {
    recording: &'a Recording,
    thread: u32,
    at: &'a mut JournalPosition,
}

impl Definitions for Journal<'_> {
    fn define(&mut self, record: Record, payload: &[u8]) {
        self.write(record, payload);
    }
}

impl Journal<'_> {
    #[inline]
    fn write(&mut self, record: Record, payload: &[u8]) {
        let payload = &payload[..payload.len().min(MAX_PAYLOAD_BYTES)];
        let slots = record.slots(payload.len());
        if self.at.has_room(slots) || self.next_segment() {
            self.at.write(self.recording, self.thread, record, payload);
        } else {
            self.write_shared(record, payload);
        }
    }

    /// Writes into the segment that threads without one of their own share.
    #[cold]
    fn write_shared(&mut self, record: Record, payload: &[u8]) {
        // Before the lock is taken: threads that wait for it hold the writer up.
        self.wait_for_writer();
        let mut shared = self.recording.shared_journal.lock();
        if !shared.has_room(record.slots(payload.len())) {
            shared.seal(self.recording);
            if let Err(error) = shared.take_segment(self.recording) {
                drop(shared);
                return self.fail(&error);
            }
        }
        shared.last_nanos = shared.last_nanos.max(self.at.last_nanos);
        shared.write(self.recording, self.thread, record, payload);
        self.at.last_nanos = shared.last_nanos;
    }

    fn fail(&self, error: &std::io::Error) {
        self.recording.fail(format!("the journal could not grow: {error}"));
    }

    /// Begins the next segment. Returns whether this thread may have one of its own.
    #[cold]
    fn next_segment(&mut self) -> bool {
        self.at.seal(self.recording);
        if !self.recording.segments.has_room() {
            return false;
        }
        self.wait_for_writer();
        let taken = self.at.take_segment(self.recording);
        taken.inspect_err(|error| self.fail(error)).is_ok()
    }

    /// Gives the writer time when it is far behind: the journal must not grow without end. Not for long, since
    /// another thread may be inside a hook and hold the writer up. While no window is open nothing is worth a wait:
    /// the hooks rest.
    fn wait_for_writer(&mut self) {
        if !self.recording.segments.is_full() {
            return;
        }
        if stop_following(self.recording) {
            return;
        }
        let begin = Instant::now();
        while self.recording.segments.is_full()
            && ENABLED.load(Ordering::Acquire)
            && begin.elapsed() < LONGEST_WAIT
        {
            // The next record is later than this, so the writer need not stop at the one before.
            self.at.last_nanos = self.recording.nanos().max(self.at.last_nanos);
            if let Some(published) = self.at.published {
                published.store(self.at.last_nanos, Ordering::Release);
            }
            self.recording.segments.wait(WAIT_LAP);
        }
    }
}

impl Local {
    /// Forgets what belongs to an earlier thread or recording.
    #[inline]
    fn join(&mut self, recording: &Recording, thread: &'static Thread) {
        if self.recording != recording.id {
            self.join_anew(recording, thread);
        }
    }

    #[cold]
    fn join_anew(&mut self, recording: &Recording, thread: &'static Thread) {
        let number = if thread.is_crowd {
            CROWD
        } else {
            recording.next_thread.fetch_add(1, Ordering::Relaxed)
        };
        let journal = std::mem::take(&mut self.journal);
        if journal.recording != recording.id {
            recording.budget.add_thread(self.shortcuts.held_bytes());
        }
        self.frames.clear();
        self.seen.clear();
        *self = Self {
            recording: recording.id,
            number,
            is_crowd: thread.is_crowd,
            journal: if journal.recording == recording.id {
                journal
            } else {
                JournalPosition {
                    recording: recording.id,
                    published: Some(&thread.last_nanos),
                    ..JournalPosition::default()
                }
            },
            frames: std::mem::take(&mut self.frames),
            seen: std::mem::take(&mut self.seen),
            shortcuts: std::mem::take(&mut self.shortcuts),
            ..Self::default()
        };
    }

    /// This thread got a block: whatever was known of its address is no longer true.
    pub(crate) fn note_block(&mut self, device: Device, addr: u64) {
        if !device.is_cpu() && !self.is_crowd {
            self.last_device = Some(device);
            self.workspaces.retain(|&known| known != addr);
        }
    }

    /// An operator is called: the number of the call.
    pub(crate) fn begin_op_call(&mut self) -> u32 {
        self.op_calls = self.op_calls.wrapping_add(1);
        self.op_calls
    }

    /// The number of the latest call.
    pub(crate) fn latest_op_call(&self) -> u32 {
        self.op_calls
    }

    /// Whether the block that comes now is the first one of the operator call that runs.
    pub(crate) fn is_first_of_op_call(&mut self) -> bool {
        let Some(op) = self.ops.last() else { return false };
        std::mem::replace(&mut self.op_call_of_block, op.call) != op.call
    }

    /// Writes a record with what this thread adds to every record.
    pub(crate) fn write(&mut self, recording: &Recording, mut record: Record, payload: &[u8]) {
        // Empty in the state that threads share: its phase and operator would be another thread's.
        let phase = self.phases.last().copied().unwrap_or_default();
        let op = self.ops.last().map(|op| op.name).unwrap_or_default();
        (record.phase, record.op) = (phase.number, op.number);
        if phase.is_left_out || op.is_left_out {
            record.flags |= FLAG_NAME_LEFT_OUT;
        }
        self.journal(recording).write(record, payload);
    }

    fn journal<'a>(&'a mut self, recording: &'a Recording) -> Journal<'a> {
        Journal { recording, thread: self.number, at: &mut self.journal }
    }

    /// Gives the names of modules to the call tree, through this thread's journal.
    pub(crate) fn name_modules(
        &mut self,
        recording: &Recording,
        root: usize,
        named: &[(usize, String, String)],
    ) {
        let mut tree = recording.tree.lock();
        tree.name_modules(root, named, &mut self.journal(recording));
    }

    /// The stack of this moment, and whether backward is running.
    ///
    /// `may_wait` says whether the GIL may be waited for, should there be no other way.
    pub(crate) fn stack(&mut self, recording: &Recording, may_wait: bool) -> (Node, bool) {
        let running = autograd::running_node();
        if !recording.has_stacks() {
            return (Node::default(), running != Running::Nothing);
        }
        python::walk(may_wait, &mut self.frames);
        let epoch = EPOCH.load(Ordering::Acquire);
        if epoch != self.epoch {
            self.epoch = epoch;
            self.seen.clear();
        }
        keep_common(&self.frames, &mut self.seen);
        follow(&self.shortcuts, epoch, &self.frames, &mut self.seen);
        if self.seen.len() < self.frames.len() {
            let mut journal = Journal { recording, thread: self.number, at: &mut self.journal };
            let mut tree = recording.tree.lock();
            let shortcuts = &mut self.shortcuts;
            tree.extend(&self.frames, &mut self.seen, shortcuts, epoch, &mut journal);
            if tree.needs_gil_work {
                gil_work::request(recording);
            }
        }
        let (node, inside, has_engine) = innermost(&self.seen);
        match running {
            Running::Nothing => (node, false),
            // A leaf's accumulation, or a graph from before the recording.
            Running::Unknown if has_engine || !inside.is_empty() => (node, true),
            Running::Unknown if recording.forgets_nodes.load(Ordering::Relaxed) => {
                (Node::INCOMPLETE, true)
            }
            Running::Unknown => (Node::default(), true),
            Running::Backward(forward) if inside.is_empty() => (forward, true),
            Running::Backward(forward) => {
                let inside = inside.to_vec();
                let mut tree = recording.tree.lock();
                (tree.below(forward, &inside, &mut self.journal(recording)), true)
            }
        }
    }

    /// Notes the stack of an autograd node that was just made.
    pub(crate) fn remember_node(&mut self, recording: &Recording, sequence: u64) {
        // torch may have been loaded after this thread was first seen. Threads that share a state share no number.
        if self.torch_thread.is_none() && !self.is_crowd {
            self.torch_thread = autograd::torch_thread();
        }
        let is_remembered = self.torch_thread.is_some_and(|thread| {
            let has_memory = self.ring.make_room(sequence, &recording.budget);
            if has_memory {
                let (node, _) = self.stack(recording, true);
                autograd::remember(thread, sequence, node);
            }
            has_memory
        });
        if !is_remembered && autograd::is_attached() {
            recording.forgets_nodes.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
