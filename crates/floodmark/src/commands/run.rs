//! `floodmark run`: what the Python side is to do.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use floodmark_profiles::Change;
use floodmark_trace::Device;

use crate::commands::args::{Devices, ProgramArgs, RunArgs};
use crate::commands::launcher;
use crate::text::failure::Problem;

/// The name under which Python runs standard input.
const STDIN: &str = "-";

/// The least memory limit that the recorder can keep.
pub const LEAST_RECORDER_BYTES: u64 = 16 << 20;

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
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct RunPlan {
    /// What is run.
    pub target: Target,
    /// The program's own arguments.
    pub args: Vec<OsString>,
    /// Where the trace goes; Python chooses when none is named.
    pub output: Option<PathBuf>,
    /// The devices to record; all when `None`.
    pub devices: Option<Vec<Device>>,
    /// Whether Python stacks are recorded.
    pub stacks: bool,
    /// Whether operators are recorded.
    pub ops: bool,
    /// Whether the source files of the program are stored in the trace.
    pub stores_source: bool,
    /// How many bytes the recorder may use: at least [`LEAST_RECORDER_BYTES`].
    pub max_memory_bytes: u64,
    /// Whether forked children are recorded.
    pub follow_fork: bool,
    /// Whether an existing trace may be replaced.
    pub force: bool,
    /// Whether to say nothing at the end.
    pub quiet: bool,
    /// Changes to apply to the program while it runs.
    pub changes: Vec<Change>,
    /// How to give us options that follow the program, and so belong to it.
    pub hint: Option<String>,
}

pub(crate) fn plan(args: RunArgs) -> Result<RunPlan> {
    let (target, words) = target("run", args.program)?;
    Ok(RunPlan {
        target,
        args: words,
        output: args.output,
        devices: match args.devices {
            Devices::All => None,
            Devices::These(devices) => Some(devices),
        },
        stacks: !args.no_stacks,
        ops: args.ops,
        stores_source: args.source,
        max_memory_bytes: args.max_memory,
        follow_fork: args.follow_fork,
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
    let name = words.next().context("no program is given")?;
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
