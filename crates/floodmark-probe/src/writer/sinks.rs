//! All windows of the writer, and which of them are open at the time of a record.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use floodmark_trace::journal::Record;
use floodmark_trace::{Device, EventKind};

use crate::journal::merge::Flow;
use crate::recorder::Recording;
use crate::window_state::{Opening, WindowState};
use crate::writer::definitions::DefinitionTable;
use crate::writer::gpu_samples::{GpuSampling, Wanted};
use crate::writer::live_blocks::LiveBlocks;
use crate::writer::sink::Sink;

/// A closed window is finished after this time, also while a thread is inside a hook.
const LONGEST_CLOSE_NANOS: u64 = 1_000_000_000;

/// The windows, and the live blocks that a new one starts with.
#[derive(Debug)]
pub(crate) struct Sinks<'a> {
    recording: &'a Recording,
    open: Vec<Sink>,
    /// Follows live blocks while no window does.
    kept: Option<Sink>,
    /// Windows that start after the last record, in the order of their starts.
    waiting: Vec<Opening>,
    /// All that was defined.
    known: DefinitionTable,
    /// Phases that are open, by thread.
    phases: BTreeMap<u32, Vec<u32>>,
    /// No window starts or ends before this time.
    boundary_nanos: u64,
    rows_per_flush: usize,
    gpu_sampling: GpuSampling,
}

impl<'a> Sinks<'a> {
    /// `live` has the blocks that were live when the recorder began, if known.
    pub(crate) fn new(
        recording: &'a Recording,
        rows_per_flush: usize,
        live: Option<&LiveBlocks>,
    ) -> Self {
        Self {
            recording,
            open: Vec::new(),
            kept: live.map(Sink::following),
            waiting: Vec::new(),
            known: DefinitionTable::default(),
            phases: BTreeMap::new(),
            boundary_nanos: u64::MAX,
            rows_per_flush,
            gpu_sampling: GpuSampling::default(),
        }
    }

    /// Takes the windows that were opened and closed since the last call. The frontier must have been read before:
    /// no later window starts before it.
    pub(crate) fn take_new(&mut self) {
        let mut windows = self.recording.windows.lock();
        self.waiting.append(&mut windows.opening);
        drop(windows);
        self.waiting.sort_by_key(|opening| opening.state.window.start_nanos);
        self.find_boundary();
    }

    /// Moves the frontier past the end of windows that wait for a thread inside a hook.
    pub(crate) fn frontier_past_closed(&self, frontier_nanos: u64) -> u64 {
        let now = self.recording.nanos();
        let ends = self.open.iter().map(end_of);
        let late = ends.filter(|end| end.saturating_add(LONGEST_CLOSE_NANOS) < now);
        late.map(|end| end + 1).max().unwrap_or(0).max(frontier_nanos)
    }

    fn find_boundary(&mut self) {
        let starts = self.waiting.first().map(|opening| opening.state.window.start_nanos);
        let ends = self.open.iter().map(|sink| end_of(sink).saturating_add(1));
        self.boundary_nanos = ends.chain(starts).min().unwrap_or(u64::MAX);
    }

    /// Adds a record to all windows that it belongs to.
    #[inline]
    pub(crate) fn push(&mut self, record: &Record, payload: &[u8]) -> Flow {
        if record.time_nanos >= self.boundary_nanos {
            self.pass(record.time_nanos);
        }
        match EventKind::from_number(record.kind) {
            None => self.known.define(record, payload),
            Some(EventKind::PhaseBegin) => {
                self.phases.entry(record.thread).or_default().push(record.name_number());
            }
            Some(EventKind::PhaseEnd) => {
                if let Some(phases) = self.phases.get_mut(&record.thread) {
                    phases.pop();
                    if phases.is_empty() {
                        self.phases.remove(&record.thread);
                    }
                }
            }
            Some(_) => {}
        }
        let mut most_rows = 0;
        for sink in &mut self.open {
            most_rows = most_rows.max(sink.push(record, payload));
        }
        if let Some(kept) = &mut self.kept {
            kept.push(record, payload);
        }
        if most_rows >= self.rows_per_flush { Flow::Enough } else { Flow::Continue }
    }

    /// Opens and closes the windows that start or end until `nanos`, in order.
    #[cold]
    pub(crate) fn pass(&mut self, nanos: u64) {
        while self.boundary_nanos <= nanos && self.boundary_nanos < u64::MAX {
            let at = self.boundary_nanos;
            while let Some(ended) = self.open.iter().position(|sink| end_of(sink) < at) {
                let sink = self.open.remove(ended);
                self.close(sink);
            }
            let starts = |opening: &mut Opening| opening.state.window.start_nanos <= at;
            let starting: Vec<Opening> = self.waiting.extract_if(.., starts).collect();
            for opening in starting {
                self.open_one(opening);
            }
            self.find_boundary();
        }
    }

    fn open_one(&mut self, opening: Opening) {
        let window = opening.state.window;
        let sources = || self.kept.iter().chain(&self.open);
        let sources =
            || sources().filter(|sink| sink.state.window.fake_tensors == window.fake_tensors);
        let mut devices: Vec<Device> = sources().flat_map(Sink::devices).collect();
        devices.sort_unstable();
        devices.dedup();
        let mut live = Vec::new();
        for device in devices.into_iter().filter(|&device| window.wants(device)) {
            let found = sources().find_map(|sink| sink.initial_records(device, window.start_nanos));
            live.extend(found.into_iter().flatten());
        }
        for (&thread, phases) in &self.phases {
            live.extend(phases.iter().map(|&phase| {
                let mut record = Record::named(EventKind::PhaseBegin, phase);
                (record.thread, record.time_nanos) = (thread, window.start_nanos);
                record
            }));
        }
        if opening.replaces_kept {
            self.kept = None;
        }
        let is_owner = self.is_owner(&opening.state);
        self.open.push(Sink::open(opening, is_owner, &self.known, &live));
    }

    fn close(&mut self, mut sink: Sink) {
        sink.publish_progress();
        self.take_last_sample(&mut sink);
        let is_owner = self.is_owner(&sink.state);
        if let Some(kept) = sink.finish(self.recording, &self.known, is_owner) {
            self.kept = Some(kept);
        }
    }

    /// Gives new samples of the GPUs to the windows, and requests one where a window wants it.
    pub(crate) fn sample_gpus(&mut self) {
        for sample in self.gpu_sampling.take() {
            self.open.iter_mut().for_each(|sink| sink.add_sample(self.recording, &sample));
        }
        let wanted = self.open.iter().map(Sink::wanted_sample).max().unwrap_or(Wanted::Nothing);
        if wanted == Wanted::Nothing {
            return;
        }
        let mut gpus: Vec<_> = self.open.iter().flat_map(Sink::gpus).collect();
        gpus.sort_unstable();
        gpus.dedup();
        if self.gpu_sampling.request(gpus, wanted) {
            self.open.iter_mut().for_each(Sink::note_requested_sample);
        }
    }

    /// The last sample of a window that has a file. One in memory may be open for a moment, again and again.
    fn take_last_sample(&mut self, sink: &mut Sink) {
        let gpus = if sink.is_on_disk() { sink.gpus() } else { Vec::new() };
        for sample in self.gpu_sampling.take_last(gpus) {
            for sink in self.open.iter_mut().chain([&mut *sink]) {
                sink.add_sample(self.recording, &sample);
            }
        }
    }

    /// Whether the journal is that of this window.
    fn is_owner(&self, state: &WindowState) -> bool {
        let session = format!("{:016x}", self.recording.journal.id);
        state.header.lock().0.session == session
    }

    /// Whether a window is open, or will be.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty() || !self.waiting.is_empty()
    }

    pub(crate) fn note_lost(&mut self, records: u64) {
        if records > 0 {
            self.open.iter_mut().for_each(|sink| sink.note_lost(records));
        }
    }

    /// Publishes steps and peaks to the program.
    pub(crate) fn publish_progress(&mut self) {
        self.open.iter_mut().chain(&mut self.kept).for_each(Sink::publish_progress);
    }

    /// Memory of the table of live blocks.
    pub(crate) fn live_bytes(&self) -> usize {
        self.open.iter().chain(&self.kept).map(Sink::live_bytes).sum()
    }

    /// Writes the waiting rows of all windows. Returns whether the journal's own window was
    /// written.
    pub(crate) fn flush(&mut self) -> bool {
        let mut is_owner_whole = true;
        for at in 0..self.open.len() {
            let failed = self.open[at].flush(self.recording, &self.known).err();
            let is_owner = self.is_owner(&self.open[at].state);
            is_owner_whole &= !is_owner || self.open[at].state.failure().is_none();
            // The journal must stay: it has events that the file lacks.
            if let Some(error) = failed
                && (is_owner || self.open.len() == 1)
            {
                self.recording.fail(format!("the trace could not be written: {error}"));
            }
        }
        is_owner_whole
    }

    /// Flushes the windows that a reader waits for.
    pub(crate) fn answer(&mut self, frontier_nanos: u64) {
        for sink in &mut self.open {
            let asked = sink.state.requested_nanos.load(Ordering::Acquire);
            if asked != 0 && asked < frontier_nanos {
                // A failure is stored in the window.
                let _ = sink.flush(self.recording, &self.known);
                sink.state.requested_nanos.store(0, Ordering::Release);
                sink.state.set_readable(frontier_nanos);
            }
        }
    }

    /// Creates the files of windows that were opened since the last round.
    pub(crate) fn create_files(&mut self) {
        for sink in &mut self.open {
            sink.create_file(self.recording);
        }
    }

    /// Ends all windows. Returns the sink that tracks live blocks for the next one, and all
    /// definitions.
    pub(crate) fn finish(mut self) -> (Option<Sink>, DefinitionTable) {
        self.take_new();
        self.pass(u64::MAX - 1);
        for sink in std::mem::take(&mut self.open) {
            self.close(sink);
        }
        (self.kept, self.known)
    }
}

fn end_of(sink: &Sink) -> u64 {
    sink.state.end_nanos()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use floodmark_trace::journal::Definition;
    use floodmark_trace::{GrowingTrace, Header, TextKind, Trace, Window};

    use super::*;
    use crate::test_recorder::{MAX_MEMORY, recording, window_state};
    use crate::window_state::Destination;

    fn window(number: u64, start_nanos: u64, end_nanos: u64) -> (Opening, Arc<WindowState>) {
        let window = Window { number, start_nanos, cpu: true, stacks: true, ..Window::default() };
        let state = window_state(window);
        state.end_nanos.store(end_nanos, Ordering::Release);
        (
            Opening {
                state: Arc::clone(&state),
                destination: Destination::Memory,
                replaces_kept: false,
            },
            state,
        )
    }

    fn block(kind: EventKind, time_nanos: u64, addr: u64) -> Record {
        Record::block(kind, Device::CPU, addr, addr).at_time(time_nanos)
    }

    /// What a window in memory has.
    fn trace_of(state: &WindowState) -> Trace {
        let mut growing = GrowingTrace::default();
        for batch in state.memory.lock().batches_from(0).unwrap() {
            growing.push(batch);
        }
        growing.complete(&Header::default(), None).clone()
    }

    fn bytes_of(state: &WindowState) -> Vec<(u64, bool)> {
        let trace = trace_of(state);
        trace.allocations.iter().map(|one| (one.rounded.0, one.before_recording)).collect()
    }

    /// Two windows overlap: each has its own events, and the blocks that were live when it began.
    #[test]
    fn each_window_has_the_events_between_its_start_and_its_end() {
        let recording = recording(MAX_MEMORY);
        let mut sinks = Sinks::new(&recording, 1 << 16, None);
        let (one, first) = window(1, 10, 30);
        let (two, second) = window(2, 20, 40);
        recording.windows.lock().opening.extend([two, one]);
        sinks.take_new();
        let made = [(5, 100), (12, 200), (21, 300), (31, 400), (41, 500)];
        for (time, addr) in made {
            sinks.push(&block(EventKind::Alloc, time, addr), &[]);
            if addr == 200 {
                sinks.push(&block(EventKind::Free, 13, 200), &[]);
                sinks.push(&block(EventKind::Alloc, 14, 250), &[]);
            }
        }
        sinks.finish();
        assert_eq!(bytes_of(&first), [(200, false), (250, false), (300, false)]);
        assert_eq!(bytes_of(&second), [(250, true), (300, false), (400, false)]);
    }

    #[test]
    fn a_window_has_names_and_phases_from_before_it() {
        let recording = recording(MAX_MEMORY);
        let mut sinks = Sinks::new(&recording, 1 << 16, None);
        let (one, _) = window(1, 0, 100);
        let (two, second) = window(2, 20, 100);
        recording.windows.lock().opening.extend([one, two]);
        sinks.take_new();
        let text = Definition::Text { id: 1, kind: TextKind::Phase, text: "warm-up" };
        let (record, payload) = text.to_record();
        sinks.push(&record.at_time(10), &payload);
        let begins = Record::named(EventKind::PhaseBegin, 1);
        sinks.push(&begins.at_time(11), &[]);
        let mut made = block(EventKind::Alloc, 21, 64);
        made.phase = 1;
        sinks.push(&made, &[]);
        sinks.finish();
        let trace = trace_of(&second);
        let phase = trace.allocations[0].phase;
        assert_eq!(trace.text(phase), Some("warm-up"));
        assert_eq!(trace.events.len(), 2, "the phase begins again, then the block");
    }

    #[test]
    fn live_blocks_are_followed_for_the_next_window() {
        let recording = recording(MAX_MEMORY);
        let mut sinks = Sinks::new(&recording, 1 << 16, None);
        let (one, first) = window(1, 0, 10);
        first.is_kept.store(true, Ordering::Release);
        recording.windows.lock().opening.push(one);
        sinks.take_new();
        sinks.push(&block(EventKind::Alloc, 1, 100), &[]);
        sinks.push(&block(EventKind::Alloc, 11, 200), &[]);
        sinks.push(&block(EventKind::Free, 12, 100), &[]);
        let (two, second) = window(2, 20, 30);
        recording.windows.lock().opening.push(Opening { replaces_kept: true, ..two });
        sinks.take_new();
        sinks.pass(25);
        sinks.finish();
        assert_eq!(bytes_of(&first), [(100, false)]);
        assert_eq!(bytes_of(&second), [(200, true)]);
    }
}
