//! Runs estimates in processes: the first as a new one, the others as forks of a process that has imported the same.
//!
//! The first run writes down what it imports, and a [`WarmProcess`] imports it at the same time. It proves itself before
//! any of its answers counts: it repeats the first run, and the answer must be the same to the byte. Where forking is not
//! safe, or the answer differs, every run is a new process, and what differs is said. Where two new processes differ too,
//! the program itself does something else in each run, and forks are as good as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::in_parallel::processors;
use crate::requests::estimate::{EstimateRequest, process};
use crate::requests::run::RunRequest;
use crate::text::failure::{Context, Problem, Result};
use crate::text::output;
use crate::tries::comparison::{different_allocation, same_answer};
use crate::tries::warm_process::WarmProcess;
use crate::tries::{Question, TryAnswer};

/// Where an estimate writes down what it imports.
const IMPORTS_VARIABLE: &str = "FLOODMARK_IMPORTS_TO";

/// Set to `0`, every run is a new process.
const WARM_VARIABLE: &str = "FLOODMARK_WARM_PROCESS";

/// Strings have other hashes in every new process, so a program that goes through a set does something else in each.
const HASHES_VARIABLE: &str = "PYTHONHASHSEED";

/// How many threads libraries start: with one for each processor, runs at the same time would disturb each other.
const THREADS_VARIABLE: &str = "OMP_NUM_THREADS";

/// Where an estimate writes down the program's own files that it imported.
const FILES_VARIABLE: &str = "FLOODMARK_FILES_TO";

/// The trace and the journal of a small try need this space, and more.
const LEAST_SPACE: usize = 16 << 20;

/// A try with its files: what a new process runs, or a fork of the warm one.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// It names the trace.
    pub(super) request: EstimateRequest,
    /// What its environment has besides that of this process.
    pub(super) environment: BTreeMap<OsString, OsString>,
}

/// What a process wrote.
pub(super) struct Output {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// The program's own files that it imported; empty where that is unknown.
    pub(super) files: Vec<PathBuf>,
}

/// Runs the tries of one program.
pub(super) struct Runner<'a> {
    python: &'a OsStr,
    folder: tempfile::TempDir,
    number: AtomicUsize,
    /// What every run gets in its environment.
    environment: Vec<(&'static str, String)>,
    shared: Arc<Shared>,
    warming: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The answer of the first run, repeated by the warm process.
    repeated: Mutex<Option<TryAnswer>>,
    /// Why every run is a new process, or why runs differ.
    note: Mutex<Option<String>>,
    /// No further run follows: the warm process is ended, whatever it does.
    is_ending: AtomicBool,
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
    warm: Arc<WarmProcess>,
    python: OsString,
    folder: PathBuf,
    /// The first run, into another trace: its own may be kept.
    run: Run,
    stdout: Vec<u8>,
}

/// Names of the traces of the first run and of its repetitions, until they have been compared.
const FIRST: &str = "first.flood";
const REPEATED: &str = "repeated.flood";

impl Logged {
    /// Repeats the first run in a fork: whether forks can be relied on, and the answer where it is the same.
    fn check(&self, shared: &Shared) -> (bool, Option<TryAnswer>) {
        let forked = self.warm.run(&self.run);
        let found = match &forked {
            Some(output) => same_answer(&output.stdout, &self.stdout),
            None => Err("its repetition could not be run".to_owned()),
        };
        let figure = match found {
            Ok(answer) => return (true, Some(answer)),
            Err(figure) => figure,
        };
        if shared.is_ending.load(Ordering::Relaxed) {
            return (false, None);
        }
        let (first, repeated) = (self.folder.join(FIRST), self.folder.join(REPEATED));
        let allocation = different_allocation(&first, &repeated);
        let what =
            allocation.map_or(figure.clone(), |allocation| format!("{figure}; {allocation}"));
        // Forks are no worse than new processes where those differ among themselves.
        let again = fresh(&self.python, &self.folder.join("request-again.json"), &self.run);
        let differs = again.is_ok_and(|again| same_answer(&again.stdout, &self.stdout).is_err());
        if differs && forked.is_some() {
            shared.say(&format!(
                "The program does something else in each run, so figures of tries may differ by chance ({what})"
            ));
            return (true, None);
        }
        shared.say_slower(&format!("a fork does not answer as the first try did ({what})"));
        (false, None)
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        for name in [FIRST, REPEATED] {
            let _ = std::fs::remove_file(self.folder.join(name));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn say_slower(&self, reason: &str) {
        self.say(&format!("Every try is a new process, which takes longer: {reason}"));
    }

    fn say(&self, note: &str) {
        if !self.is_ending.load(Ordering::Relaxed) {
            output::note(&format!("{note}\n"));
            *self.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(note.to_owned());
        }
    }

    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> State {
        let guard = self.lock();
        let guard = self.changed.wait_while(guard, |state| condition(state));
        guard.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<'a> Runner<'a> {
    /// Up to `jobs` runs will be made at a time.
    pub(super) fn new(python: &'a OsStr, jobs: usize) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("floodmark-")
            .tempdir()
            .context("Failed to create a temporary folder")?;
        check_space(folder.path())?;
        let shared = Arc::new(Shared::default());
        if std::env::var_os(WARM_VARIABLE).is_some_and(|value| value == "0") {
            shared.set(State::Fresh);
        }
        let mut environment = Vec::new();
        if std::env::var_os(THREADS_VARIABLE).is_none() {
            let threads = (processors() / jobs.max(1)).max(1);
            environment.push((THREADS_VARIABLE, threads.to_string()));
        }
        if std::env::var_os(HASHES_VARIABLE).is_none() {
            environment.push((HASHES_VARIABLE, "0".to_owned()));
        }
        let (number, warming) = (AtomicUsize::new(0), Mutex::new(None));
        Ok(Self { python, folder, number, environment, shared, warming })
    }

    /// Where tries leave their files.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs an estimate; what it wrote.
    pub(super) fn run(&self, question: &Question) -> Result<Output> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let trace = self.folder.path().join(format!("try-{number}.flood"));
        let mut question = question.clone();
        // What the host had is not part of an answer.
        question.request.record_only_gpus();
        let output = self.run_into(&question, &trace);
        // A trace may be large, and the answer has all that is needed of it.
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
        let mut output = self.run_program(question, trace)?;
        output.files = imported_files(&files_beside(trace));
        Ok(output)
    }

    fn run_program(&self, question: &Question, trace: &Path) -> Result<Output> {
        if self.begins_first() {
            return self.run_first(question, trace);
        }
        let is_soon = |state: &State| matches!(state, State::Running | State::Warming(_));
        let output = match self.shared.wait_while(is_soon) {
            State::Checking(warm) | State::Warm(warm) => {
                warm.run(&self.with_files(question, trace))
            }
            State::First | State::Running | State::Logged(_) | State::Warming(_) | State::Fresh => {
                None
            }
        };
        let state = self.shared.wait_while(|state| matches!(state, State::Checking(_)));
        match (output, state) {
            (Some(output), State::Warm(_)) => Ok(output),
            _ => self.run_fresh(&self.with_files(question, trace)),
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

    /// The first run is a new process, which writes down what it imports; the warm process reads that.
    fn run_first(&self, question: &Question, trace: &Path) -> Result<Output> {
        let imports = self.folder.path().join("imports.jsonl");
        let mut run = self.with_files(question, trace);
        run.environment.insert(IMPORTS_VARIABLE.into(), imports.clone().into());
        let warm = WarmProcess::spawn(self.python, &imports, self.folder.path(), &self.environment);
        let output = self.run_fresh(&run);
        let state = match (&output, warm) {
            (Ok(done), Some(warm)) if is_complete(&imports) => {
                let folder = self.folder.path();
                // Only to say what differs, if something does.
                let _ = std::fs::hard_link(trace, folder.join(FIRST));
                State::Logged(Arc::new(Logged {
                    warm: Arc::new(warm),
                    python: self.python.to_owned(),
                    folder: folder.to_owned(),
                    run: self.with_files(question, &folder.join(REPEATED)),
                    stdout: done.stdout.clone(),
                }))
            }
            _ => State::Fresh,
        };
        self.shared.set(state);
        output
    }

    /// Many runs follow: uses the warm process for them, if the first run is over.
    pub(super) fn warm_up(&self) {
        let mut state = self.shared.lock();
        let State::Logged(logged) = &*state else { return };
        let logged = Arc::clone(logged);
        *state = State::Warming(Arc::clone(&logged.warm));
        drop(state);
        let shared = Arc::clone(&self.shared);
        let warming = std::thread::spawn(move || {
            let warm = &logged.warm;
            if let Err(reason) = warm.wait_until_ready() {
                shared.say_slower(&reason);
                shared.set(State::Fresh);
                return;
            }
            shared.set(State::Checking(Arc::clone(warm)));
            let (is_reliable, repeated) = logged.check(&shared);
            *shared.repeated.lock().unwrap_or_else(PoisonError::into_inner) = repeated;
            shared.set(if is_reliable { State::Warm(Arc::clone(warm)) } else { State::Fresh });
        });
        *self.warming.lock().unwrap_or_else(PoisonError::into_inner) = Some(warming);
    }

    fn run_fresh(&self, run: &Run) -> Result<Output> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        fresh(self.python, &self.folder.path().join(format!("request-{number}.json")), run)
    }

    fn with_files(&self, question: &Question, trace: &Path) -> Run {
        let Question { request, environment } = question;
        let output = Some(trace.to_owned());
        let run = RunRequest { output, ..request.run.clone() };
        let own = self.environment.iter().map(|(key, value)| (key.into(), value.into()));
        let files = (FILES_VARIABLE.into(), files_beside(trace).into());
        let set = environment.iter().map(|one| (one.key.clone().into(), one.value.clone().into()));
        Run {
            request: EstimateRequest { run, ..request.clone() },
            environment: own.chain([files]).chain(set).collect(),
        }
    }

    /// Why every run is a new process, or why runs differ; none where neither is so.
    pub(super) fn note(&self) -> Option<String> {
        self.shared.note.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The answer of the first run, once the warm process has repeated it: measured under the conditions that all
    /// further runs have.
    pub(super) fn take_repeated(&self) -> Option<TryAnswer> {
        self.shared.repeated.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Runs an estimate in a new process, with its request in a file.
fn fresh(python: &OsStr, file: &Path, run: &Run) -> Result<Output> {
    let output = process(python, &run.request, file)?
        .envs(&run.environment)
        .output()
        .with_context(|| format!("Failed to start `{} -m floodmark`", python.display()))?;
    Ok(Output { stdout: output.stdout, stderr: output.stderr, files: Vec::new() })
}

/// Fails before the first try if the temporary folder cannot be written.
fn check_space(folder: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Problem::NoTemporarySpace { error: error.to_string() };
    let mut file = tempfile::tempfile_in(folder).map_err(failed)?;
    file.write_all(&vec![0; LEAST_SPACE]).map_err(failed)?;
    Ok(())
}

fn files_beside(trace: &Path) -> PathBuf {
    trace.with_extension("files")
}

/// The files that the processes of a run wrote down, a line of JSON each.
fn imported_files(log: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let _ = std::fs::remove_file(log);
    let of_process = |line: &str| serde_json::from_str::<Vec<PathBuf>>(line).unwrap_or_default();
    let all: BTreeSet<PathBuf> = text.lines().flat_map(of_process).collect();
    all.into_iter().collect()
}

/// Whether the first run has written down all its imports, to its end.
fn is_complete(imports: &Path) -> bool {
    let log = std::fs::read_to_string(imports).unwrap_or_default();
    let last = log.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
    last.is_some_and(|last: serde_json::Value| last["name"] == "")
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        // The warm process ends before the folder is removed.
        let state = self.shared.lock().clone();
        match &state {
            State::Logged(logged) => logged.warm.end(),
            State::Warming(warm) | State::Checking(warm) | State::Warm(warm) => warm.end(),
            State::First | State::Running | State::Fresh => {}
        }
        let warming = self.warming.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(warming) = warming {
            let _ = warming.join();
        }
    }
}
