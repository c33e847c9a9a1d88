//! Opening, reading and closing windows on the recorder's events.
//!
//! A window with a file is safe against a crash as today's recording is: the first one owns the journal. Where
//! windows without a file come and go, the recorder stays: hooks then only follow which blocks are live, so that the
//! next window opens at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use floodmark_trace::{
    Batch, Bytes, Device, Ending, EventKind, Header, StepTotals, TextKind, Window,
};

use crate::budget::LEAST_MEMORY_BYTES;
use crate::handover::Live;
use crate::ops;
use crate::output::{Output, PlannedOutput};
use crate::recording::{IS_WATCHED, Options, Source, unix_micros};
use crate::segments::Segments;
use crate::session::{
    Begun, Running, begin, enable, is_asleep, name_number, note_in_window, release_codes, replace,
    running, session_id, take_off, wake_writer,
};
use crate::start_error::StartError;
use crate::thread::limit_states;
use crate::window_state::{Destination, Opening, WindowState};
use crate::writer::Written;

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

/// What a window has that was not read yet.
#[derive(Debug)]
pub struct WindowNews {
    /// Its events since then.
    pub batches: Vec<Batch>,
    /// Its header, as it is now.
    pub header: Header,
    /// How it ended; none while it is open.
    pub ending: Option<Ending>,
}

impl WindowNews {
    /// Its events, header and ending.
    pub fn into_parts(self) -> (Vec<Batch>, Header, Option<Ending>) {
        (self.batches, self.header, self.ending)
    }
}

/// What a new window found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Found {
    /// The recorder runs already: torch is attached, or will be.
    pub is_attached: bool,
    /// Live blocks of the host are known.
    pub has_cpu: bool,
    /// Live blocks of all its CUDA devices are known.
    pub has_cuda: bool,
    /// The recorder is a new one in the place of one that waited: nothing has a name yet.
    pub is_renewed: bool,
}

/// Opens a window; begins the recorder where none runs. The GIL must be held.
pub fn open(options: Options) -> Result<(OpenWindow, Found), StartError> {
    if options.max_memory < LEAST_MEMORY_BYTES {
        return Err(StartError::LimitTooSmall { bytes: options.max_memory });
    }
    let mut entry = running()?;
    let pid = std::process::id();
    // A file is safe against a crash only with a journal that begins with it.
    let is_stale = |running: &mut Running| {
        let windows = running.recording().windows.lock();
        let is_useless =
            options.path.is_some() || running.recording().failure().is_some() || is_asleep();
        windows.open.is_empty() && is_useless
    };
    if let Some(stale) = entry.take_if(is_stale) {
        let has_live_blocks = stale.recording().windows.lock().kept.is_some()
            && stale.recording().failure().is_none()
            && !is_asleep();
        if has_live_blocks && options.source == Source::Torch {
            let (state, found) = renew(&mut entry, stale, options)?;
            return Ok((OpenWindow { state, pid }, found));
        }
        take_off(stale);
    }
    if let Some(running) = &*entry {
        if let Some((reason, _)) = running.recording().failure() {
            return Err(StartError::Stopped { reason });
        }
        let (state, found) = join(running, options)?;
        return Ok((OpenWindow { state, pid }, found));
    }
    // What is live is not known: its writer begins at once.
    let ((begun, _), state) = begin_with(options, None)?;
    enable(&begun);
    *entry = Some(begun);
    let found = Found { is_attached: false, has_cpu: false, has_cuda: false, is_renewed: false };
    Ok((OpenWindow { state, pid }, found))
}

/// Begins a recorder in the place of one that waits for a window.
fn renew(
    entry: &mut Option<Running>,
    old: Running,
    options: Options,
) -> Result<(Arc<WindowState>, Found), StartError> {
    let kept = old.recording().windows.lock().kept;
    let ((new, tell), state) = match begin_with(options, Some(&old)) {
        Ok(begun) => begun,
        Err(error) => {
            *entry = Some(old);
            return Err(error);
        }
    };
    let left = replace(old, &new);
    let live = left.and_then(|(kept, known)| Some(Live::from_ended(&kept?, &known)));
    let has_live_blocks = live.is_some();
    if !has_live_blocks {
        new.recording().windows.lock().kept = None;
    }
    let _ = tell.send(live);
    *entry = Some(new);
    let followed = kept.filter(|_| has_live_blocks).unwrap_or_default();
    let found = Found {
        is_attached: true,
        has_cpu: followed.cpu,
        has_cuda: state.window.cuda & !followed.cuda == 0,
        is_renewed: true,
    };
    Ok((state, found))
}

/// The files of a window, and what it takes; its start is set when it is known.
struct Prepared {
    window: Window,
    files: Files,
    header: Header,
    options: Options,
}

enum Files {
    None,
    Created(Box<Output>),
    Planned(PlannedOutput),
}

impl Files {
    /// The files of the first window are created at once, those of one that joins by the writer.
    fn prepare(
        options: &Options,
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

fn prepare(mut options: Options, session: u64, is_first: bool) -> Result<Prepared, StartError> {
    options.header.session = format!("{session:016x}");
    let window = Window {
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        start_nanos: 0,
        cpu: options.cpu,
        cuda: options.cuda,
        stacks: options.stacks,
        ops: options.ops || options.source != Source::Torch,
        fake_tensors: options.source != Source::Torch,
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
        let is_without_device = options.source == Source::FakeWithoutDevice;
        let mut state =
            WindowState::new(window, is_without_device, options.path, header, options.spill);
        state.max_events = options.max_events;
        state.stores_source = options.stores_source;
        let destination = match files {
            Files::None => Destination::Memory,
            Files::Planned(planned) => Destination::Planned(planned),
            Files::Created(output) => {
                // The file has the header of before it began.
                state.header.lock().1 = true;
                Destination::File(state.take_files(*output))
            }
        };
        Opening { state: Arc::new(state), destination, replaces_kept }
    }
}

/// Begins a recorder, with its first window. It follows what `old` has followed until now.
fn begin_with(
    options: Options,
    old: Option<&Running>,
) -> Result<(Begun, Arc<WindowState>), StartError> {
    let id = session_id();
    let prepared = prepare(options, id, true)?;
    let folder = match &prepared.files {
        Files::Created(output) => Some(output.folder.clone()),
        Files::None | Files::Planned(_) => None,
    };
    let max_memory = prepared.options.max_memory;
    let segments = match Segments::create(folder.clone(), id, max_memory) {
        Ok(segments) => segments,
        Err(source) => {
            let opening = prepared.opening(0, false);
            opening.state.remove_files();
            return Err(match folder {
                Some(path) => StartError::Journal { path, source },
                None => StartError::Recorder(source),
            });
        }
    };
    let old = old.map(Running::recording);
    let freed = old.map(|old| Arc::clone(&old.freed_meanwhile)).unwrap_or_default();
    let begun = match begin(id, &prepared.options, segments, freed) {
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
fn join(running: &Running, options: Options) -> Result<(Arc<WindowState>, Found), StartError> {
    let recording = running.recording();
    recording.budget.raise_limit(options.max_memory);
    limit_states(recording.budget.most_threads());
    if let Some(path) = &options.path
        && recording.windows.lock().open.iter().any(|open| open.path.as_ref() == Some(path))
    {
        // Its files may not be there yet.
        return Err(StartError::InUse { path: path.clone(), pid: std::process::id() });
    }
    let prepared = prepare(options, session_id(), false)?;
    let window = prepared.window;
    let before = recording.windows.lock().wanted();
    let sources = before.iter().filter(|other| other.fake_tensors == window.fake_tensors);
    let cuda = sources.clone().fold(0, |all, other| all | other.cuda);
    let has_cpu = sources.clone().any(|other| other.cpu);
    let has_cuda = window.cuda & !cuda == 0;
    let found = Found { is_attached: true, has_cpu, has_cuda, is_renewed: false };
    Ok((add(running, prepared), found))
}

fn add(running: &Running, prepared: Prepared) -> Arc<WindowState> {
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
    /// Closes the window. The recorder stays for the next one, as long as it can follow what is live. The GIL must be
    /// held.
    pub fn close(&self) {
        if self.pid != std::process::id() {
            return;
        }
        let Ok(mut entry) = running() else { return };
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
            ops::detach();
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
            && !take_off(last)
        {
            let failure = "the recorder's writer failed: a bug in floodmark".to_owned();
            self.state.set_written(Written { failure, ..Written::default() });
        }
    }

    /// What was written, once the writer has finished the window.
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

    /// Something was learnt about the program or the machine.
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
        note_in_window(EventKind::Step, number, self.state.window.number);
        number
    }

    /// A phase begins on this thread in this window alone.
    pub fn begin_phase(&self, name: &str) {
        let number = name_number(TextKind::Phase, name);
        note_in_window(EventKind::PhaseBegin, number, self.state.window.number);
    }

    /// The innermost phase of this window on this thread ends.
    pub fn end_phase(&self) {
        note_in_window(EventKind::PhaseEnd, 0, self.state.window.number);
    }

    /// The totals of the steps that ended, from `first` on, as far as they are known: the writer is one lap
    /// behind. With a wait, it is woken, and has so long to catch up.
    pub fn ended_steps(&self, first: u32, wait_millis: u64) -> Vec<StepTotals> {
        let ended = self.state.steps.load(Ordering::Relaxed);
        if wait_millis > 0 && ended > first && self.state.failure().is_none() {
            wake_writer();
            self.state.ended_steps.wait_for(ended - 1, Duration::from_millis(wait_millis));
        }
        self.state.ended_steps.from(first)
    }

    /// The peak of allocated bytes on each device, as far as the writer gets within `wait_millis`.
    pub fn peaks(&self, wait_millis: u64) -> Vec<(Device, Bytes)> {
        // Once nothing is recorded any more, there is nothing to wait for.
        let has_ended = self.state.failure().is_some() || self.state.is_written();
        wake_writer();
        let wait_millis = if has_ended { 0 } else { wait_millis };
        self.state.peaks.after_next_lap(Duration::from_millis(wait_millis))
    }

    /// Waits until all that happened before this call can be read.
    pub fn catch_up(&self) {
        self.catch_up_within(LONGEST_FINISH);
    }

    /// Waits until what was live when the window began is in its file, so that it survives whatever ends the program.
    /// A thread that stays inside a hook holds the writer up; it is not waited for.
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
        let Ok(entry) = running() else { return };
        let Some(found) = &*entry else { return };
        let now = found.recording().nanos();
        self.state.asked_nanos.store(now, Ordering::Release);
        found.wake_writer();
        drop(entry);
        self.state.wait_until_readable(now, patience);
    }

    /// The file that has the events: the one that was asked for, or the one that memory went to.
    pub fn file(&self) -> Option<PathBuf> {
        let memory = self.state.memory.lock();
        let spilled = || memory.is_spilled.then(|| memory.spill_path().to_owned());
        self.state.path.clone().or_else(spilled)
    }

    /// What a window whose events are in memory has more than `read` batches; `None` where a file has the events.
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
