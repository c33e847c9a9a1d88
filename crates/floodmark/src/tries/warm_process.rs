//! A Python process that has imported what a program imports, and forks for each run: `estimate/warm_process.py`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floodmark_profiles::Change;
use serde::Serialize;

use crate::requests::estimate::EstimateRequest;
use crate::tries::runner::{Output, Run};

/// How long it may take to end by itself.
const PATIENCE: Duration = Duration::from_millis(500);

/// How names of variables begin that libraries read when they are imported: a run that changes one is a new process.
const OF_LIBRARIES: [&str; 11] = [
    "PYTORCH",
    "TORCH",
    "CUDA",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "HF_",
    "TRANSFORMERS_",
    "NCCL_",
    "PYTHON",
    "LD_",
];

/// A run, as the process reads it.
#[derive(Serialize)]
struct Request<'a> {
    id: u64,
    estimate: &'a EstimateRequest,
    /// The program's words.
    words: Vec<&'a str>,
    environment: BTreeMap<&'a str, &'a str>,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// The process, until it is dropped.
pub(super) struct WarmProcess {
    folder: PathBuf,
    /// What every run has in its environment, and this process too.
    environment: Vec<(&'static str, String)>,
    number: AtomicU64,
    /// None when it is to end.
    stdin: Mutex<Option<ChildStdin>>,
    /// What it writes, until somebody reads it.
    answers: Mutex<Option<ChildStdout>>,
    process: Mutex<Child>,
    waiting: Arc<Mutex<Waiting>>,
}

/// Who waits for which run; none when the process has ended.
type Waiting = Option<BTreeMap<u64, Sender<()>>>;

impl WarmProcess {
    /// Starts it. It reads `imports` while that is written.
    pub(super) fn spawn(
        python: &OsStr,
        imports: &Path,
        folder: &Path,
        environment: &[(&'static str, String)],
    ) -> Option<Self> {
        let mut process = Command::new(python)
            .args(["-m", "floodmark.estimate.warm_process"])
            .arg(imports)
            .envs(environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (stdin, answers) = (process.stdin.take(), process.stdout.take());
        Some(Self {
            folder: folder.to_owned(),
            environment: environment.to_vec(),
            number: AtomicU64::new(0),
            stdin: Mutex::new(stdin),
            answers: Mutex::new(answers),
            process: Mutex::new(process),
            waiting: Arc::new(Mutex::new(Some(BTreeMap::new()))),
        })
    }

    /// Waits until it has imported everything. Fails where it says that forking is not safe, or has ended: why.
    pub(super) fn wait_until_ready(&self) -> Result<(), String> {
        let ended = || "the process that imports for all tries has ended".to_owned();
        let mut answers = BufReader::new(locked(&self.answers).take().ok_or_else(ended)?);
        let mut line = String::new();
        answers.read_line(&mut line).map_err(|_| ended())?;
        if line != "ready\n" {
            let reason = line.strip_prefix("unsafe ").map(|reason| reason.trim_end().to_owned());
            return Err(reason.unwrap_or_else(ended));
        }
        let waiting = Arc::clone(&self.waiting);
        std::thread::spawn(move || {
            for line in answers.lines().map_while(Result::ok) {
                let id = line.split(' ').next().and_then(|id| id.parse::<u64>().ok());
                if let (Some(id), Some(waiting)) = (id, locked(&waiting).as_mut())
                    && let Some(sender) = waiting.remove(&id)
                {
                    let _ = sender.send(());
                }
            }
            *locked(&waiting) = None;
        });
        Ok(())
    }

    /// Runs a try in a fork. `None` where that cannot be done here.
    pub(super) fn run(&self, run: &Run) -> Option<Output> {
        let estimate = &run.request;
        let words: Option<Vec<&str>> =
            estimate.run.words().into_iter().map(OsStr::to_str).collect();
        let set = run.environment.iter();
        let environment: Option<BTreeMap<&str, &str>> =
            set.map(|(key, value)| Some((key.to_str()?, value.to_str()?))).collect();
        let mut environment = environment?;
        // What this process has itself is no difference.
        let own = |key: &str| self.environment.iter().find(|(known, _)| *known == key);
        environment.retain(|key, value| own(key).is_none_or(|(_, known)| known != value));
        if environment.keys().any(|key| OF_LIBRARIES.iter().any(|start| key.starts_with(start))) {
            return None;
        }
        // torch chooses it when it is imported.
        let sets_backend = |change: &Change| matches!(change, Change::Allocator(settings) if settings.contains("backend"));
        if estimate.run.changes.iter().any(sets_backend) {
            return None;
        }
        let id = self.number.fetch_add(1, Ordering::Relaxed);
        let request = Request {
            id,
            estimate,
            words: words?,
            environment,
            stdout: self.folder.join(format!("warm-{id}.stdout")),
            stderr: self.folder.join(format!("warm-{id}.stderr")),
        };
        let (sender, ended) = channel();
        locked(&self.waiting).as_mut()?.insert(id, sender);
        let line = serde_json::to_string(&request).ok()? + "\n";
        locked(&self.stdin).as_mut()?.write_all(line.as_bytes()).ok()?;
        // An error says that the process ended before the run did.
        ended.recv().ok()?;
        let output = Output {
            stdout: fs::read(&request.stdout).ok()?,
            stderr: fs::read(&request.stderr).ok()?,
            files: Vec::new(),
        };
        let _ = fs::remove_file(&request.stdout);
        let _ = fs::remove_file(&request.stderr);
        Some(output)
    }

    /// Ends it, and what still runs in its forks.
    pub(super) fn end(&self) {
        drop(locked(&self.stdin).take());
        let mut process = locked(&self.process);
        // It removes its temporary files, if it is not importing.
        let until = Instant::now() + PATIENCE;
        while matches!(process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(PATIENCE / 50);
        }
        let _ = process.kill();
        let _ = process.wait();
    }
}

impl Drop for WarmProcess {
    fn drop(&mut self) {
        self.end();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
