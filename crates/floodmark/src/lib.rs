//! The program: what `floodmark …` does on a command line.
//!
//! A command is a file: it loads, asks, shows. `floodmark-session` opens traces and renders answers, which come
//! from `floodmark-analysis`; here is what a command line, a terminal and a server need beyond that.
//!
//! [`main`] is called by the program of this crate, and in process by the Python package. Recording
//! needs Python, so `floodmark run` comes back as a [`RunPlan`] for the caller to carry out, and `floodmark
//! estimate` as an [`EstimatePlan`]; `floodmark doctor` and `--version` come back too, since they tell of torch.
//!
//! Exit status: 0 done; 1 the input or the question was wrong, or a limit that was set is passed; 2 we were
//! wrong. stdout is data, stderr is talk.

mod commands;
mod mcp;
mod metrics;
mod schema;
mod server;
mod text;
mod top;
mod watched_trace;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

pub use commands::doctor::show_doctor;
pub use commands::estimate::EstimatePlan;
pub use commands::export::saved_page::page_of;
pub use commands::run::{LEAST_RECORDER_BYTES, RunPlan, Target};
pub use text::stdout_style::show;

use commands::args::{self, misplaced};
use commands::{
    advise, annotate, diff, estimate, export, fit, gpus, info, leaks, oom, plan, report, run,
    shell, simulate, view,
};
use text::output;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// It did what it was asked.
    Done = 0,
    /// The input or the question was wrong, or a limit that the user set is passed.
    Wrong = 1,
    /// We were.
    Failed = 2,
}

/// What is left to do after [`main`].
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Nothing but to exit.
    Exit(ExitStatus),
    /// To record a program.
    Run(RunPlan),
    /// To record a program on a phantom GPU.
    Estimate(Box<EstimatePlan>),
    /// To find out what works here, for [`show_doctor`].
    Doctor {
        /// Whether to print JSON.
        json: bool,
    },
    /// To print the version, `floodmark 0.1.0`, with what the caller adds to it.
    Version(String),
}

/// Carries out a command line; its first word is the name of the program. `python` is the interpreter into
/// which floodmark is installed: `fit` and `plan` run programs with it.
pub fn main(args: Vec<OsString>, python: &OsStr) -> Outcome {
    let hint = misplaced::hint(&args::Cli::command(), &args);
    let cli = match args::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => {
            return Outcome::Version(error.to_string().trim_end().to_owned());
        }
        Err(error) => {
            let status = output::usage(&error);
            if status != ExitStatus::Done {
                output::hint(hint.as_deref());
            }
            return Outcome::Exit(status);
        }
    };
    // A bug of ours must look like one, also inside somebody's Python process.
    catch_unwind(AssertUnwindSafe(|| carry_out(cli.command, hint, python)))
        .unwrap_or(Outcome::Exit(ExitStatus::Failed))
}

/// What a command has to say.
#[derive(Debug)]
struct Said {
    /// For stdout.
    text: String,
    /// Whether the text is for programs: it has no styles, and its names are exact.
    is_exact: bool,
    /// Why the exit status is not 0 although there is an answer.
    objection: Option<anyhow::Error>,
    /// What to ask next, for stderr.
    hint: Option<String>,
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self { text, is_exact: false, objection: None, hint: None }
    }
}

impl Said {
    /// Text for programs.
    fn exactly(text: String) -> Self {
        Self { is_exact: true, ..text.into() }
    }

    /// An answer as JSON.
    fn json(answer: &impl serde::Serialize) -> anyhow::Result<Self> {
        Ok(Self::exactly(serde_json::to_string_pretty(answer)? + "\n"))
    }

    fn print(&self) -> ExitStatus {
        if self.is_exact { output::exact(&self.text) } else { output::data(&self.text) }
    }
}

fn carry_out(command: args::Command, hint: Option<String>, python: &OsStr) -> Outcome {
    let said = match command {
        args::Command::Run(args) => match run::plan(args) {
            Ok(plan) => return Outcome::Run(RunPlan { hint, ..plan }),
            Err(error) => Err(error),
        },
        args::Command::Estimate(args) => match estimate::plan(args) {
            Ok(mut plan) => {
                plan.run.hint = hint;
                return Outcome::Estimate(Box::new(plan));
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
                Ok(planned) => {
                    let Some(mut run) = planned.run.filter(|_| planned.said.objection.is_none())
                    else {
                        return Outcome::Exit(finished(Ok(planned.said)));
                    };
                    planned.said.print();
                    // This process becomes the program; it returns only where that failed.
                    Err(anyhow::Error::new(run.exec()).context("Failed to run the program"))
                }
                Err(error) => Err(error),
            }
        }
        args::Command::Gpus(args) => gpus::gpus(&args),
        args::Command::Mcp(args) => mcp::mcp(&args, python).map(Said::from),
        args::Command::Doctor(args) => return Outcome::Doctor { json: args.json },
        args::Command::Schema => Said::json(&schema::of_commands()),
        args::Command::Completions(args) => Ok(shell::completions(&args)),
        args::Command::Man(args) => shell::man(&args),
        args::Command::Info(args) => info::info(&args),
        args::Command::Report(args) => report::report(&args),
        args::Command::Annotate(args) => annotate::annotate(&args),
        args::Command::Diff(args) => diff::diff(&args),
        args::Command::View(args) => view::view(&args).map(Said::from),
        args::Command::Export(args) => export::export(&args).map(Said::from),
        args::Command::Simulate(args) => simulate::simulate(&args),
        args::Command::Oom(args) => oom::oom(&args),
        args::Command::Metrics(args) => metrics::metrics(&args).map(Said::from),
        args::Command::Top(args) => top::top(&args).map(Said::from),
        args::Command::Advise(args) => advise::advise(&args),
        args::Command::Leaks(args) => leaks::leaks(&args),
    };
    Outcome::Exit(finished(said))
}

/// Prints what was said; the exit status.
fn finished(said: anyhow::Result<Said>) -> ExitStatus {
    match said {
        Ok(said) => match (said.print(), said.objection) {
            (ExitStatus::Done, Some(objection)) => output::failure(&objection),
            (status, _) => {
                output::hint(said.hint.as_deref());
                status
            }
        },
        Err(error) => output::failure(&error),
    }
}
