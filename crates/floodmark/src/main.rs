//! The program `floodmark`: runs the command line in a process of its own.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use floodmark::{ExitStatus, NextAction};

/// The interpreter of the active environment.
const PYTHON: &str = "python3";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let status = match floodmark::main(&args, OsStr::new(PYTHON)) {
        NextAction::Exit(status) => status,
        NextAction::Run(_) | NextAction::Estimate(_) | NextAction::Doctor { .. } => {
            run_in_python(&args[1..])
        }
        NextAction::Version(version) => {
            let _ = writeln!(anstream::stdout(), "{version}");
            ExitStatus::Done
        }
    };
    ExitCode::from(status as u8)
}

/// Replaces this process by `python3 -m floodmark` with the same arguments. Returns only if that failed.
fn run_in_python(args: &[OsString]) -> ExitStatus {
    let error = Command::new(PYTHON).args(["-m", "floodmark"]).args(args).exec();
    let _ = writeln!(
        anstream::stderr(),
        "error: Failed to start `python3 -m floodmark`\n  Caused by: {error}\n\n\
         hint: activate the environment into which you installed floodmark with `pip`"
    );
    ExitStatus::Wrong
}
