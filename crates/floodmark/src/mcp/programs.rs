//! The tool `estimate`: `floodmark estimate` in a process of its own, as `floodmark fit` starts it.
//!
//! It is the one tool that runs a program, and the one that may write a file. A call that is cancelled kills the
//! process; the end of the server does too.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::CommandFactory;
use floodmark_files::traces::open_trace;
use floodmark_text::text_table::render;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::arguments::{Object, strings, words};
use super::folders::Folders;
use super::refusal::Refusal;
use super::tools::{ESTIMATE, ToolAnswer, parse};
use crate::args::{Cli, Command, EstimateArgs};
use crate::requests::{estimate, run};
use crate::text::failure::{Context, Problem, Result};

/// Answers a call.
pub(super) async fn answer(given: Object, folders: &Folders, python: &OsStr) -> Result<ToolAnswer> {
    let args = arguments(given, folders).context("Failed to answer `estimate`")?;
    estimate::machine(&args.phantom)?;
    run::target("estimate", args.program.clone())?;
    let temporary = tempfile::Builder::new()
        .prefix("floodmark-")
        .tempdir()
        .context("Failed to create a temporary folder")?;
    let output = args.output.unwrap_or_else(|| temporary.path().join("estimate.flood"));
    if output.exists() {
        let failed = format!("Failed to write `{}`", output.display());
        return Err(Problem::OutputExists).context(failed);
    }
    let process = estimate::process(python, &args.phantom, &output, &args.program);
    let done = tokio::process::Command::from(process)
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("Failed to start `{} -m floodmark`", python.display()))?;
    let json: Value = serde_json::from_slice(&done.stdout)
        .map_err(|_| Refusal::NoEstimate(estimate::tail(&done.stderr)))
        .context("Failed to answer `estimate`")?;
    let mut text = text_of(output, json.clone())
        .await
        .unwrap_or_else(|| String::from_utf8_lossy(&done.stdout).into_owned());
    if json["fits"].is_null() {
        text += "stderr of the program:";
        text += &estimate::tail(&done.stderr);
        text += "\n";
    }
    Ok(ToolAnswer { text, json })
}

/// The text of an answer that follows from one trace; that of several processes does not.
async fn text_of(trace: PathBuf, json: Value) -> Option<String> {
    let text = spawn_blocking(move || {
        let found = floodmark_analysis::estimate(&open_trace(&trace).ok()?).ok()?;
        // Both were parsed: the last digit of a fraction may depend on it.
        let parsed: Value = serde_json::from_str(&serde_json::to_string(&found).ok()?).ok()?;
        (parsed == json).then(|| render(&found))
    });
    text.await.ok()?
}

/// The command line of a call, which ends with the program and its arguments.
fn arguments(mut given: Object, folders: &Folders) -> Result<EstimateArgs, Refusal> {
    let program = match given.remove("program") {
        Some(Value::String(program)) => folders.resolve(&PathBuf::from(program))?,
        None | Some(Value::Null) => return Err(Refusal::Missing { name: "program".to_owned() }),
        Some(_) => return Err(wrong("program", "a string")),
    };
    let own = match given.remove("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => strings(&value).ok_or_else(|| wrong("args", "an array of strings"))?,
    };
    let cli = Cli::command();
    let command = cli.find_subcommand(ESTIMATE).expect("a tool is a command");
    let mut words = words(command, &given, folders)?;
    words.push(program.into_os_string());
    words.extend(own.into_iter().map(OsString::from));
    let Command::Estimate(args) = parse(words)? else {
        unreachable!("the words are those of `estimate`")
    };
    Ok(args)
}

fn wrong(name: &str, wanted: &'static str) -> Refusal {
    Refusal::WrongType { name: name.to_owned(), wanted }
}
