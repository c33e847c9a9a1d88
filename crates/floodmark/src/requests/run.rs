//! The request of `floodmark run`, which Python executes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use floodmark_profiles::Change;
use floodmark_trace::{Device, RecordingOptions};
use serde::{Deserialize, Serialize};

use crate::args::{Devices, ProgramArgs, RunArgs};
use crate::requests::launcher;
use crate::text::failure::{Context, Problem, Result};

/// The name under which Python runs standard input.
const STDIN: &str = "-";

/// The program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// A file, as `python FILE`; `-` is standard input.
    Script(OsString),
    /// A module, as `python -m MODULE`.
    Module(String),
}

/// A program to record, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The program to run.
    pub target: Target,
    /// The program's own arguments.
    pub args: Vec<OsString>,
    /// The path of the trace; `None` lets Python choose.
    #[serde(with = "any_path")]
    pub output: Option<PathBuf>,
    /// The devices to record; `None` for all.
    pub devices: Option<Vec<Device>>,
    /// How to record it.
    pub recording: RecordingOptions,
    /// Whether an existing trace may be replaced.
    pub force: bool,
    /// Whether to print no summary.
    pub quiet: bool,
    /// Changes to apply to the program while it runs.
    pub changes: Vec<Change>,
    /// A hint about options of floodmark that follow the program.
    pub hint: Option<String>,
}

impl RunRequest {
    /// A request with default options for the program of a command.
    pub(crate) fn of_program(command: &str, program: ProgramArgs) -> Result<Self> {
        let (target, args) = target(command, program)?;
        Ok(Self {
            target,
            args,
            output: None,
            devices: None,
            recording: RecordingOptions::default(),
            force: false,
            quiet: false,
            changes: Vec::new(),
            hint: None,
        })
    }

    /// The program and its arguments, without the `-m` of a module.
    pub(crate) fn words(&self) -> Vec<&OsStr> {
        let name = match &self.target {
            Target::Script(path) => path.as_os_str(),
            Target::Module(name) => OsStr::new(name),
        };
        std::iter::once(name).chain(self.args.iter().map(OsString::as_os_str)).collect()
    }
}

/// A path that may not be UTF-8.
mod any_path {
    use super::{Deserialize, OsString, PathBuf, Serialize};

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(super) fn serialize<S: serde::Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| path.as_os_str()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<OsString>::deserialize(deserializer)?.map(PathBuf::from))
    }
}

pub(crate) fn request(args: RunArgs) -> Result<RunRequest> {
    Ok(RunRequest {
        output: args.output,
        devices: match args.devices {
            Devices::All => None,
            Devices::These(devices) => Some(devices),
        },
        recording: args.recording.into(),
        force: args.force,
        quiet: args.quiet,
        changes: args.changes,
        ..RunRequest::of_program("run", args.program)?
    })
}

/// The program of a command, and its arguments.
pub(crate) fn target(command: &str, program: ProgramArgs) -> Result<(Target, Vec<OsString>)> {
    let order = launcher::right_order(command, &program.words);
    let mut words = program.words.into_iter();
    let name = words.next().ok_or(Problem::NoProgram)?;
    if program.is_module {
        let module = name.into_string().map_err(|_| Problem::ModuleNotText)?;
        return Ok((Target::Module(module), words.collect()));
    }
    if name != STDIN && !Path::new(&name).exists() {
        let shown = name.display().to_string();
        if let Some(order) = order {
            return Err(Problem::BeforeLauncher { order })
                .context(format!("Failed to run `{shown}`"));
        }
        return Err(Problem::NoSuchScript).context(format!("Failed to run `{shown}`"));
    }
    Ok((Target::Script(name), words.collect()))
}
