//! The thread that turns journal records into traces.
//!
//! Records of all threads are put in the order of their times, folded into the windows that are open at their time, and appended to
//! their files. A segment is used again only when all of it is in the files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::handover::Live;
use crate::known::Known;
use crate::merge::Merge;
use crate::recording::{ENABLED, Recording};
use crate::session::fall_asleep;
use crate::sink::Sink;
use crate::sinks::Sinks;
use crate::thread::frontier_nanos;
use crate::{bus_error, gil_thread, patch};

/// How often the journal is looked at.
const LAP: Duration = Duration::from_millis(50);
/// How long events wait for a flush when there are few of them.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long hooks follow live blocks while no window is open.
const LONGEST_UNUSED: Duration = Duration::from_secs(5);
/// How many events make a flush, where memory allows.
const ROWS_PER_FLUSH: usize = 64 * 1024;
/// What an event takes while it waits for a flush, and while it is encoded.
const ROW_BYTES: u64 = 256;

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes in the file.
    pub bytes: u64,
    /// Records that were journalled.
    pub records: u64,
    /// Why recording stopped early; empty when it did not.
    pub failure: String,
}

struct Writer<'a> {
    recording: &'a Recording,
    merge: Merge,
    sinks: Sinks<'a>,
    /// No record before this time will come.
    frontier_nanos: u64,
    last_flush: Instant,
    /// Since when no window is open.
    unused_since: Option<Instant>,
    /// The hooks were taken off, for want of a window.
    are_hooks_off: bool,
}

/// What a writer leaves behind: what followed live blocks, and all that was defined.
pub(crate) type Ended = (Option<Sink>, Known);

/// Runs until `stop` is set and everything is written. Begins when it is known what is live, or that it is not.
pub(crate) fn run(
    recording: &Recording,
    stop: &AtomicBool,
    live: &Receiver<Option<Live>>,
) -> Ended {
    let live = live.recv().ok().flatten();
    // SAFETY: lowers the priority of this thread only: the program comes first.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
    let mut writer = Writer {
        recording,
        merge: Merge::new(recording.seed),
        sinks: Sinks::new(recording, rows_per_flush(recording.budget.flush_bytes()), live.as_ref()),
        frontier_nanos: 0,
        last_flush: Instant::now(),
        unused_since: None,
        are_hooks_off: false,
    };
    // The first lap at once: what woke the thread while it waited to begin does not wake it again.
    while !stop.load(Ordering::Acquire) {
        writer.lap();
        std::thread::park_timeout(LAP);
    }
    writer.finish()
}

/// How many events one flush writes.
fn rows_per_flush(flush_bytes: u64) -> usize {
    let rows = usize::try_from(flush_bytes / ROW_BYTES).unwrap_or(usize::MAX);
    rows.clamp(1024, ROWS_PER_FLUSH)
}

impl Writer<'_> {
    fn lap(&mut self) {
        patch::follow_new_libraries();
        gil_thread::start_where_wanted();
        self.frontier_nanos = frontier_nanos(self.recording, self.frontier_nanos);
        self.sinks.take_new();
        self.frontier_nanos = self.sinks.patient_frontier(self.frontier_nanos);
        self.read_commits();
        while self.fold() {
            self.flush();
        }
        self.check_live_blocks();
        self.sinks.create_files();
        // While no window is open there is nothing to write, and segments are used again at once.
        if self.last_flush.elapsed() >= LONGEST_WAIT || !self.sinks.has_open() {
            self.flush();
        }
        self.sinks.answer(self.frontier_nanos);
        // Last, since it takes longest: a program may wait for the rest.
        if let Err(error) = self.recording.segments.prepare() {
            self.recording.fail(format!("the journal could not grow: {error}"));
        }
        self.sleep_where_unused();
    }

    /// Hooks stay for the next window, but not for ever.
    fn sleep_where_unused(&mut self) {
        if self.sinks.has_open() {
            self.unused_since = None;
            return;
        }
        let since = *self.unused_since.get_or_insert_with(Instant::now);
        let is_over = since.elapsed() >= LONGEST_UNUSED || !ENABLED.load(Ordering::Acquire);
        if is_over && !self.are_hooks_off {
            self.are_hooks_off = fall_asleep(self.recording);
        }
    }

    /// Looks what was committed since the last lap.
    fn read_commits(&mut self) {
        let is_broken = self.merge.read_commits(self.recording.segments.take_fresh()).is_err();
        // A ledger that was truncated counts nothing any more: that is the reason, not what followed from it.
        if bus_error::was_truncated() {
            self.recording.fail("the journal was truncated by another program".to_owned());
        } else if is_broken {
            self.recording.fail("the journal was changed by another program".to_owned());
        }
    }

    /// Folds the records before the frontier. Returns whether there are more than one flush takes.
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

    /// Live blocks cannot be left out: where they are too many, recording ends.
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
            for segment in self.merge.flushed() {
                self.recording.segments.recycle(segment);
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
