//! Opening, reading and closing windows on the recorder's events.
//!
//! The first window with a file owns the journal, so it survives a crash. Where
//! windows without a file open and close, the recorder stays: hooks then only keep track of live blocks, so that the
//! next window opens at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use floodmark_trace::journal::Record;
use floodmark_trace::{
    Batch, Bytes, Device, Ending, EventKind, Header, StepTotals, TextKind, Window,
};

use crate::annotations::{name_number, write_in_window};
use crate::budget::LEAST_MEMORY_BYTES;
use crate::files::output::{Output, PlannedOutput};
use crate::files::start_error::StartError;
use crate::hooks::operators;
use crate::journal::chunks::Chunks;
use crate::recorder::recording::unix_micros;
use crate::recorder::thread::limit_states;
use crate::recorder::{BlockSource, WindowOptions};
use crate::switches::IS_WATCHED;
use crate::window_state::Written;
use crate::window_state::{Destination, Opening, WindowState};
use crate::windows::running_recorder::{
    Begun, RunningRecorder, begin, enable, end_recorder, is_disabled, lock_running, new_session_id,
    release_codes, replace, wake_writer,
};

/// How long the writer may take to finish a window.
const LONGEST_FINISH: Duration = Duration::from_secs(60);
/// How long opening a window waits for what is live to be in its file. On a busy machine the writer, which has a low
/// priority, needs more than a moment.
const LONGEST_SETTLE: Duration = Duration::from_secs(5);

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A window that was opened.
#[derive(Debug)]
pub struct OpenWindow {
    state: Arc<WindowState>,
    pid: u32,
}

/// The events of a window that were not read yet.
#[derive(Debug)]
pub struct WindowNews {
    /// Its events since then.
    pub batches: Vec<Batch>,
    /// Its header, as it is now.
    pub header: Header,
    /// How it ended; `None` while it is open.
    pub ending: Option<Ending>,
}

impl WindowNews {
    /// Its events, header and ending.
    pub fn into_parts(self) -> (Vec<Batch>, Header, Option<Ending>) {
        (self.batches, self.header, self.ending)
    }
}

/// What the running recorder already provides for a new window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct RecorderStatus {
    /// The recorder runs already: torch is attached, or will be.
    pub is_attached: bool,
    /// Live blocks of the host are known.
    pub has_cpu: bool,
    /// Live blocks of all its CUDA devices are known.
    pub has_cuda: bool,
    /// The recorder replaces an idle one: nothing has a name yet.
    pub is_renewed: bool,
}

/// Opens a window; starts the recorder where none runs. The GIL must be held.
pub fn open(options: WindowOptions) -> Result<(OpenWindow, RecorderStatus), StartError> {
    if options.recording.max_memory < LEAST_MEMORY_BYTES {
        return Err(StartError::LimitTooSmall { bytes: options.recording.max_memory });
    }
    let mut entry = lock_running()?;
    let pid = std::process::id();
    // A trace survives a crash only with a journal that starts with it.
    let is_stale = |running: &mut RunningRecorder| {
        let windows = running.recording().windows.lock();
        let is_useless =
            options.path.is_some() || running.recording().failure().is_some() || is_disabled();
        windows.open.is_empty() && is_useless
    };
    if let Some(stale) = entry.take_if(is_stale) {
        let has_live_blocks = stale.recording().windows.lock().kept.is_some()
            && stale.recording().failure().is_none()
            && !is_disabled();
        if has_live_blocks && options.source == BlockSource::Torch {
            let (state, found) = renew(&mut entry, stale, options)?;
            return Ok((OpenWindow { state, pid }, found));
        }
        end_recorder(stale);
    }
    if let Some(running) = &*entry {
        if let Some((reason, _)) = running.recording().failure() {
            return Err(StartError::Stopped { reason });
        }
        let (state, found) = join(running, options)?;
        return Ok((OpenWindow { state, pid }, found));
    }
    // Live blocks are unknown: its writer starts at once.
    let ((begun, _), state) = begin_with(options, None)?;
    enable(&begun);
    *entry = Some(begun);
    let found =
        RecorderStatus { is_attached: false, has_cpu: false, has_cuda: false, is_renewed: false };
    Ok((OpenWindow { state, pid }, found))
}

/// Starts a recorder in the place of an idle one.
fn renew(
    entry: &mut Option<RunningRecorder>,
    old: RunningRecorder,
    options: WindowOptions,
) -> Result<(Arc<WindowState>, RecorderStatus), StartError> {
    let kept = old.recording().windows.lock().kept;
    let ((new, tell), state) = match begin_with(options, Some(&old)) {
        Ok(begun) => begun,
        Err(error) => {
            *entry = Some(old);
            return Err(error);
        }
    };
    let left = replace(old, &new);
    let live = left.and_then(|(kept, known)| Some(kept?.live().with_new_labels(&known)));
    let has_live_blocks = live.is_some();
    if !has_live_blocks {
        new.recording().windows.lock().kept = None;
    }
    let _ = tell.send(live);
    *entry = Some(new);
    let followed = kept.filter(|_| has_live_blocks).unwrap_or_default();
    let found = RecorderStatus {
        is_attached: true,
        has_cpu: followed.cpu,
        has_cuda: state.window.cuda & !followed.cuda == 0,
        is_renewed: true,
    };
    Ok((state, found))
}

/// A window before it has a start, and its files.
struct Prepared {
    window: Window,
    files: Files,
    header: Header,
    options: WindowOptions,
}

enum Files {
    None,
    Created(Box<Output>),
    Planned(PlannedOutput),
}

impl Files {
    /// The files of the first window are created at once, those of one that joins by the writer.
    fn prepare(
        options: &WindowOptions,
        session: u64,
        header: &Header,
        is_first: bool,
    ) -> Result<Self, StartError> {
        let Some(path) = &options.path else { return Ok(Self::None) };
        if !is_first && let Some(planned) = PlannedOutput::check(path, session, options.replace)? {
            return Ok(Self::Planned(planned));
        }
        Output::create(path, session, header, options.replace)
            .map(|output| Self::Created(Box::new(output)))
    }
}

fn prepare(
    mut options: WindowOptions,
    session: u64,
    is_first: bool,
) -> Result<Prepared, StartError> {
    options.header.session = format!("{session:016x}");
    let window = Window {
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        start_nanos: 0,
        cpu: options.cpu,
        cuda: options.cuda,
        stacks: options.recording.stacks,
        ops: options.recording.ops || options.source != BlockSource::Torch,
        fake_tensors: options.source != BlockSource::Torch,
    };
    let mut header = options.header.clone();
    header.window = Some(window);
    header.started_unix_micros = unix_micros();
    let files = Files::prepare(&options, session, &header, is_first)?;
    Ok(Prepared { window, files, header, options })
}

impl Prepared {
    /// The window as it begins now.
    fn opening(self, start_nanos: u64, replaces_kept: bool) -> Opening {
        let Self { mut window, files, mut header, options } = self;
        window.start_nanos = start_nanos;
        header.window = Some(window);
        header.started_unix_micros = unix_micros();
        let is_without_device = options.source == BlockSource::FakeWithoutDevice;
        let mut state =
            WindowState::new(window, is_without_device, options.path, header, options.spill);
        state.options = options.recording;
        let destination = match files {
            Files::None => Destination::Memory,
            Files::Planned(planned) => Destination::Planned(planned),
            Files::Created(output) => {
                // The file has the header from before the start.
                state.header.lock().1 = true;
                Destination::File(state.take_files(*output))
            }
        };
        Opening { state: Arc::new(state), destination, replaces_kept }
    }
}

/// Starts a recorder with its first window. It keeps track of the live blocks of `old`.
fn begin_with(
    options: WindowOptions,
    old: Option<&RunningRecorder>,
) -> Result<(Begun, Arc<WindowState>), StartError> {
    let id = new_session_id();
    let prepared = prepare(options, id, true)?;
    let folder = match &prepared.files {
        Files::Created(output) => Some(output.folder.clone()),
        Files::None | Files::Planned(_) => None,
    };
    let max_memory = prepared.options.recording.max_memory;
    let chunks = match Chunks::create(folder.clone(), id, max_memory) {
        Ok(chunks) => chunks,
        Err(source) => {
            let opening = prepared.opening(0, false);
            opening.state.remove_files();
            return Err(match folder {
                Some(path) => StartError::Journal { path, source },
                None => StartError::Recorder(source),
            });
        }
    };
    let old = old.map(RunningRecorder::recording);
    let freed = old.map(|old| Arc::clone(&old.freed_blocks)).unwrap_or_default();
    let begun = match begin(id, &prepared.options, chunks, freed) {
        Ok(begun) => begun,
        Err(source) => {
            prepared.opening(0, false).state.remove_files();
            return Err(StartError::Recorder(source));
        }
    };
    begun.0.recording().windows.lock().kept = old.and_then(|old| old.windows.lock().kept);
    let state = add(&begun.0, prepared);
    Ok((begun, state))
}

/// Adds a window to a recorder that runs.
fn join(
    running: &RunningRecorder,
    options: WindowOptions,
) -> Result<(Arc<WindowState>, RecorderStatus), StartError> {
    let recording = running.recording();
    recording.budget.raise_limit(options.recording.max_memory);
    limit_states(recording.budget.most_threads());
    if let Some(path) = &options.path
        && recording.windows.lock().open.iter().any(|open| open.path.as_ref() == Some(path))
    {
        // Its files may not be there yet.
        return Err(StartError::InUse { path: path.clone(), pid: std::process::id() });
    }
    let prepared = prepare(options, new_session_id(), false)?;
    let window = prepared.window;
    let before = recording.windows.lock().wanted();
    let sources = before.iter().filter(|other| other.fake_tensors == window.fake_tensors);
    let cuda = sources.clone().fold(0, |all, other| all | other.cuda);
    let has_cpu = sources.clone().any(|other| other.cpu);
    let has_cuda = window.cuda & !cuda == 0;
    let found = RecorderStatus { is_attached: true, has_cpu, has_cuda, is_renewed: false };
    Ok((add(running, prepared), found))
}

fn add(running: &RunningRecorder, prepared: Prepared) -> Arc<WindowState> {
    let recording = running.recording();
    let window = prepared.window;
    let mut windows = recording.windows.lock();
    let replaces_kept = windows.kept.is_some_and(|kept| {
        kept.fake_tensors == window.fake_tensors
            && window.cpu >= kept.cpu
            && kept.cuda & !window.cuda == 0
    });
    if replaces_kept {
        windows.kept = None;
    }
    let wanted: Vec<Window> = windows.wanted().into_iter().chain([window]).collect();
    recording.wanted.set(&wanted);
    // Under the lock, so that the writer sees every window that begins before its frontier.
    let opening = prepared.opening(recording.nanos(), replaces_kept);
    let state = Arc::clone(&opening.state);
    windows.open.push(Arc::clone(&state));
    windows.opening.push(opening);
    IS_WATCHED.store(true, Ordering::SeqCst);
    state
}

impl OpenWindow {
    /// Closes the window. The recorder stays for the next one, as long as it can track live blocks. The GIL must be
    /// held.
    pub fn close(&self) {
        if self.pid != std::process::id() {
            return;
        }
        let Ok(mut entry) = lock_running() else { return };
        let Some(found) = &*entry else { return };
        let recording = found.recording();
        let mut windows = recording.windows.lock();
        let number = self.state.window.number;
        let Some(at) = windows.open.iter().position(|open| open.window.number == number) else {
            return;
        };
        windows.open.remove(at);
        let is_last = windows.open.is_empty();
        let has_live_blocks = recording.failure().is_none() && !self.state.window.fake_tensors;
        let is_kept = is_last && has_live_blocks;
        if is_kept && windows.kept.is_none() {
            let window = Window { stacks: false, ops: false, ..self.state.window };
            windows.kept = Some(window);
            self.state.is_kept.store(true, Ordering::Release);
        }
        self.state.end_nanos.store(recording.nanos(), Ordering::Release);
        recording.wanted.set(&windows.wanted());
        let has_ops = windows.open.iter().any(|open| open.window.ops && !open.window.fake_tensors);
        drop(windows);
        if is_last {
            IS_WATCHED.store(false, Ordering::SeqCst);
        }
        if !has_ops {
            operators::detach();
        }
        // The next window with a file begins with a call tree of its own.
        if is_kept && self.state.path.is_some() {
            release_codes(recording);
        }
        if !is_last || is_kept {
            // A request for events that stay in memory wakes the writer.
            if self.state.path.is_some() {
                found.wake_writer();
            }
        } else if let Some(last) = entry.take()
            && !end_recorder(last)
        {
            let failure = "the recorder's writer failed: a bug in floodmark".to_owned();
            self.state.set_written(Written { failure, ..Written::default() });
        }
    }

    /// The result, once the writer has finished the window.
    pub fn written(&self) -> Written {
        if !self.state.is_written() {
            wake_writer();
        }
        let late = || Written {
            failure: "the recorder's writer did not finish the window in time".to_owned(),
            ..Written::default()
        };
        self.state.wait_until_written(LONGEST_FINISH).unwrap_or_else(late)
    }

    /// Replaces the facts about the program and the machine.
    pub fn update_header(&self, new: Header) {
        let mut header = self.state.header.lock();
        let session = std::mem::take(&mut header.0.session);
        let (started_unix_micros, window) = (header.0.started_unix_micros, header.0.window);
        header.0 = Header { session, started_unix_micros, window, ..new };
        header.1 = true;
    }

    /// A step ended in this window alone. Returns its number.
    pub fn step(&self) -> u32 {
        let number = self.state.steps.fetch_add(1, Ordering::Relaxed);
        write_in_window(Record::step(number), self.state.window.number);
        number
    }

    /// A phase begins on this thread in this window alone.
    pub fn begin_phase(&self, name: &str) {
        let number = name_number(TextKind::Phase, name);
        write_in_window(Record::named(EventKind::PhaseBegin, number), self.state.window.number);
    }

    /// The innermost phase of this window on this thread ends.
    pub fn end_phase(&self) {
        write_in_window(Record::named(EventKind::PhaseEnd, 0), self.state.window.number);
    }

    /// The totals of ended steps from `first` on, as far as the writer has them: it is one round behind. With
    /// a wait, the writer is woken and gets that time to catch up.
    pub fn ended_steps(&self, first: u32, wait_millis: u64) -> Vec<StepTotals> {
        let ended = self.state.steps.load(Ordering::Relaxed);
        if wait_millis > 0 && ended > first && self.state.failure().is_none() {
            wake_writer();
            self.state.ended_steps.wait_for(ended - 1, Duration::from_millis(wait_millis));
        }
        self.state.ended_steps.from(first)
    }

    /// The peak of allocated bytes on each device, up to where the writer gets within
    /// `wait_millis`.
    pub fn peaks(&self, wait_millis: u64) -> Vec<(Device, Bytes)> {
        // Once nothing is recorded any more, there is nothing to wait for.
        let has_ended = self.state.failure().is_some() || self.state.is_written();
        wake_writer();
        let wait_millis = if has_ended { 0 } else { wait_millis };
        self.state.peaks.after_next_round(Duration::from_millis(wait_millis))
    }

    /// Waits until all events before this call can be read.
    pub fn catch_up(&self) {
        self.catch_up_within(LONGEST_FINISH);
    }

    /// Waits until the live blocks from before the window are in its file, so that they survive a crash.
    /// Does not wait for a thread that stays inside a hook.
    pub fn settle(&self) {
        self.catch_up_within(LONGEST_SETTLE);
    }

    fn catch_up_within(&self, patience: Duration) {
        if self.state.is_written() || self.state.failure().is_some() {
            return;
        }
        let end = self.state.end_nanos.load(Ordering::Acquire);
        if end != u64::MAX {
            self.written();
            return;
        }
        let Ok(entry) = lock_running() else { return };
        let Some(found) = &*entry else { return };
        let now = found.recording().nanos();
        self.state.requested_nanos.store(now, Ordering::Release);
        found.wake_writer();
        drop(entry);
        self.state.wait_until_readable(now, patience);
    }

    /// The file that has the events: the requested one, or the one that holds what did not fit in memory.
    pub fn file(&self) -> Option<PathBuf> {
        let memory = self.state.memory.lock();
        let spilled = || memory.is_spilled.then(|| memory.spill_path().to_owned());
        self.state.path.clone().or_else(spilled)
    }

    /// The batches after the first `read` of a window in memory; `None` when a file has the events.
    pub fn news(&self, read: usize) -> Option<WindowNews> {
        if self.state.path.is_some() {
            return None;
        }
        let has_ended = self.state.is_written() || self.state.failure().is_some();
        let ending = has_ended.then(|| self.ending());
        let header = self.state.header.lock().0.clone();
        let batches = self.state.memory.lock().batches_from(read)?;
        Some(WindowNews { batches, header, ending })
    }

    /// Writes a window that is closed, and whose events are in memory, to a file.
    pub fn write_to(&self, path: &std::path::Path) -> std::io::Result<()> {
        let header = self.state.header.lock().0.clone();
        let out = std::io::BufWriter::new(std::fs::File::create(path)?);
        let memory = self.state.memory.lock();
        let file = memory.write(out, &header)?;
        file.finish(&self.ending())?;
        Ok(())
    }

    fn ending(&self) -> Ending {
        self.state.ending(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
