//! The thread that turns journal records into traces.
//!
//! It orders the records of all threads by time, adds them to the windows that are open at their time, and appends them to
//! their files. A chunk is used again only when all of it is in the files.

pub(crate) mod additions;
pub(crate) mod definitions;
pub(crate) mod gpu_samples;
pub(crate) mod live_blocks;
pub(crate) mod sink;
pub(crate) mod sinks;
pub(crate) mod touched_sources;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::gil::thread as gil_thread;
use crate::hooks::patch;
use crate::journal::bus_error;
use crate::journal::merge::Merge;
use crate::recorder::Recording;
use crate::recorder::thread::frontier_nanos;
use crate::recorder::window_change::WINDOW_CHANGE;
use crate::switches::ENABLED;
use crate::writer::definitions::DefinitionTable;
use crate::writer::live_blocks::LiveBlocks;
use crate::writer::sink::Sink;
use crate::writer::sinks::Sinks;

/// The time between two rounds.
const ROUND: Duration = Duration::from_millis(50);
/// How long events wait for a flush when there are few of them.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long hooks follow live blocks while no window is open.
const LONGEST_UNUSED: Duration = Duration::from_secs(5);
/// The number of events in one flush, where memory allows.
const ROWS_PER_FLUSH: usize = 64 * 1024;
/// Memory of an event while it waits for a flush and is encoded.
const ROW_BYTES: u64 = 256;

struct Writer<'a> {
    recording: &'a Recording,
    merge: Merge,
    sinks: Sinks<'a>,
    /// No later record has an earlier time.
    frontier_nanos: u64,
    last_flush: Instant,
    /// The time since which no window is open.
    unused_since: Option<Instant>,
    /// The hooks were removed, because no window was open.
    are_hooks_off: bool,
}

/// The result of a writer: the sink that tracks live blocks, and all definitions.
pub(crate) type Ended = (Option<Sink>, DefinitionTable);

/// Runs until `stop` is set and everything is written. Starts when it has received the live blocks, or `None`.
pub(crate) fn run(
    recording: &Recording,
    stop: &AtomicBool,
    live: &Receiver<Option<LiveBlocks>>,
) -> Ended {
    let live = live.recv().ok().flatten();
    // SAFETY: lowers the priority of this thread only: the program comes first.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
    let mut writer = Writer {
        recording,
        merge: Merge::new(recording.journal.seed),
        sinks: Sinks::new(recording, rows_per_flush(recording.budget.flush_bytes()), live.as_ref()),
        frontier_nanos: 0,
        last_flush: Instant::now(),
        unused_since: None,
        are_hooks_off: false,
    };
    // The first round at once: a wake-up while the thread waited to start has no effect later.
    while !stop.load(Ordering::Acquire) {
        writer.run_round();
        std::thread::park_timeout(ROUND);
    }
    writer.finish()
}

/// How many events one flush writes.
fn rows_per_flush(flush_bytes: u64) -> usize {
    let rows = usize::try_from(flush_bytes / ROW_BYTES).unwrap_or(usize::MAX);
    rows.clamp(1024, ROWS_PER_FLUSH)
}

/// Removes the hooks if no window is open or opening. Returns whether it did. The rest is done with the GIL, when the next
/// window opens or the program ends.
fn remove_hooks_if_unused(recording: &Recording) -> bool {
    let Some(_change) = WINDOW_CHANGE.try_lock() else { return false };
    let is_unused = recording.windows.lock().open.is_empty();
    if is_unused {
        ENABLED.store(false, Ordering::SeqCst);
        patch::remove();
    }
    is_unused
}

impl Writer<'_> {
    fn run_round(&mut self) {
        patch::follow_new_libraries();
        gil_thread::start_if_requested();
        self.frontier_nanos = frontier_nanos(self.recording, self.frontier_nanos);
        self.sinks.take_new();
        self.frontier_nanos = self.sinks.frontier_past_closed(self.frontier_nanos);
        self.read_commits();
        while self.fold() {
            self.flush();
        }
        self.check_live_blocks();
        self.sinks.create_files();
        self.sinks.sample_gpus();
        // While no window is open nothing is written, and chunks are used again at once.
        if self.last_flush.elapsed() >= LONGEST_WAIT || !self.sinks.has_open() {
            self.flush();
        }
        self.sinks.answer(self.frontier_nanos);
        // Last, since it takes longest: a program may wait for the rest.
        if let Err(error) = self.recording.journal.chunks.prepare() {
            self.recording.fail(format!("the journal could not grow: {error}"));
        }
        self.remove_hooks_when_unused();
    }

    /// Hooks stay for the next window for a few seconds.
    fn remove_hooks_when_unused(&mut self) {
        if self.sinks.has_open() {
            self.unused_since = None;
            return;
        }
        let since = *self.unused_since.get_or_insert_with(Instant::now);
        let is_over = since.elapsed() >= LONGEST_UNUSED || !ENABLED.load(Ordering::Acquire);
        if is_over && !self.are_hooks_off {
            self.are_hooks_off = remove_hooks_if_unused(self.recording);
        }
    }

    /// Reads what threads have committed since the last round.
    fn read_commits(&mut self) {
        let is_broken =
            self.merge.read_commits(self.recording.journal.chunks.take_fresh()).is_err();
        // A truncated ledger has no counts: truncation is the reason to report, not its
        // consequences.
        if bus_error::was_truncated() {
            self.recording.fail("the journal was truncated by another program".to_owned());
        } else if is_broken {
            self.recording.fail("the journal was changed by another program".to_owned());
        }
    }

    /// Folds the records before the frontier. Returns whether more are left than one flush takes.
    fn fold(&mut self) -> bool {
        let Self { merge, sinks, frontier_nanos, .. } = self;
        let (lost, is_enough) =
            merge.fold(*frontier_nanos, |record, payload| sinks.push(record, payload));
        self.sinks.note_lost(lost);
        if !is_enough {
            self.sinks.pass(self.frontier_nanos.saturating_sub(1));
        }
        self.sinks.publish_progress();
        is_enough
    }

    /// Live blocks cannot be left out: recording ends when their table exceeds its share.
    fn check_live_blocks(&self) {
        if self.sinks.live_bytes() as u64 > self.recording.budget.live_bytes() {
            self.recording.fail(
                "the recorder's memory limit was reached by the table of live blocks (`--max-memory`)"
                    .to_owned(),
            );
        }
    }

    fn flush(&mut self) {
        self.last_flush = Instant::now();
        if self.sinks.flush() {
            for chunk in self.merge.flushed() {
                self.recording.journal.chunks.recycle(chunk);
            }
        }
    }

    /// Writes all that is in the journal, and ends all windows.
    fn finish(mut self) -> Ended {
        // No thread is inside a hook any more, or one is and will stay there.
        self.frontier_nanos = u64::MAX;
        self.sinks.take_new();
        self.read_commits();
        while self.fold() {
            self.flush();
        }
        self.sinks.finish()
    }
}
