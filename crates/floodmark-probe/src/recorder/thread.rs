//! The states of the program's threads.
//!
//! A thread's state is created once, never freed, and passed to another thread when its own has ended, so
//! no pointer to it dangles. The next thread continues in the same chunk of the journal: each record has
//! the number of its thread. `busy` is true while its thread is inside a hook; stopping waits for that.
//!
//! The memory limit bounds how many threads have a state, and how many of them a chunk. Threads beyond that share
//! one state, or one chunk, under a lock.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, ReentrantMutex};

use super::local::Local;
use super::recording::{CURRENT, Recording};
use crate::python;
use crate::switches::ENABLED;

/// How many states of ended threads keep their chunk for the next thread.
const MOST_IDLE: usize = 64;
/// The part of a thread's state that other threads read.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Thread {
    busy: AtomicBool,
    is_shared: bool,
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
    /// The states of ended threads.
    free: Mutex<Vec<&'static Thread>>,
    /// For threads whose own state was dropped: they still free blocks while they end.
    ending: Mutex<Option<&'static Thread>>,
    /// For threads that the memory limit leaves no state for. A hook that is called inside a hook finds it busy.
    shared: ReentrantMutex<OnceCell<&'static Thread>>,
}

/// The number of threads that may have their own state.
static MOST_STATES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Replaced in a forked child, where a thread of the parent may hold the old locks forever.
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
        let keeps_chunk = free.len() < MOST_IDLE;
        thread.enter(|recording, local| {
            local.leave(recording, keeps_chunk && recording.journal.chunks.has_room());
        });
        free.push(thread);
    }
}

thread_local! {
    static OWNER: Owner = const { Owner(Cell::new(None)) };
}

fn make_thread(is_shared: bool) -> &'static Thread {
    let thread = Box::leak(Box::new(Thread {
        busy: AtomicBool::new(false),
        is_shared,
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
            let shared = threads().shared.lock();
            shared.get_or_init(|| make_thread(true)).enter(work)
        }
        Err(_) => threads().ending.lock().get_or_insert_with(|| make_thread(false)).enter(work),
    }
}

/// Waits until no thread is inside a hook. Returns false after one second.
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

/// A time before which no thread writes another record.
///
/// A thread marks itself busy before it reads the clock. So a thread that is not busy now gets a later time than
/// `now`, and one that is busy gets a later time than its last one.
pub(crate) fn frontier_nanos(recording: &Recording, before: u64) -> u64 {
    let now = recording.nanos();
    std::sync::atomic::fence(Ordering::SeqCst);
    let threads = threads().all.lock();
    let busy = threads.iter().filter(|thread| thread.busy.load(Ordering::SeqCst));
    let last = busy.map(|thread| thread.last_nanos.load(Ordering::Acquire)).min();
    // The frontier never moves back.
    last.map_or(now, |last| last.min(now)).max(before)
}

/// Limits how many threads have a state of their own.
pub(crate) fn limit_states(most: usize) {
    // Where Python's own functions give the stacks, a thread waits for the GIL inside a hook: not under a lock.
    let most = if python::may_wait_for_gil() { usize::MAX } else { most };
    MOST_STATES.store(most, Ordering::Relaxed);
}

/// Clears the times of an earlier recording, before a new one starts.
pub(crate) fn begin_recording() {
    for thread in threads().all.lock().iter() {
        thread.last_nanos.store(0, Ordering::SeqCst);
    }
}

/// In a child of `fork` the other threads do not exist, and their locks may be held forever: their state is
/// not used again, and new state is created where it is needed.
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
                local.join(recording, self.is_shared, &self.last_nanos);
                work(recording, local)
            });
            match std::panic::catch_unwind(work) {
                Ok(value) => result = Some(value),
                Err(_) => recording.fail("the recorder failed: a bug in floodmark".to_owned()),
            }
            self.last_nanos.store(local.last_nanos(), Ordering::Release);
        }
        self.busy.store(false, Ordering::Release);
        result
    }
}

#[cfg(test)]
mod tests;
