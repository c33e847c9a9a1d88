//! The output of one window: a file, memory, or none.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use floodmark_trace::journal::Record;
use floodmark_trace::{
    Assembler, Device, DeviceInfo, EventKind, Header, Selection, TraceWriter, Window,
};

use crate::files::output::{PlannedOutput, WholeTrace, remove_journal};
use crate::files::own_file::OwnFile;
use crate::files::start_error::StartError;
use crate::gpu_memory::sampler::{Gpus, Sample};
use crate::recorder::Recording;
use crate::window_state::Written;
use crate::window_state::{Destination, Opening, WindowState};
use crate::writer::additions::Additions;
use crate::writer::definitions::{DefinitionTable, WrittenDefinitions};
use crate::writer::gpu_samples::Wanted;
use crate::writer::live_blocks::LiveBlocks;
use crate::writer::touched_sources::TouchedSources;

/// A sink without output drops its rows at this number.
const MOST_UNUSED_ROWS: usize = 4096;

/// The writer's state of one window.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) state: Arc<WindowState>,
    selection: Selection,
    assembler: Assembler,
    output: Output,
    additions: Additions,
    records: u64,
    /// Events that were written, or are in memory.
    events: u64,
    has_failed: bool,
    /// The window has reached a limit of its options.
    is_full: bool,
    /// A write failed, and may have left a part of its bytes in the file.
    is_torn: bool,
}

#[derive(Debug)]
enum Output {
    File(Box<TraceWriter<OwnFile>>),
    /// A file that was not created yet.
    Planned(PlannedOutput),
    Memory,
    /// The window is closed: only its live blocks are followed.
    Nothing,
}

impl Sink {
    /// Starts a window with the live blocks. The window that owns the journal has all definitions, since what is
    /// salvaged may refer to them; another one those that it refers to.
    pub(crate) fn open(
        opening: Opening,
        is_owner: bool,
        known: &DefinitionTable,
        live: &[Record],
    ) -> Self {
        let Opening { state, destination, .. } = opening;
        let mut assembler = Assembler::beginning_at(state.window.start_nanos);
        let output = match destination {
            Destination::Memory => Output::Memory,
            Destination::File(file) => Output::File(file),
            Destination::Planned(planned) => Output::Planned(planned),
        };
        let referred = (!is_owner).then(WrittenDefinitions::default);
        let sources = (state.options.source && state.window.stacks).then(TouchedSources::default);
        assembler.set_nameless(known.nameless().clone());
        for record in live {
            assembler.push(record, &[]);
        }
        let selection = Selection::new(state.window);
        Self {
            state,
            selection,
            assembler,
            output,
            additions: Additions { referred, sources, ..Additions::default() },
            records: 0,
            events: 0,
            has_failed: false,
            is_full: false,
            is_torn: false,
        }
    }

    /// Tracks live blocks, and stores nothing else.
    pub(crate) fn following(live: &LiveBlocks) -> Self {
        let (header, unused) = (Header::default(), PathBuf::new());
        let state = Arc::new(WindowState::new(live.window, false, None, header, unused));
        let opening = Opening { state, destination: Destination::Memory, replaces_kept: false };
        let mut sink = Self::open(opening, false, &DefinitionTable::default(), &live.records);
        sink.output = Output::Nothing;
        sink
    }

    /// The live blocks, as records of a new recorder.
    pub(crate) fn live(&self) -> LiveBlocks {
        let window = Window { start_nanos: 0, ..self.state.window };
        let records = self.assembler.initial_records(0, |device| window.wants(device));
        LiveBlocks { window: Window { stacks: false, ops: false, ..window }, records }
    }

    /// Adds a record that belongs to the window. Returns the number of rows that wait for a flush.
    #[inline]
    pub(crate) fn push(&mut self, record: &Record, payload: &[u8]) -> usize {
        let is_left_for_later =
            self.additions.referred.is_some() && EventKind::from_number(record.kind).is_none();
        if is_left_for_later {
            self.assembler.note_label(record, payload);
        } else if let Some(record) = self.selection.select(record) {
            self.assembler.push(&record, payload);
            self.records += 1;
            if record.kind == EventKind::Oom as u8 {
                self.additions.gpu_samples.want(Wanted::Now);
            }
        }
        if self.has_stopped() {
            // Live blocks are still tracked: the next window may start with them.
            self.drop_rows();
            return 0;
        }
        self.assembler.pending_rows()
    }

    /// Whether the window takes no more events.
    fn has_stopped(&self) -> bool {
        self.has_failed || self.is_full
    }

    /// Records were damaged in the journal.
    pub(crate) fn note_lost(&mut self, records: u64) {
        self.assembler.note_lost(records);
    }

    /// Publishes steps and peaks to the program; drops the rows that nothing keeps.
    pub(crate) fn publish_progress(&mut self) {
        let ended_steps = self.assembler.take_ended_steps();
        if !ended_steps.is_empty() {
            self.additions.gpu_samples.want(Wanted::Soon);
        }
        self.state.ended_steps.add(&ended_steps);
        self.additions.gpu_samples.note_peaks(self.assembler.peaks());
        if matches!(self.output, Output::Nothing) {
            self.drop_rows();
        } else {
            self.state.peaks.set(self.assembler.peaks());
        }
    }

    /// How soon the window wants a sample of the GPUs.
    pub(crate) fn wanted_sample(&self) -> Wanted {
        if self.has_stopped() { Wanted::Nothing } else { self.additions.gpu_samples.wanted }
    }

    /// What the window wants is under way.
    pub(crate) fn note_requested_sample(&mut self) {
        self.additions.gpu_samples.wanted = Wanted::Nothing;
    }

    /// Its GPUs, once CUDA is ready.
    pub(crate) fn gpus(&self) -> Gpus {
        let header = self.state.header.lock();
        let gpu = |info: &DeviceInfo| {
            let device = info.device.parse().ok().filter(|&device| self.state.window.wants(device));
            device.filter(|_| !info.uuid.is_empty()).map(|device| (device, info.uuid.clone()))
        };
        header.0.devices.iter().filter_map(gpu).collect()
    }

    /// Adds a sample of a GPU, if it belongs to the window.
    pub(crate) fn add_sample(&mut self, recording: &Recording, sample: &Sample) {
        if !self.has_stopped() {
            self.additions.gpu_samples.add(&recording.journal, &self.state, sample);
        }
    }

    /// Whether its events go to a file.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self.output, Output::File(_) | Output::Planned(_))
    }

    fn drop_rows(&mut self) {
        if self.assembler.pending_rows() >= MOST_UNUSED_ROWS {
            self.drop_all_rows();
        }
    }

    fn drop_all_rows(&mut self) {
        let batch = self.assembler.take_batch();
        self.assembler.reuse(batch);
    }

    /// Memory of the table of live blocks.
    pub(crate) fn live_bytes(&self) -> usize {
        self.assembler.live_bytes()
    }

    /// The live blocks of a device, for a window that starts at `time_nanos`; `None` where this sink does not track them.
    pub(crate) fn initial_records(&self, device: Device, time_nanos: u64) -> Option<Vec<Record>> {
        let is_followed = self.state.window.wants(device) && self.assembler.has_seen(device);
        is_followed.then(|| self.assembler.initial_records(time_nanos, |found| found == device))
    }

    /// The devices on which something happened.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Device> {
        self.assembler.peaks().map(|(device, _)| device)
    }

    /// Writes the waiting rows. An error ends this window, and is stored in it.
    pub(crate) fn flush(
        &mut self,
        recording: &Recording,
        known: &DefinitionTable,
    ) -> io::Result<()> {
        if self.has_stopped() {
            return Ok(());
        }
        let flushed = self.write_waiting(known, recording.budget.window_bytes());
        self.note_full(recording);
        if let Err(error) = &flushed {
            self.has_failed = true;
            let reason = format!("the trace could not be written: {error}");
            self.state.fail(&reason, recording.nanos());
        }
        flushed
    }

    /// Stops the window at one of its limits.
    fn note_full(&mut self, recording: &Recording) {
        let limit = self.limit_of_events(recording).or_else(|| self.limit_of_time(recording));
        if let Some(reason) = limit {
            self.is_full = true;
            self.state.fail(&reason, recording.nanos());
        }
    }

    /// Why the window takes no more events, if it has as many as it may have. Those that fit in memory never exceed it.
    fn limit_of_events(&self, recording: &Recording) -> Option<String> {
        let most = self.state.options.max_events.filter(|most| self.events >= *most)?;
        let is_on_disk = matches!(self.output, Output::File(_));
        (is_on_disk || self.state.memory.lock().is_full(recording.budget.window_bytes())).then(
            || format!("the window has {} events, and may have {most} (`max_events`)", self.events),
        )
    }

    /// Why the window takes no more events, if it was open for as long as it may be.
    fn limit_of_time(&self, recording: &Recording) -> Option<String> {
        let most = self.state.options.max_seconds?;
        let seconds =
            recording.nanos().saturating_sub(self.state.window.start_nanos) / 1_000_000_000;
        (seconds >= most).then(|| {
            format!("the window was open for {seconds} s, and may be for {most} s (`max_seconds`)")
        })
    }

    /// Creates the file of a window that is still open.
    pub(crate) fn create_file(&mut self, recording: &Recording) {
        let is_open = self.state.end_nanos.load(Ordering::Acquire) == u64::MAX;
        if is_open && let Err(error) = self.create_planned() {
            self.has_failed = true;
            self.state.fail(&error.to_string(), recording.nanos());
        }
    }

    fn create_planned(&mut self) -> io::Result<()> {
        if let Output::Planned(planned) = &self.output {
            let header = self.state.header.lock().0.clone();
            let created = planned.create(&header);
            let output = created.map_err(|error| io::Error::other(error.with_cause()))?;
            self.output = Output::File(self.state.take_files(output));
        }
        Ok(())
    }

    fn write_waiting(&mut self, known: &DefinitionTable, most_memory: usize) -> io::Result<()> {
        self.create_planned()?;
        match &mut self.output {
            Output::Planned(_) => {}
            Output::File(file) => {
                // Fails before any row is taken: unwritten rows stay in place.
                file.get_ref().names()?;
                self.is_torn = true;
                let header = {
                    let mut header = self.state.header.lock();
                    std::mem::take(&mut header.1).then(|| header.0.clone())
                };
                if let Some(header) = header {
                    file.write_header(&header)?;
                }
                let batch = self.additions.complete(known, self.assembler.take_batch());
                self.events += batch.rows.len() as u64;
                if !batch.is_empty() {
                    file.write_batch(&batch)?;
                }
                self.is_torn = false;
                self.assembler.reuse(batch);
            }
            Output::Memory => {
                let batch = self.additions.complete(known, self.assembler.take_batch());
                if batch.is_empty() {
                    return Ok(());
                }
                self.events += batch.rows.len() as u64;
                let may_spill = self.state.options.max_events.is_none_or(|most| self.events < most);
                let mut memory = self.state.memory.lock();
                memory.push(batch);
                if memory.is_full(most_memory) && may_spill {
                    let header = self.state.header.lock().0.clone();
                    let file = memory.spill(&header)?;
                    drop(memory);
                    self.output = Output::File(Box::new(file));
                }
            }
            Output::Nothing => self.drop_rows(),
        }
        Ok(())
    }

    /// Writes the end of a closed window. Returns the sink that keeps tracking its live blocks, on request.
    pub(crate) fn finish(
        mut self,
        recording: &Recording,
        known: &DefinitionTable,
        is_owner: bool,
    ) -> Option<Self> {
        // Also where the recorder stopped after the window was closed: its last events may be lost.
        if let Some((reason, at_nanos)) = recording.failure() {
            let end_nanos = self.state.end_nanos.load(Ordering::Acquire);
            self.state.fail(&reason, at_nanos.min(end_nanos));
        }
        if self.has_stopped() {
            self.drop_all_rows();
        }
        self.has_failed = self.has_failed && (self.is_torn || !self.find_file());
        self.is_full = false;
        let mut written = Written { records: self.records, ..Written::default() };
        match self.write_whole_trace(known) {
            Ok(bytes) => written.bytes = bytes,
            Err(error) => {
                self.has_failed = true;
                self.state.fail(&error.to_string(), recording.nanos());
            }
        }
        let is_written = !self.has_failed && self.flush(recording, known).is_ok();
        let mut is_removed = false;
        if let Output::File(file) = std::mem::replace(&mut self.output, Output::Nothing) {
            written.bytes = file.bytes_written();
            is_removed = file.get_ref().names().is_ok_and(|names| names == 0);
            if is_written {
                self.end_file(*file, recording, is_owner);
            }
        }
        written.failure = if is_removed {
            "the trace file was removed while it was being written".to_owned()
        } else {
            self.state.ending(u64::MAX).reason
        };
        let is_kept = self.state.is_kept.load(Ordering::Acquire);
        self.state.set_written(written);
        self.has_failed = false;
        is_kept.then_some(self)
    }

    /// Writes all of a window that was closed before its file was created. Returns how many bytes there are.
    fn write_whole_trace(&mut self, known: &DefinitionTable) -> io::Result<u64> {
        let Output::Planned(planned) = &self.output else { return Ok(0) };
        if self.has_failed {
            return Ok(0);
        }
        let header = self.state.header.lock().0.clone();
        let mut trace = TraceWriter::new(Vec::new(), &header)?;
        let batch = self.additions.complete(known, self.assembler.take_batch());
        if !batch.is_empty() {
            trace.write_batch(&batch)?;
        }
        let trace = trace.finish(&self.state.ending(u64::MAX))?;
        let with_cause = |error: StartError| io::Error::other(error.with_cause());
        if let WholeTrace::Written { replaced } = planned.write(&trace).map_err(with_cause)? {
            *self.state.replaced.lock() = replaced;
            self.output = Output::Nothing;
            return Ok(trace.len() as u64);
        }
        // The journal of a live recording is an error, another one may be replaced.
        let output = planned.create(&header).map_err(with_cause)?;
        let mut file = self.state.take_files(output);
        if !batch.is_empty() {
            file.write_batch(&batch)?;
        }
        self.output = Output::File(file);
        Ok(0)
    }

    fn end_file(&self, file: TraceWriter<OwnFile>, recording: &Recording, is_owner: bool) {
        match file.finish(&self.state.ending(recording.nanos())) {
            Ok(_) => {
                if is_owner {
                    recording.journal.chunks.remove();
                }
                if let Some((folder, state)) = self.state.journal.get() {
                    remove_journal(folder, state);
                }
            }
            Err(error) => {
                let reason = format!("the trace could not be finished: {error}");
                self.state.fail(&reason, recording.nanos());
            }
        }
    }

    /// Opens the trace again when the program has closed its descriptor. Nothing was written since, so the
    /// trace ends with the events before, and with the reason.
    fn find_file(&mut self) -> bool {
        let memory = self.state.memory.lock();
        let path = self.state.path.as_deref().unwrap_or(memory.spill_path());
        match &mut self.output {
            Output::File(file) => file.get_mut().reopen(path).is_ok(),
            Output::Planned(_) | Output::Memory | Output::Nothing => false,
        }
    }
}
