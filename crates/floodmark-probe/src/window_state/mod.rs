//! A window on the recorder's events, as the program and the writer share it.

pub(crate) mod ended_steps;
pub(crate) mod peaks;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use floodmark_trace::journal::state::StopNote;
use floodmark_trace::{Batch, Ending, Header, RecordingOptions, TraceWriter, Window};
use parking_lot::{Condvar, Mutex};

use crate::files::output::{Output, PlannedOutput, remove_journal};
use crate::files::own_file::OwnFile;
use crate::files::state_file::StateFile;
use crate::own_threads::free_later::free_later;
use crate::window_state::ended_steps::EndedSteps;
use crate::window_state::peaks::Peaks;

/// The result of a closed window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes in the file.
    pub bytes: u64,
    /// Records in the journal.
    pub records: u64,
    /// Why recording stopped early; empty when it did not.
    pub failure: String,
}

/// What the program and the writer share of one window.
#[derive(Debug)]
pub(crate) struct WindowState {
    pub(crate) window: Window,
    /// torch has no device of the type of this window's fake tensors.
    pub(crate) is_without_device: bool,
    /// The requested file.
    pub(crate) path: Option<PathBuf>,
    /// How it is recorded.
    pub(crate) options: RecordingOptions,
    /// Its journal: the folder and the lock. The writer creates that of a window that joins a recorder.
    pub(crate) journal: OnceLock<(PathBuf, StateFile)>,
    /// The file that its own has replaced.
    pub(crate) replaced: Mutex<Option<File>>,
    /// The header, and whether it changed since it was written.
    pub(crate) header: Mutex<(Header, bool)>,
    /// How many steps have ended in it.
    pub(crate) steps: AtomicU32,
    pub(crate) ended_steps: EndedSteps,
    pub(crate) peaks: Peaks,
    /// Its last time, [`u64::MAX`] while it is open.
    pub(crate) end_nanos: AtomicU64,
    /// Its live blocks are tracked after its end, for the next window.
    pub(crate) is_kept: std::sync::atomic::AtomicBool,
    /// A reader waits for events up to this time.
    pub(crate) requested_nanos: AtomicU64,
    progress: Mutex<Progress>,
    changed: Condvar,
    pub(crate) memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Events up to this time can be read.
    readable_nanos: u64,
    written: Option<Written>,
    failure: Option<StopNote>,
}

/// A window that the writer has not seen yet.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) state: Arc<WindowState>,
    pub(crate) destination: Destination,
    /// This window takes over the devices that were tracked while no window was open.
    pub(crate) replaces_kept: bool,
}

/// Where the events of a window go.
#[derive(Debug)]
pub(crate) enum Destination {
    Memory,
    File(Box<TraceWriter<OwnFile>>),
    /// A file that the writer creates.
    Planned(PlannedOutput),
}

impl WindowState {
    pub(crate) fn new(
        window: Window,
        is_without_device: bool,
        path: Option<PathBuf>,
        header: Header,
        spill: PathBuf,
    ) -> Self {
        Self {
            window,
            is_without_device,
            path,
            options: RecordingOptions::default(),
            journal: OnceLock::new(),
            replaced: Mutex::default(),
            header: Mutex::new((header, false)),
            steps: AtomicU32::new(0),
            ended_steps: EndedSteps::default(),
            peaks: Peaks::default(),
            end_nanos: AtomicU64::new(u64::MAX),
            is_kept: false.into(),
            requested_nanos: AtomicU64::new(0),
            progress: Mutex::default(),
            changed: Condvar::new(),
            memory: Mutex::new(Memory { spill, ..Memory::default() }),
        }
    }

    /// Its last time, [`u64::MAX`] while it is open.
    pub(crate) fn end_nanos(&self) -> u64 {
        self.end_nanos.load(Ordering::Acquire)
    }

    /// Microseconds since it began.
    fn micros_at(&self, nanos: u64) -> u64 {
        nanos.saturating_sub(self.window.start_nanos) / 1000
    }

    /// Ends recording into the window. The first reason counts.
    pub(crate) fn fail(&self, reason: &str, at_nanos: u64) {
        let mut progress = self.progress.lock();
        let at_micros = self.micros_at(at_nanos);
        let note = StopNote { reason: reason.to_owned(), at_micros };
        let note = progress.failure.get_or_insert(note);
        if let Some((_, state)) = self.journal.get() {
            state.note_stop(note);
        }
    }

    /// Why recording into the window ended.
    pub(crate) fn failure(&self) -> Option<StopNote> {
        self.progress.lock().failure.clone()
    }

    /// How it ends: when it was closed, or when it had to stop.
    pub(crate) fn ending(&self, now_nanos: u64) -> Ending {
        let end = self.end_nanos.load(Ordering::Acquire).min(now_nanos);
        let at = StopNote { reason: String::new(), at_micros: self.micros_at(end) };
        let StopNote { reason, at_micros } = self.failure().unwrap_or(at);
        Ending { reason, at_micros }
    }

    /// Events up to this time can be read.
    pub(crate) fn set_readable(&self, nanos: u64) {
        self.progress.lock().readable_nanos = nanos;
        self.changed.notify_all();
    }

    /// The files of the window were created. Returns the trace.
    pub(crate) fn take_files(&self, output: Output) -> Box<TraceWriter<OwnFile>> {
        let Output { folder, state, trace, replaced } = output;
        let _ = self.journal.set((folder, state));
        *self.replaced.lock() = replaced;
        Box::new(trace)
    }

    /// All events are written. Files without a name on disk are freed after that.
    pub(crate) fn set_written(&self, written: Written) {
        self.progress.lock().written = Some(written);
        self.changed.notify_all();
        let lock = self.journal.get().and_then(|(_, state)| state.release());
        let replaced = self.replaced.lock().take();
        if lock.is_some() || replaced.is_some() {
            free_later((lock, replaced));
        }
    }

    /// Waits until events up to this time can be read; `false` when that takes too long.
    pub(crate) fn wait_until_readable(&self, nanos: u64, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut progress = self.progress.lock();
        while progress.readable_nanos < nanos && progress.written.is_none() {
            if self.changed.wait_until(&mut progress, until).timed_out() {
                return false;
            }
        }
        true
    }

    /// The result, once all events are written; `None` when that takes too long.
    pub(crate) fn wait_until_written(&self, patience: Duration) -> Option<Written> {
        let until = Instant::now() + patience;
        let mut progress = self.progress.lock();
        while progress.written.is_none() {
            if self.changed.wait_until(&mut progress, until).timed_out() {
                return None;
            }
        }
        progress.written.clone()
    }

    /// Whether it was closed and the writer has finished it.
    pub(crate) fn is_written(&self) -> bool {
        self.progress.lock().written.is_some()
    }

    /// Removes the files of a recording that failed to start.
    pub(crate) fn remove_files(&self) {
        if let Some((folder, state)) = self.journal.get() {
            let _ = self.path.as_ref().map(std::fs::remove_file);
            remove_journal(folder, state);
        }
    }
}

/// The events of a window without a file.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    batches: Vec<Batch>,
    bytes: usize,
    /// Whether a reader has a copy.
    is_read: bool,
    spill: PathBuf,
    /// Whether the events went to the file `spill`.
    pub(crate) is_spilled: bool,
}

impl Memory {
    /// Adds a batch.
    pub(crate) fn push(&mut self, batch: Batch) {
        self.bytes += batch.held_bytes();
        self.batches.push(batch);
    }

    /// Whether it exceeds its share of memory.
    pub(crate) fn is_full(&self, most_bytes: usize) -> bool {
        // Readers get copies of the events.
        let copies = if self.is_read { 2 } else { 1 };
        self.bytes * copies > most_bytes
    }

    /// The file of events that did not fit in memory.
    pub(crate) fn spill_path(&self) -> &Path {
        &self.spill
    }

    /// Moves all events to a file.
    pub(crate) fn spill(&mut self, header: &Header) -> io::Result<TraceWriter<OwnFile>> {
        let file = OwnFile::create_new(&self.spill)?;
        let file = self.write(file, header)?;
        let spill = std::mem::take(&mut self.spill);
        *self = Self { spill, is_spilled: true, ..Self::default() };
        Ok(file)
    }

    /// Writes all events.
    pub(crate) fn write<W: io::Write>(
        &self,
        out: W,
        header: &Header,
    ) -> io::Result<TraceWriter<W>> {
        let mut file = TraceWriter::new(out, header)?;
        self.batches.iter().try_for_each(|batch| file.write_batch(batch))?;
        Ok(file)
    }

    /// Copies of the batches from one on; `None` where a file has the events.
    pub(crate) fn batches_from(&mut self, first: usize) -> Option<Vec<Batch>> {
        self.is_read = true;
        let new = || self.batches.get(first..).unwrap_or_default().to_vec();
        (!self.is_spilled).then(new)
    }
}

#[cfg(test)]
impl Memory {
    /// The trace of all that is in memory.
    pub(crate) fn trace(
        &mut self,
        header: &Header,
        ending: Option<Ending>,
    ) -> floodmark_trace::Trace {
        let mut growing = floodmark_trace::GrowingTrace::default();
        for batch in self.batches_from(0).unwrap_or_default() {
            growing.push(batch);
        }
        growing.complete(header, ending).clone()
    }
}

#[cfg(test)]
mod tests {
    use floodmark_trace::journal::Record;
    use floodmark_trace::{Assembler, Device, EventKind};

    use super::*;
    use crate::test_recorder::window_state;

    fn window() -> Arc<WindowState> {
        window_state(Window { number: 1, start_nanos: 5_000, cpu: true, ..Window::default() })
    }

    fn ending(state: &WindowState, now_nanos: u64) -> (String, u64) {
        let Ending { reason, at_micros } = state.ending(now_nanos);
        (reason, at_micros)
    }

    /// The next batch, with a block at each address.
    fn batch(assembler: &mut Assembler, addrs: &[u64]) -> Batch {
        for &addr in addrs {
            assembler.push(&Record::block(EventKind::Alloc, Device::CPU, addr, 512), &[]);
        }
        assembler.take_batch()
    }

    #[test]
    fn a_window_ends_when_it_is_closed() {
        let state = window();
        assert_eq!(ending(&state, 8_000), (String::new(), 3), "it is open: now");
        state.end_nanos.store(7_000, Ordering::Release);
        assert_eq!(ending(&state, 8_000), (String::new(), 2));
    }

    #[test]
    fn the_first_failure_is_the_reason() {
        let state = window();
        state.fail("the disk is full", 6_000);
        state.fail("the journal could not grow", 7_000);
        assert_eq!(ending(&state, 8_000), ("the disk is full".to_owned(), 1));
        state.fail("before it began", 0);
        assert_eq!(state.failure().map(|note| note.at_micros), Some(1));
    }

    #[test]
    fn a_reader_waits_until_its_time_is_reached() {
        let state = window();
        state.set_readable(10);
        assert!(state.wait_until_readable(10, Duration::ZERO));
        assert!(!state.wait_until_readable(11, Duration::ZERO), "not for longer than it may");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| state.wait_until_readable(11, Duration::from_mins(10)));
            state.set_readable(11);
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn a_written_journal_is_read_to_its_end() {
        let state = window();
        assert_eq!((state.wait_until_written(Duration::ZERO), state.is_written()), (None, false));
        let written = Written { records: 3, ..Written::default() };
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| state.wait_until_written(Duration::from_mins(10)));
            state.set_written(written.clone());
            assert_eq!(waits.join().unwrap(), Some(written));
        });
        assert!(state.is_written() && state.wait_until_readable(u64::MAX, Duration::ZERO));
    }

    #[test]
    fn events_that_were_read_count_twice() {
        let (mut memory, mut assembler) = (Memory::default(), Assembler::default());
        memory.push(batch(&mut assembler, &[64, 128]));
        let bytes = memory.bytes;
        assert!(bytes > 0 && !memory.is_full(bytes));
        assert_eq!(memory.trace(&Header::default(), None).events.len(), 2);
        assert!(memory.is_full(2 * bytes - 1) && !memory.is_full(2 * bytes));
        memory.push(batch(&mut assembler, &[192]));
        assert_eq!(memory.trace(&Header::default(), None).events.len(), 3);
    }

    #[test]
    fn events_go_to_a_file_when_they_are_too_many() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("spilled.flood");
        let mut memory = Memory { spill: path.clone(), ..Memory::default() };
        let mut assembler = Assembler::default();
        memory.push(batch(&mut assembler, &[64, 128]));
        let mut file = memory.spill(&Header::default()).unwrap();
        assert!(memory.is_spilled && memory.bytes == 0 && memory.spill_path() == path);
        file.write_batch(&batch(&mut assembler, &[192])).unwrap();
        file.finish(&Ending::default()).unwrap();
        let trace = floodmark_trace::read_trace(&std::fs::read(path).unwrap(), &[]).unwrap();
        assert_eq!(trace.events.len(), 3);
    }

    #[test]
    fn a_file_of_that_name_is_not_overwritten() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("taken.flood");
        std::fs::write(&path, "mine").unwrap();
        let mut memory = Memory { spill: path.clone(), ..Memory::default() };
        memory.push(batch(&mut Assembler::default(), &[64]));
        assert!(memory.spill(&Header::default()).is_err() && !memory.is_spilled);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
        assert_eq!(memory.trace(&Header::default(), None).events.len(), 1, "nothing is lost");
    }
}
