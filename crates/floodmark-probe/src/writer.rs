//! The thread that turns journal records into the file.
//!
//! Records of all threads are put in the order of their numbers, folded into batches, and appended. A
//! segment is used again only when all of it is in the file.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodmark_trace::journal::{Entry, SLOT_BYTES, read_entries};
use floodmark_trace::{Assembler, Ending, TraceWriter};

use crate::patch;
use crate::recording::Recording;
use crate::segments::Segment;

/// How often the journal is looked at.
const LAP: Duration = Duration::from_millis(50);
/// How long events wait for a flush when there are few of them.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How many events make a flush.
const ROWS_PER_FLUSH: usize = 64 * 1024;

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

struct Open {
    segment: Arc<Segment>,
    read: usize,
    last_seq: u64,
}

struct Writer<'a> {
    recording: &'a Recording,
    file: TraceWriter<File>,
    handle: File,
    open: Vec<Open>,
    waiting: Vec<Entry>,
    assembler: Assembler,
    next_seq: u64,
    last_flush: Instant,
}

/// Runs until `stop` is set and everything is written.
pub(crate) fn run(recording: &Recording, file: File, stop: &AtomicBool) -> Written {
    // SAFETY: lowers the priority of this thread only: the program comes first.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
    let started = file.try_clone().and_then(|handle| {
        let header = recording.header.lock().0.clone();
        Ok((TraceWriter::new(file, &header)?, handle))
    });
    let (file, handle) = match started {
        Ok(started) => started,
        Err(error) => {
            let failure = format!("the trace could not be begun: {error}");
            recording.fail(failure.clone());
            return Written { failure, ..Written::default() };
        }
    };
    let mut writer = Writer {
        recording,
        file,
        handle,
        open: Vec::new(),
        waiting: Vec::new(),
        assembler: Assembler::default(),
        next_seq: 1,
        last_flush: Instant::now(),
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

impl Writer<'_> {
    fn lap(&mut self) -> io::Result<()> {
        patch::follow_new_libraries();
        if let Err(error) = self.recording.segments.prepare() {
            // What is in the journal already can still be written.
            self.recording.fail(format!("the journal could not grow: {error}"));
        }
        self.collect();
        self.fold(false);
        let is_due = self.last_flush.elapsed() >= LONGEST_WAIT;
        if is_due || self.assembler.pending_rows() >= ROWS_PER_FLUSH {
            self.flush()?;
        }
        Ok(())
    }

    /// Takes what was committed since the last lap.
    fn collect(&mut self) {
        for segment in self.recording.segments.take_fresh() {
            self.open.push(Open { segment, read: 0, last_seq: 0 });
        }
        for open in &mut self.open {
            let committed = open.segment.committed();
            if committed == open.read {
                continue;
            }
            let slots = open.segment.slots(committed);
            let first = self.waiting.len();
            let fresh = &slots[open.read * SLOT_BYTES..];
            let count = committed - open.read;
            read_entries(fresh, 0, count, open.segment.thread(), &mut self.waiting);
            open.read = committed;
            if self.waiting.len() > first {
                open.last_seq = self.waiting[self.waiting.len() - 1].record.seq;
            }
        }
    }

    /// Folds records as far as none is missing; in the end, all there are.
    fn fold(&mut self, is_last: bool) {
        self.waiting.sort_by_key(|entry| entry.record.seq);
        let mut folded = 0;
        for entry in &self.waiting {
            if entry.record.seq != self.next_seq && !is_last {
                break;
            }
            self.assembler.push(entry);
            self.next_seq = entry.record.seq + 1;
            folded += 1;
            if self.assembler.pending_rows() >= 4 * ROWS_PER_FLUSH {
                break;
            }
        }
        self.waiting.drain(..folded);
        self.recording.ended_steps.add(&self.assembler.take_ended_steps());
    }

    fn flush(&mut self) -> io::Result<()> {
        self.last_flush = Instant::now();
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
        let written = self.next_seq - 1;
        let done = |open: &Open| {
            open.segment.sealed.load(Ordering::Acquire)
                && open.segment.committed() == open.read
                && open.last_seq <= written
        };
        let (drained, open): (Vec<_>, Vec<_>) = self.open.drain(..).partition(done);
        self.open = open;
        for open in drained {
            self.recording.segments.recycle(open.segment);
        }
        Ok(())
    }

    fn finish(mut self, is_writable: bool) -> Written {
        let mut result = Ok(());
        if is_writable {
            self.collect();
            loop {
                self.fold(true);
                result = self.flush();
                if result.is_err() || self.waiting.is_empty() {
                    break;
                }
            }
        }
        let failure = match &result {
            Ok(()) => self.recording.failure.lock().clone().unwrap_or_default(),
            Err(error) => format!("the trace could not be written: {error}"),
        };
        let bytes = self.file.bytes_written();
        let mut written = Written { bytes, records: self.recording.records(), failure };
        if !is_writable || result.is_err() {
            return written;
        }
        let ending =
            Ending { reason: written.failure.clone(), at_micros: self.recording.nanos() / 1000 };
        match self.file.finish(&ending).and_then(|mut file| file.flush()) {
            Ok(()) => self.recording.segments.remove(),
            Err(error) => written.failure = format!("the trace could not be finished: {error}"),
        }
        if self.handle.metadata().is_ok_and(|file| file.nlink() == 0) {
            "the trace file was removed while it was being written"
                .clone_into(&mut written.failure);
        }
        written
    }
}
