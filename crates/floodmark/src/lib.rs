//! The program `floodmark`.
//!
//! Each command is a file: it opens a trace (`floodmark-files`), computes the answer (`floodmark-analysis`) and prints
//! it (`floodmark-text`). This crate has the command line, the terminal screen and the servers.
//!
//! The program of this crate calls [`main`], and so does the Python package, inside the Python process. Recording needs
//! Python, so [`main`] returns a [`RunRequest`] for `floodmark run` and an [`EstimateRequest`] for `floodmark
//! estimate`, which the caller executes. The caller also executes `floodmark doctor` and `--version`, which need torch.
//!
//! Exit status: 0: done; 1: the input or the question is invalid, or a given limit is exceeded; 2: internal error. The
//! answer goes to stdout, messages to stderr.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. `text`: output: answers, CSV, errors with their hints, progress; `signals`: Ctrl-C and SIGTERM; `in_parallel`:
//!    work on several threads.
//! 2. `args`: the options of the command line.
//! 3. `traces`: opens the traces at a path.
//! 4. `requests`: the requests of `run` and `estimate`, which Python executes.
//! 5. `tries`: estimates in processes of their own.
//! 6. `fit`: the largest values that fit; `plan`: the cheapest changes that fit.
//! 7. `server`: the page; `top`: the live view in a terminal.
//! 8. `metrics`: figures for Prometheus.
//! 9. `commands`: all other commands, a file each.
//! 10. `schema`: the JSON Schema of the answers, the generated types and pages.
//! 11. `mcp`: the commands as tools of an assistant.

mod args;
mod commands;
mod fit;
mod in_parallel;
mod mcp;
mod metrics;
mod plan;
mod requests;
mod schema;
mod server;
mod signals;
mod text;
mod top;
mod traces;
mod tries;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

pub use args::LEAST_RECORDER_BYTES;
pub use commands::doctor::show_doctor;
pub use commands::export::saved_page::page_of;
pub use requests::estimate::{AnswerForm, EstimateRequest};
pub use requests::run::{RunRequest, Target};
pub use text::exit_status::ExitStatus;
pub use tries::printed;

use args::misplaced;
use commands::{
    advise, annotate, diff, export, gpus, info, leaks, ledger, oom, report, shell, simulate, view,
};
use requests::{estimate, run};
use text::command_output::CommandOutput;
use text::output;

use crate::text::failure::{Failure, Result};

/// What the caller of [`main`] does next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextAction {
    /// Exit.
    Exit(ExitStatus),
    /// Record a program.
    Run(RunRequest),
    /// Record a program on a simulated GPU.
    Estimate(Box<EstimateRequest>),
    /// Check what works in this environment, and pass the facts to [`show_doctor`].
    Doctor {
        /// Whether to print JSON.
        json: bool,
    },
    /// Print this version, `floodmark 0.1.0`, followed by that of torch.
    Version(String),
}

/// Runs a command line; its first word is the name of the program. `python` is the interpreter in which
/// floodmark is installed: `fit` and `plan` run programs with it.
pub fn main(args: &[OsString], python: &OsStr) -> NextAction {
    let hint = misplaced::hint(&args::Cli::command(), args);
    let cli = match args::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => {
            return NextAction::Version(error.to_string().trim_end().to_owned());
        }
        Err(error) => {
            let status = output::usage(&error, &args::usage_error(args));
            if status != ExitStatus::Done {
                output::hint(hint.as_deref());
            }
            return NextAction::Exit(status);
        }
    };
    // A panic ends with exit status 2, also inside a Python process.
    catch_unwind(AssertUnwindSafe(|| run_command(cli.command, hint, python)))
        .unwrap_or(NextAction::Exit(ExitStatus::Failed))
}

fn run_command(command: args::Command, hint: Option<String>, python: &OsStr) -> NextAction {
    let result = match command {
        args::Command::Run(args) => match run::request(args) {
            Ok(request) => return NextAction::Run(RunRequest { hint, ..request }),
            Err(error) => Err(error),
        },
        args::Command::Estimate(args) => match estimate::request(args) {
            Ok(mut request) => {
                request.run.hint = hint;
                return NextAction::Estimate(Box::new(request));
            }
            Err(error) => Err(error),
        },
        args::Command::Fit(args) => {
            output::hint(hint.as_deref());
            fit::fit(&args, python)
        }
        args::Command::Plan(args) => {
            output::hint(hint.as_deref());
            match plan::plan(&args, python) {
                Ok(outcome) => {
                    let Some(mut run) = outcome.run.filter(|_| outcome.output.failure.is_none())
                    else {
                        return NextAction::Exit(print_output(Ok(outcome.output)));
                    };
                    outcome.output.print();
                    // Replaces this process; returns only if that failed.
                    Err(Failure::from(run.exec()).context("Failed to run the program"))
                }
                Err(error) => Err(error),
            }
        }
        args::Command::Gpus(args) => gpus::gpus(&args),
        args::Command::Mcp(args) => mcp::mcp(&args, python).map(CommandOutput::from),
        args::Command::Doctor(args) => return NextAction::Doctor { json: args.json },
        args::Command::Schema => CommandOutput::json(&schema::of_commands()),
        args::Command::Completions(args) => Ok(shell::completions(&args)),
        args::Command::Man(args) => shell::man(&args),
        args::Command::Info(args) => info::info(&args),
        args::Command::Report(args) => report::report(&args),
        args::Command::Annotate(args) => annotate::annotate(&args),
        args::Command::Diff(args) => diff::diff(&args),
        args::Command::View(args) => view::view(&args).map(CommandOutput::from),
        args::Command::Export(args) => export::export(&args).map(CommandOutput::from),
        args::Command::Simulate(args) => simulate::simulate(&args),
        args::Command::Oom(args) => oom::oom(&args),
        args::Command::Metrics(args) => metrics::metrics(&args).map(CommandOutput::from),
        args::Command::Top(args) => top::top(&args).map(CommandOutput::from),
        args::Command::Advise(args) => advise::advise(&args),
        args::Command::Leaks(args) => leaks::leaks(&args),
        args::Command::Ledger(args) => ledger::ledger(&args),
    };
    NextAction::Exit(print_output(result))
}

/// Prints the output of a command; returns the exit status.
fn print_output(result: Result<CommandOutput>) -> ExitStatus {
    match result {
        Ok(printed) => match (printed.print(), printed.failure) {
            (ExitStatus::Done, Some(failure)) => output::failure(&failure),
            (status, _) => {
                output::hint(printed.hint.as_deref());
                status
            }
        },
        Err(error) => output::failure(&error),
    }
}
