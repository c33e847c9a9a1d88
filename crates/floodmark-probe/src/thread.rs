//! What a traced thread keeps to itself: its journal, its last stack, its open phase.
//!
//! A thread's state is made once, never freed, and handed to another thread when its own has ended, so
//! no pointer to it can dangle. `busy` tells whether its thread is inside a hook; stopping waits for it.

use std::cell::{Cell, UnsafeCell};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use floodmark_trace::Device;
use floodmark_trace::journal::{
    MAX_PAYLOAD_BYTES, Record, SLOT_BYTES, SLOTS_PER_SEGMENT, record_kind,
};
use parking_lot::Mutex;

use crate::attention;
use crate::autograd::{self, Running};
use crate::python::{self, RawFrame};
use crate::recording::{CURRENT, ENABLED, Recording};
use crate::segments::Segment;
use crate::shortcuts::Shortcuts;
use crate::stacks::{Definitions, EPOCH, Node, SeenFrame, follow, innermost, keep_common};

/// State that only its own thread touches.
#[derive(Debug, Default)]
pub(crate) struct Local {
    recording: u64,
    number: u16,
    segment: Option<Arc<Segment>>,
    slot: usize,
    frames: Vec<RawFrame>,
    seen: Vec<SeenFrame>,
    shortcuts: Shortcuts,
    epoch: u32,
    torch_thread: Option<usize>,
    pub(crate) phases: Vec<u16>,
    pub(crate) ops: Vec<u16>,
    /// The device of this thread's latest block that is not on the host.
    pub(crate) last_device: Option<Device>,
    /// Blocks that this thread has given to cuBLAS.
    pub(crate) workspaces: Vec<u64>,
    /// Streams and pools that have a number, by their handle.
    pub(crate) handles: Vec<(u8, u64, u16)>,
}

/// A thread as others see it.
#[derive(Debug)]
pub(crate) struct Thread {
    busy: AtomicBool,
    local: UnsafeCell<Local>,
}

// SAFETY: `local` is touched only by the thread that set `busy`.
unsafe impl Sync for Thread {}

static ALL: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());
static FREE: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());
/// For threads whose own state is gone already: what they still free while they end.
static ENDING: Mutex<Option<&'static Thread>> = Mutex::new(None);

struct Owner(Cell<Option<&'static Thread>>);

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            thread.enter(|recording, local| local.seal(recording));
            FREE.lock().push(thread);
        }
    }
}

thread_local! {
    static OWNER: Owner = const { Owner(Cell::new(None)) };
}

fn new_thread() -> &'static Thread {
    if let Some(thread) = FREE.lock().pop() {
        return thread;
    }
    let thread = Box::leak(Box::new(Thread {
        busy: AtomicBool::new(false),
        local: UnsafeCell::new(Local::default()),
    }));
    ALL.lock().push(thread);
    thread
}

/// Runs `work` on the recording and this thread's state; nothing when no recording runs, when this thread
/// is inside a hook already, or when `work` panics (which ends the recording, not the program).
pub(crate) fn with_recording<R>(work: impl FnOnce(&Recording, &mut Local) -> R) -> Option<R> {
    if !ENABLED.load(Ordering::Relaxed) {
        return None;
    }
    let own = OWNER.try_with(|owner| {
        owner.0.get().unwrap_or_else(|| {
            let thread = new_thread();
            owner.0.set(Some(thread));
            thread
        })
    });
    if let Ok(thread) = own {
        thread.enter(work)
    } else {
        ENDING.lock().get_or_insert_with(new_thread).enter(work)
    }
}

/// Waits until no thread is inside a hook. Returns whether that came to be within a second.
pub(crate) fn wait_until_idle() -> bool {
    let threads = ALL.lock().clone();
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

/// After a fork the child has one thread, and the locks of the others may be held for ever: the state is
/// left where it is, and new state is made where it is asked for.
pub(crate) fn forget_after_fork() {
    let _ = OWNER.try_with(|owner| owner.0.set(None));
}

impl Thread {
    fn enter<R>(&self, work: impl FnOnce(&Recording, &mut Local) -> R) -> Option<R> {
        if self.busy.swap(true, Ordering::SeqCst) {
            return None;
        }
        let mut result = None;
        // Seen after `busy` was set, so whoever stops the recording sees one or the other.
        if ENABLED.load(Ordering::SeqCst) {
            // SAFETY: the recording is dropped only after ENABLED is false and no thread is busy.
            // `local` is ours while `busy` is set.
            let (recording, local) =
                unsafe { (&*CURRENT.load(Ordering::Acquire), &mut *self.local.get()) };
            let work = AssertUnwindSafe(|| {
                local.join(recording);
                work(recording, local)
            });
            match std::panic::catch_unwind(work) {
                Ok(value) => result = Some(value),
                Err(_) => recording.fail("the recorder failed: a bug in floodmark".to_owned()),
            }
        }
        self.busy.store(false, Ordering::Release);
        result
    }
}

/// Writes definitions into a thread's journal.
struct Journal<'a> {
    recording: &'a Recording,
    number: u16,
    segment: &'a mut Option<Arc<Segment>>,
    slot: &'a mut usize,
}

impl Definitions for Journal<'_> {
    fn define(&mut self, record: Record, payload: &[u8]) {
        self.write(record, payload);
    }
}

impl Journal<'_> {
    fn write(&mut self, mut record: Record, payload: &[u8]) {
        let payload = &payload[..payload.len().min(MAX_PAYLOAD_BYTES)];
        record.payload_bytes = u32::try_from(payload.len()).expect("cut to 64 KiB");
        let end = *self.slot + record.slots();
        let segment = match self.segment {
            Some(segment) if end <= SLOTS_PER_SEGMENT => segment,
            _ => {
                if !self.next_segment() {
                    return;
                }
                self.segment.as_mut().expect("just taken")
            }
        };
        let slot = *self.slot;
        // The number is taken last: whoever has one is sure to write it.
        record.seq = self.recording.take_seq();
        record.time_nanos = self.recording.nanos();
        segment.write(slot, &record.to_bytes());
        if !payload.is_empty() {
            segment.write(slot + 1, payload);
        }
        *self.slot = slot + record.slots();
        segment.commit(*self.slot);
    }

    fn next_segment(&mut self) -> bool {
        if let Some(full) = self.segment.take() {
            self.recording.segments.seal(&full);
        }
        *self.slot = 0;
        match self.recording.segments.take(self.number) {
            Ok(segment) => {
                *self.segment = Some(segment);
                true
            }
            Err(error) => {
                self.recording.fail(format!("the journal could not grow: {error}"));
                false
            }
        }
    }
}

impl Local {
    /// Forgets what belongs to an earlier recording.
    fn join(&mut self, recording: &Recording) {
        if self.recording == recording.id {
            return;
        }
        let number = recording.next_thread.fetch_add(1, Ordering::Relaxed);
        *self = Self {
            recording: recording.id,
            number,
            frames: std::mem::take(&mut self.frames),
            shortcuts: std::mem::take(&mut self.shortcuts),
            ..Self::default()
        };
    }

    fn seal(&mut self, recording: &Recording) {
        if let Some(segment) = self.segment.take() {
            recording.segments.seal(&segment);
        }
        self.recording = 0;
    }

    /// This thread got a block: whatever was known of its address is no longer true.
    pub(crate) fn note_block(&mut self, device: Device, addr: u64) {
        if !device.is_cpu() {
            self.last_device = Some(device);
            self.workspaces.retain(|&known| known != addr);
        }
    }

    /// Writes a record with what this thread adds to every record.
    pub(crate) fn write(&mut self, recording: &Recording, mut record: Record, payload: &[u8]) {
        record.phase = self.phases.last().copied().unwrap_or(0);
        record.op = self.ops.last().copied().unwrap_or(0);
        self.journal(recording).write(record, payload);
    }

    fn journal<'a>(&'a mut self, recording: &'a Recording) -> Journal<'a> {
        Journal { recording, number: self.number, segment: &mut self.segment, slot: &mut self.slot }
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
        if !recording.options.stacks {
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
            let mut journal = Journal {
                recording,
                number: self.number,
                segment: &mut self.segment,
                slot: &mut self.slot,
            };
            let mut tree = recording.tree.lock();
            let left_out = tree.nodes_left_out;
            let shortcuts = &mut self.shortcuts;
            tree.extend(&self.frames, &mut self.seen, shortcuts, epoch, &mut journal);
            if tree.nodes_left_out != left_out {
                let mut record = Record::new(record_kind::STACKS_LEFT_OUT, Device::CPU);
                record.bytes = tree.nodes_left_out;
                journal.write(record, &[]);
            }
            if tree.wants_attention {
                attention::ask(recording);
            }
        }
        let (node, inside, has_engine) = innermost(&self.seen);
        match running {
            Running::Nothing => (node, false),
            // A leaf's accumulation, or a graph from before the recording.
            Running::Unknown if has_engine || !inside.is_empty() => (node, true),
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
        // torch may have been loaded after this thread was first seen.
        if self.torch_thread.is_none() {
            self.torch_thread = autograd::torch_thread();
        }
        let Some(thread) = self.torch_thread else { return };
        let (node, _) = self.stack(recording, true);
        autograd::remember(thread, sequence, node);
    }
}

const _: () = assert!(SLOT_BYTES * SLOTS_PER_SEGMENT > 2 * MAX_PAYLOAD_BYTES);
