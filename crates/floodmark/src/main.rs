//! The program `floodmark`. All it adds to the library is a process.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use floodmark::{ExitStatus, LeftToDo};

/// The interpreter of the environment that is active.
const PYTHON: &str = "python3";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let status = match floodmark::main(&args, OsStr::new(PYTHON)) {
        LeftToDo::Exit(status) => status,
        LeftToDo::Run(_) | LeftToDo::Estimate(_) | LeftToDo::Doctor { .. } => {
            run_in_python(&args[1..])
        }
        LeftToDo::Version(version) => {
            let _ = writeln!(anstream::stdout(), "{version}");
            ExitStatus::Done
        }
    };
    ExitCode::from(status as u8)
}

/// Recording happens inside Python: the same words, said to the package. Returns only on failure.
fn run_in_python(args: &[OsString]) -> ExitStatus {
    let error = Command::new(PYTHON).args(["-m", "floodmark"]).args(args).exec();
    let _ = writeln!(
        anstream::stderr(),
        "error: Failed to start `python3 -m floodmark`\n  Caused by: {error}\n\n\
         hint: activate the environment into which you installed floodmark with `pip`"
    );
    ExitStatus::Wrong
}
