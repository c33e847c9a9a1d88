//! The thread that turns journal records into the file.
//!
//! Records of all threads are put in the order of their times, folded into batches, and appended. A
//! segment is used again only when all of it is in the file.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodmark_trace::{Assembler, TraceWriter};

use crate::bus_error;
use crate::merge::{Flow, Merge};
use crate::output::remove_journal;
use crate::own_file::OwnFile;
use crate::patch;
use crate::recording::Recording;
use crate::thread::frontier_nanos;

/// How often the journal is looked at.
const LAP: Duration = Duration::from_millis(50);
/// How long events wait for a flush when there are few of them.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
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
    /// Why recording stopped before it was told to; empty when it did not.
    pub failure: String,
}

struct Writer<'a> {
    recording: &'a Recording,
    file: TraceWriter<OwnFile>,
    merge: Merge,
    assembler: Assembler,
    /// No record before this time will come.
    frontier_nanos: u64,
    records: u64,
    rows_per_flush: usize,
    last_flush: Instant,
    /// A write failed, and may have left a part of its bytes in the file.
    is_torn: bool,
}

/// Runs until `stop` is set and everything is written.
pub(crate) fn run(recording: &Recording, file: TraceWriter<OwnFile>, stop: &AtomicBool) -> Written {
    // SAFETY: lowers the priority of this thread only: the program comes first.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
    let mut writer = Writer {
        recording,
        file,
        merge: Merge::new(recording.seed),
        assembler: Assembler::default(),
        frontier_nanos: 0,
        records: 0,
        rows_per_flush: rows_per_flush(recording.budget.limit_bytes()),
        last_flush: Instant::now(),
        is_torn: false,
    };
    let mut result = Ok(());
    while !stop.load(Ordering::Acquire) {
        std::thread::park_timeout(LAP);
        if result.is_ok() {
            result = writer.lap();
            if let Err(error) = &result {
                recording.fail(format!("the trace could not be written: {error}"));
            }
        }
    }
    writer.finish(result.is_ok())
}

/// A flush takes at most an eighth of the memory limit.
fn rows_per_flush(limit_bytes: u64) -> usize {
    let rows = usize::try_from(limit_bytes / 8 / ROW_BYTES).unwrap_or(usize::MAX);
    rows.clamp(1024, ROWS_PER_FLUSH)
}

impl Writer<'_> {
    fn lap(&mut self) -> io::Result<()> {
        patch::follow_new_libraries();
        if let Err(error) = self.recording.segments.prepare() {
            // What is in the journal already can still be written.
            self.recording.fail(format!("the journal could not grow: {error}"));
        }
        self.frontier_nanos = frontier_nanos(self.recording, self.frontier_nanos);
        self.look();
        while self.fold() {
            self.flush()?;
        }
        self.count_memory();
        let is_due = self.last_flush.elapsed() >= LONGEST_WAIT;
        if is_due || self.assembler.pending_rows() >= self.rows_per_flush {
            self.flush()?;
        }
        Ok(())
    }

    /// Looks what was committed since the last lap.
    fn look(&mut self) {
        let is_broken = self.merge.look(self.recording.segments.take_fresh()).is_err();
        // A ledger that was truncated counts nothing any more: that is the reason, not what followed from it.
        if bus_error::was_truncated() {
            self.recording.fail("the journal was truncated by another program".to_owned());
        } else if is_broken {
            self.recording.fail("the journal was changed by another program".to_owned());
        }
    }

    /// Folds the records before the frontier. Returns whether there are more than one flush takes.
    fn fold(&mut self) -> bool {
        let Self { assembler, records, rows_per_flush, .. } = self;
        let (lost, is_enough) = self.merge.fold(self.frontier_nanos, |record, payload| {
            assembler.push(record, payload);
            *records += 1;
            if assembler.pending_rows() >= *rows_per_flush { Flow::Enough } else { Flow::Continue }
        });
        self.assembler.note_lost(lost);
        self.recording.ended_steps.add(&self.assembler.take_ended_steps());
        self.recording.peaks.set(self.assembler.peaks());
        is_enough
    }

    /// Counts what the writer holds. Live blocks cannot be left out: where they alone are too much, recording ends.
    fn count_memory(&self) {
        let held = self.assembler.held_bytes();
        self.recording.budget.set_writer(held + self.recording.segments.held_bytes());
        if held as u64 > self.recording.budget.limit_bytes() {
            self.recording.fail(
                "the recorder's memory limit was reached by the table of live blocks (`--max-memory`)"
                    .to_owned(),
            );
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.last_flush = Instant::now();
        // Before anything is taken: what is not written stays where it is.
        self.file.get_ref().names()?;
        self.is_torn = true;
        let header = {
            let mut header = self.recording.header.lock();
            std::mem::take(&mut header.1).then(|| header.0.clone())
        };
        if let Some(header) = header {
            self.file.write_header(&header)?;
        }
        let batch = self.assembler.take_batch();
        if !batch.is_empty() {
            self.file.write_batch(&batch)?;
        }
        self.is_torn = false;
        self.assembler.reuse(batch);
        for segment in self.merge.flushed() {
            self.recording.segments.recycle(segment);
        }
        Ok(())
    }

    fn finish(mut self, is_writable: bool) -> Written {
        let recording = self.recording;
        let is_written = (is_writable || self.find_trace()) && self.write_rest();
        let bytes = self.file.bytes_written();
        let is_removed = self.file.get_ref().names().is_ok_and(|names| names == 0);
        if is_written {
            match self.file.finish(&recording.ending()) {
                Ok(_) => {
                    recording.segments.remove();
                    remove_journal(recording.segments.folder(), &recording.state);
                }
                Err(error) => recording.fail(format!("the trace could not be finished: {error}")),
            }
        }
        let failure = if is_removed {
            "the trace file was removed while it was being written".to_owned()
        } else {
            recording.ending().reason
        };
        Written { bytes, records: self.records, failure }
    }

    /// Opens the trace again when the program has closed its descriptor. Nothing was written since, so the
    /// recording ends with what came before, and with the reason.
    fn find_trace(&mut self) -> bool {
        let path = &self.recording.options.path;
        !self.is_torn && self.file.get_mut().reopen(path).is_ok()
    }

    /// Writes all that is in the journal. Returns whether that succeeded.
    fn write_rest(&mut self) -> bool {
        // No thread is inside a hook any more, or one is and will stay there.
        self.frontier_nanos = u64::MAX;
        self.look();
        loop {
            let is_more = self.fold();
            if let Err(error) = self.flush() {
                self.recording.fail(format!("the trace could not be written: {error}"));
                return false;
            }
            if !is_more {
                return true;
            }
        }
    }
}
