//! The tools that run a program: `estimate`, `fit` and `plan`, each runs its command in a new process. `estimate_model`
//! is `estimate` of a program in this package that puts one model on the GPU.
//!
//! The server kills the process when the call is cancelled or exceeds its time limit, and when it ends itself. The
//! lines that the process prints to stderr become progress notifications.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::CommandFactory;
use floodmark_files::traces::open_trace;
use floodmark_text::answer_text::AnswerText;
use floodmark_text::text_table::render;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::ChildStderr;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::arguments::{Object, strings, words};
use super::folders::Folders;
use super::progress::Progress;
use super::refusal::Refusal;
use super::tools::{ESTIMATE_MODEL, ToolAnswer, command_name, parse};
use crate::args::{Cli, Command, EstimateArgs};
use crate::fit::Fit;
use crate::plan::Plan;
use crate::requests::estimate::{AnswerForm, EstimateRequest};
use crate::requests::run::RunRequest;
use crate::requests::{estimate, run};
use crate::text::failure::{Context, Problem, Result};
use crate::tries::requested;

/// The argument with the time limit of a program, in seconds.
pub(super) const TIME_LIMIT: &str = "time_limit";
/// The default time limit of a program.
pub(super) const USUAL_SECONDS: u64 = 600;
/// The program of `estimate_model`.
const MODEL_PROGRAM: &str = "floodmark.estimate.model_program";

/// The output of a process that ended.
struct Ended {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    is_success: bool,
}

/// Answers a call.
pub(super) async fn answer(
    name: &str,
    mut given: Object,
    folders: &Folders,
    python: &OsStr,
    progress: &Progress,
) -> Result<ToolAnswer> {
    let failed = || format!("Failed to answer `{name}`");
    let seconds = time_limit(&mut given).with_context(failed)?;
    let words = command_line(name, given, folders).with_context(failed)?;
    match parse(words.clone()).with_context(failed)? {
        Command::Estimate(args) => estimated(args, python, seconds, progress).await,
        Command::Fit(args) => {
            estimate::machine(&args.phantom)?;
            run::target("estimate", args.program)?;
            let ended = searched(words, python, seconds, progress).await.with_context(failed)?;
            shown::<Fit>(&ended).with_context(failed)
        }
        Command::Plan(args) => {
            estimate::machine(&args.phantom)?;
            run::target("estimate", args.program)?;
            let ended = searched(words, python, seconds, progress).await.with_context(failed)?;
            shown::<Plan>(&ended).with_context(failed)
        }
        Command::Run(_)
        | Command::Gpus(_)
        | Command::Info(_)
        | Command::Report(_)
        | Command::Annotate(_)
        | Command::View(_)
        | Command::Export(_)
        | Command::Simulate(_)
        | Command::Oom(_)
        | Command::Top(_)
        | Command::Metrics(_)
        | Command::Advise(_)
        | Command::Diff(_)
        | Command::Leaks(_)
        | Command::Ledger(_)
        | Command::Mcp(_)
        | Command::Doctor(_)
        | Command::Schema
        | Command::Completions(_)
        | Command::Man(_) => unreachable!("`{name}` runs no program"),
    }
}

async fn estimated(
    args: EstimateArgs,
    python: &OsStr,
    seconds: u64,
    progress: &Progress,
) -> Result<ToolAnswer> {
    let request = estimate::request(args)?;
    let temporary = tempfile::Builder::new()
        .prefix("floodmark-")
        .tempdir()
        .context("Failed to create a temporary folder")?;
    let output =
        request.run.output.clone().unwrap_or_else(|| temporary.path().join("estimate.flood"));
    if output.exists() {
        let failed = format!("Failed to write `{}`", output.display());
        return Err(Problem::OutputExists).context(failed);
    }
    let run = RunRequest { output: Some(output.clone()), force: true, quiet: true, ..request.run };
    let request = EstimateRequest { run, reruns: false, answer: AnswerForm::Json, ..request };
    let file = temporary.path().join("request.json");
    let process = estimate::process(python, &request, &file)?;
    let done = ended(process, seconds, progress).await.context("Failed to answer `estimate`")?;
    let json: Value = serde_json::from_slice(&done.stdout)
        .map_err(|_| Refusal::NoEstimate(estimate::tail(&done.stderr)))
        .context("Failed to answer `estimate`")?;
    let lists_operators = request.run.recording.ops;
    let mut text = text_of(output, json.clone(), lists_operators)
        .await
        .unwrap_or_else(|| String::from_utf8_lossy(&done.stdout).into_owned());
    if json["fits"].is_null() {
        text += "stderr of the program:";
        text += &estimate::tail(&done.stderr);
        text += "\n";
    }
    Ok(ToolAnswer { text, json })
}

/// The text of an estimate, rendered from its trace; `None` if the trace does not have the whole answer.
async fn text_of(trace: PathBuf, json: Value, lists_operators: bool) -> Option<String> {
    let text = spawn_blocking(move || {
        let found = floodmark_analysis::estimate(&open_trace(&trace).ok()?).ok()?;
        let found = requested(found, lists_operators);
        // Compare parsed values: parsing may change the last digit of a fraction.
        let parsed: Value = serde_json::from_str(&serde_json::to_string(&found).ok()?).ok()?;
        (parsed == json).then(|| render(&found))
    });
    text.await.ok()?
}

/// Runs `fit` or `plan`.
async fn searched(
    words: Vec<OsString>,
    python: &OsStr,
    seconds: u64,
    progress: &Progress,
) -> Result<Ended> {
    let mut process = std::process::Command::new(python);
    process.args(["-m", "floodmark"]).args(&words[..1]).arg("--json").args(&words[1..]);
    ended(process, seconds, progress).await
}

/// The answer of `fit` or `plan`; an error if the process printed none.
fn shown<T: DeserializeOwned>(ended: &Ended) -> Result<ToolAnswer>
where
    AnswerText: for<'a> From<&'a T>,
{
    let json: Value = serde_json::from_slice(&ended.stdout)
        .map_err(|_| Refusal::NoEstimate(estimate::tail(&ended.stderr)))?;
    let found: T = serde_json::from_value(json.clone())?;
    let mut text = render(&found);
    if !ended.is_success {
        text += "stderr of the command:";
        text += &estimate::tail(&ended.stderr);
        text += "\n";
    }
    Ok(ToolAnswer { text, json })
}

/// Runs a process until it ends or exceeds its time limit.
async fn ended(process: std::process::Command, seconds: u64, progress: &Progress) -> Result<Ended> {
    let mut child = tokio::process::Command::from(process)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("Failed to start `python -m floodmark`")?;
    let (mut out, err) = (child.stdout.take(), child.stderr.take());
    let work = async {
        let mut stdout = Vec::new();
        let read = async {
            match &mut out {
                Some(out) => out.read_to_end(&mut stdout).await,
                None => Ok(0),
            }
        };
        let (read, stderr) = tokio::join!(read, forward_stderr(err, progress));
        read?;
        let is_success = child.wait().await?.success();
        Ok::<_, std::io::Error>(Ended { stdout, stderr, is_success })
    };
    match timeout(Duration::from_secs(seconds), work).await {
        Ok(ended) => Ok(ended?),
        Err(_) => Err(Refusal::TimeLimit { seconds }.into()),
    }
}

/// Sends each line of stderr as progress; returns all of it when the process closes it.
async fn forward_stderr(err: Option<ChildStderr>, progress: &Progress) -> Vec<u8> {
    let mut all = Vec::new();
    let Some(err) = err else { return all };
    let mut lines = BufReader::new(err);
    loop {
        let begin = all.len();
        match lines.read_until(b'\n', &mut all).await {
            Ok(0) | Err(_) => return all,
            Ok(_) => progress.send(&String::from_utf8_lossy(&all[begin..])).await,
        }
    }
}

fn time_limit(given: &mut Object) -> Result<u64, Refusal> {
    match given.remove(TIME_LIMIT) {
        None | Some(Value::Null) => Ok(USUAL_SECONDS),
        Some(value) => value
            .as_u64()
            .filter(|seconds| *seconds > 0)
            .ok_or_else(|| wrong(TIME_LIMIT, "an integer of 1 or more")),
    }
}

/// Converts a call to a command line, which ends with the program and its arguments.
fn command_line(
    name: &str,
    mut given: Object,
    folders: &Folders,
) -> Result<Vec<OsString>, Refusal> {
    let program = file(&mut given, folders)?;
    let own = if name == ESTIMATE_MODEL {
        vec![text(&mut given, "factory")?]
    } else {
        match given.remove("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(value) => strings(&value).ok_or_else(|| wrong("args", "an array of strings"))?,
        }
    };
    let cli = Cli::command();
    let command = cli.find_subcommand(command_name(name)).expect("a tool is a command");
    let mut words = words(command, &given, folders)?;
    if name == ESTIMATE_MODEL {
        let end = words.pop();
        words.push("-m".into());
        words.extend(end);
        words.push(MODEL_PROGRAM.into());
    }
    words.push(program.into_os_string());
    words.extend(own.into_iter().map(OsString::from));
    Ok(words)
}

fn file(given: &mut Object, folders: &Folders) -> Result<PathBuf, Refusal> {
    folders.resolve(Path::new(&text(given, "program")?))
}

fn text(given: &mut Object, name: &str) -> Result<String, Refusal> {
    match given.remove(name) {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => Err(Refusal::Missing { name: name.to_owned() }),
        Some(_) => Err(wrong(name, "a string")),
    }
}

fn wrong(name: &str, wanted: &'static str) -> Refusal {
    Refusal::WrongType { name: name.to_owned(), wanted }
}
