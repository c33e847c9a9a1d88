//! Runs estimates in processes: the first as a new one, the others as forks of a process that has imported the same.
//!
//! The first run writes down what it imports. A [`WarmProcess`] then imports it once. It proves itself before any of its
//! answers counts: it repeats the first run, and the answer must be the same to the byte. Where forking is not safe, or the
//! answer differs, every run is a new process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use crate::commands::estimate;
use crate::commands::tries::warm_process::WarmProcess;
use crate::commands::tries::{Question, TryAnswer};

/// Where an estimate writes down what it imports.
const IMPORTS_VARIABLE: &str = "FLOODMARK_IMPORTS_TO";

/// Set to `0`, every run is a new process.
const WARM_VARIABLE: &str = "FLOODMARK_WARM_PROCESS";

/// What a process wrote.
pub(super) struct Output {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs the tries of one program.
pub(super) struct Runner<'a> {
    python: &'a OsStr,
    folder: tempfile::TempDir,
    number: AtomicUsize,
    shared: Arc<Shared>,
    warming: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Clone)]
enum State {
    /// Nothing ran yet.
    #[default]
    First,
    /// The first run is under way.
    Running,
    /// It is over, and wrote down its imports: what was run, and what it answered.
    Logged(Arc<Logged>),
    /// The warm process imports.
    Warming(Arc<WarmProcess>),
    /// The warm process repeats the first run.
    Checking(Arc<WarmProcess>),
    /// It can be relied on.
    Warm(Arc<WarmProcess>),
    /// Every run is a new process.
    Fresh,
}

struct Logged {
    imports: PathBuf,
    command: Command,
    stdout: Vec<u8>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> State {
        let guard = self.lock();
        let guard = self.changed.wait_while(guard, |state| condition(state));
        guard.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<'a> Runner<'a> {
    pub(super) fn new(python: &'a OsStr) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("floodmark-")
            .tempdir()
            .context("Failed to create a temporary folder")?;
        let shared = Arc::new(Shared::default());
        if std::env::var_os(WARM_VARIABLE).is_some_and(|value| value == "0") {
            shared.set(State::Fresh);
        }
        Ok(Self { python, folder, number: AtomicUsize::new(0), shared, warming: Mutex::new(None) })
    }

    /// Runs an estimate; what it wrote.
    pub(super) fn run(&self, question: &Question) -> Result<Output> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let trace = self.folder.path().join(format!("try-{number}.flood"));
        let output = self.run_into(question, &trace);
        // A trace may be large, and what is needed of it was said.
        let _ = std::fs::remove_file(&trace);
        output
    }

    /// Runs an estimate and keeps its trace, at [`Self::kept_trace`], as long as the runner is there.
    pub(super) fn run_and_keep(&self, question: &Question) -> Result<Output> {
        self.run_into(question, &self.kept_trace())
    }

    /// Where the trace lies that is kept.
    pub(super) fn kept_trace(&self) -> PathBuf {
        self.folder.path().join("kept.flood")
    }

    fn run_into(&self, question: &Question, trace: &Path) -> Result<Output> {
        if self.begins_first() {
            return self.run_first(question, trace);
        }
        let is_soon = |state: &State| matches!(state, State::Running | State::Warming(_));
        let output = match self.shared.wait_while(is_soon) {
            State::Checking(warm) | State::Warm(warm) => warm.run(&self.command(question, trace)),
            State::First | State::Running | State::Logged(_) | State::Warming(_) | State::Fresh => {
                None
            }
        };
        let state = self.shared.wait_while(|state| matches!(state, State::Checking(_)));
        match (output, state) {
            (Some(output), State::Warm(_)) => Ok(output),
            _ => self.run_fresh(self.command(question, trace)),
        }
    }

    fn begins_first(&self) -> bool {
        let mut state = self.shared.lock();
        let is_first = matches!(*state, State::First);
        if is_first {
            *state = State::Running;
        }
        is_first
    }

    /// The first run is a new process, which writes down what it imports.
    fn run_first(&self, question: &Question, trace: &Path) -> Result<Output> {
        let imports = self.folder.path().join("imports.json");
        let mut command = self.command(question, trace);
        command.env(IMPORTS_VARIABLE, &imports);
        let output = self.run_fresh(command);
        let state = match &output {
            Ok(done) if imports.exists() => {
                // The warm process repeats the run into a trace of its own: the first one may be kept.
                let command = self.command(question, &self.folder.path().join("repeated.flood"));
                State::Logged(Arc::new(Logged { imports, command, stdout: done.stdout.clone() }))
            }
            Ok(_) | Err(_) => State::Fresh,
        };
        self.shared.set(state);
        output
    }

    /// Many runs follow: starts the warm process, if the first run is over.
    pub(super) fn warm_up(&self) {
        let mut state = self.shared.lock();
        let State::Logged(logged) = &*state else { return };
        let logged = Arc::clone(logged);
        let Some(warm) = WarmProcess::spawn(self.python, &logged.imports, self.folder.path())
        else {
            *state = State::Fresh;
            return;
        };
        let warm = Arc::new(warm);
        *state = State::Warming(Arc::clone(&warm));
        drop(state);
        let shared = Arc::clone(&self.shared);
        let warming = std::thread::spawn(move || {
            if !warm.wait_until_ready() {
                shared.set(State::Fresh);
                return;
            }
            shared.set(State::Checking(Arc::clone(&warm)));
            let again = warm.run(&logged.command);
            let is_same =
                again.is_some_and(|output| is_same_answer(&output.stdout, &logged.stdout));
            shared.set(if is_same { State::Warm(warm) } else { State::Fresh });
        });
        *self.warming.lock().unwrap_or_else(PoisonError::into_inner) = Some(warming);
    }

    fn run_fresh(&self, mut command: Command) -> Result<Output> {
        let output = command
            .output()
            .with_context(|| format!("Failed to start `{} -m floodmark`", self.python.display()))?;
        Ok(Output { stdout: output.stdout, stderr: output.stderr })
    }

    fn command(&self, question: &Question, trace: &Path) -> Command {
        let mut command =
            estimate::process(self.python, &question.phantom, trace, &question.program);
        for setting in &question.environment {
            command.env(&setting.key, &setting.value);
        }
        command
    }
}

/// Whether all that is read of two answers is the same, to the byte. When things happened is not.
fn is_same_answer(one: &[u8], other: &[u8]) -> bool {
    let read = |text| serde_json::from_slice::<TryAnswer>(text).ok();
    let written = |text| read(text).and_then(|answer| serde_json::to_vec(&answer).ok());
    written(one).is_some_and(|one| Some(one) == written(other))
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        // The warm process ends before the folder is removed.
        let state = self.shared.lock().clone();
        if let State::Warming(warm) | State::Checking(warm) | State::Warm(warm) = &state {
            warm.end();
        }
        let warming = self.warming.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(warming) = warming {
            let _ = warming.join();
        }
    }
}
