//! For unit tests: a recorder that no hook calls, and the records that a thread has written into its journal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use floodmark_trace::journal::{Record, parse_record};
use floodmark_trace::{Header, RecordingOptions, Window};

use crate::files::output::Replace;
use crate::journal::chunks::Chunks;
use crate::recorder::recording::CURRENT;
use crate::recorder::thread::{forget_after_fork, limit_states};
use crate::recorder::{BlockSource, Recording, WindowOptions};
use crate::switches::{ENABLED, IS_WATCHED};
use crate::window_state::WindowState;

/// Memory that is enough for every test.
pub(crate) const MAX_MEMORY: u64 = 64 << 20;

/// Threads identify a recorder by its number.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Options of a window in memory, on the host's memory alone and without stacks.
pub(crate) fn options() -> WindowOptions {
    WindowOptions {
        path: None,
        spill: "unused.flood".into(),
        replace: Replace::Nothing,
        cpu: true,
        cuda: 0,
        source: BlockSource::Torch,
        recording: RecordingOptions {
            stacks: false,
            max_memory: MAX_MEMORY,
            ..RecordingOptions::default()
        },
        header: Header::default(),
        own_folders: Vec::new(),
    }
}

/// The same with another memory limit.
pub(crate) fn with_limit(max_memory: u64) -> WindowOptions {
    let mut options = options();
    options.recording.max_memory = max_memory;
    options
}

/// A recorder with its journal in memory.
pub(crate) fn recording(max_memory: u64) -> Recording {
    let options = with_limit(max_memory);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    Recording::new(id, &options, Chunks::create(None, id, max_memory).unwrap())
}

/// A window in memory.
pub(crate) fn window_state(window: Window) -> Arc<WindowState> {
    Arc::new(WindowState::new(window, false, None, Header::default(), "unused.flood".into()))
}

/// Every record of the chunks that threads have taken since the last call, with its payload, by chunk.
pub(crate) fn records(recording: &Recording) -> Vec<Vec<(Record, Vec<u8>)>> {
    let read = |chunk: &crate::journal::chunks::Chunk| {
        let (slots, count) = chunk.committed();
        let (mut at, mut found) = (0, Vec::new());
        while let Some((_, record, payload, taken)) =
            parse_record(chunk.slots(at, slots), recording.journal.seed)
        {
            found.push((record, payload.to_vec()));
            at += taken;
        }
        assert_eq!((at, found.len()), (slots, count as usize), "all that is committed is whole");
        found
    };
    recording.journal.chunks.take_fresh().iter().map(|chunk| read(chunk)).collect()
}

/// While it lives, no other test has a recorder that hooks call: a process has only one.
pub(crate) struct Alone(
    #[expect(dead_code, reason = "other tests wait for it")] MutexGuard<'static, ()>,
);

/// Waits until no other test has a recorder that hooks call.
pub(crate) fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = Alone(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    // As in a process that has recorded nothing yet: no thread has a state.
    forget_after_fork();
    alone
}

impl Drop for Alone {
    fn drop(&mut self) {
        // The thread of this test must not pass its state to another test.
        forget_after_fork();
    }
}

/// A recorder that hooks call, until it is dropped. Only tests that are [`alone`] have one.
pub(crate) struct Installed {
    pub(crate) recording: &'static Recording,
    _alone: Alone,
}

impl Installed {
    /// Hooks record what these windows want.
    pub(crate) fn new(max_memory: u64, windows: &[Window]) -> Self {
        let alone = alone();
        // Hooks may be inside it when the test ends, so it stays.
        let recording = Box::leak(Box::new(recording(max_memory)));
        recording.wanted.set(windows);
        CURRENT.store(std::ptr::from_mut(recording), Ordering::SeqCst);
        ENABLED.store(true, Ordering::SeqCst);
        IS_WATCHED.store(true, Ordering::SeqCst);
        Self { recording, _alone: alone }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        ENABLED.store(false, Ordering::SeqCst);
        IS_WATCHED.store(false, Ordering::SeqCst);
        limit_states(usize::MAX);
    }
}
