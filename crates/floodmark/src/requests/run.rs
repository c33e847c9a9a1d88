//! `floodmark run`: what the Python side is to do.

use std::ffi::OsString;
use std::path::PathBuf;

use floodmark_profiles::Change;
use floodmark_trace::{Device, RecordingOptions};

use crate::args::{Devices, ProgramArgs, RunArgs};
use crate::requests::launcher;
use crate::text::failure::{Context, Problem, Result};

/// The name under which Python runs standard input.
const STDIN: &str = "-";

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file, as `python FILE`; `-` is standard input.
    Script(PathBuf),
    /// A module, as `python -m MODULE`.
    Module(String),
}

/// A program to record, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRequest {
    /// What is run.
    pub target: Target,
    /// The program's own arguments.
    pub args: Vec<OsString>,
    /// Where the trace goes; Python chooses when none is named.
    pub output: Option<PathBuf>,
    /// The devices to record; all when `None`.
    pub devices: Option<Vec<Device>>,
    /// How it is recorded.
    pub recording: RecordingOptions,
    /// Whether an existing trace may be replaced.
    pub force: bool,
    /// Whether to say nothing at the end.
    pub quiet: bool,
    /// Changes to apply to the program while it runs.
    pub changes: Vec<Change>,
    /// How to give us options that follow the program, and so belong to it.
    pub hint: Option<String>,
}

pub(crate) fn request(args: RunArgs) -> Result<RunRequest> {
    let (target, words) = target("run", args.program)?;
    Ok(RunRequest {
        target,
        args: words,
        output: args.output,
        devices: match args.devices {
            Devices::All => None,
            Devices::These(devices) => Some(devices),
        },
        recording: args.recording.into(),
        force: args.force,
        quiet: args.quiet,
        changes: args.changes,
        hint: None,
    })
}

/// What is run by a command of ours, and its own arguments.
pub(crate) fn target(command: &str, program: ProgramArgs) -> Result<(Target, Vec<OsString>)> {
    let order = launcher::right_order(command, &program.words);
    let mut words = program.words.into_iter();
    let name = words.next().ok_or(Problem::NoProgram)?;
    if program.is_module {
        let module = name.into_string().map_err(|_| Problem::ModuleNotText)?;
        return Ok((Target::Module(module), words.collect()));
    }
    let script = PathBuf::from(name);
    if script.as_os_str() != STDIN && !script.exists() {
        let shown = script.display().to_string();
        if let Some(order) = order {
            return Err(Problem::BeforeLauncher { order })
                .context(format!("Failed to run `{shown}`"));
        }
        return Err(Problem::NoSuchScript).context(format!("Failed to run `{shown}`"));
    }
    Ok((Target::Script(script), words.collect()))
}
