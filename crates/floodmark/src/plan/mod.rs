//! `floodmark plan`: the cheapest changes with which a program fits on a simulated GPU.
//!
//! Each try is an estimate in a process of its own, with more memory than any GPU has, so that what it needs is known
//! in full. Where the allocated bytes fit and the reserved ones do not, a second run with the memory of the GPU
//! decides: torch frees cached blocks before it gives up. The search itself is `floodmark_profiles::cheapest_that_fits`.

mod answer;
mod arguments;
mod model;
mod next_steps;
pub(crate) mod patch;
mod stored;
mod text;
mod tries;

use std::ffi::OsStr;
use std::process::Command;

use floodmark_profiles::{Allowed, PlanSearch, TryOutcome, cheapest_that_fits};
use floodmark_trace::Bytes;

use crate::args::PlanArgs;
pub(crate) use crate::plan::answer::Plan;
use crate::plan::answer::plan_of;
use crate::plan::next_steps::next_steps;
use crate::plan::patch::run_words;
use crate::plan::tries::Tries;
use crate::requests::estimate::machine;
use crate::requests::run;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Failure, Problem, Result};
use crate::text::stdout_style;

/// The output of `floodmark plan`, and with `--run` the command that runs the program with the plan.
pub(crate) struct PlanOutcome {
    pub(crate) output: CommandOutput,
    pub(crate) run: Option<Command>,
}

pub(crate) fn plan(args: &PlanArgs, python: &OsStr) -> Result<PlanOutcome> {
    let machine = machine(&args.phantom)?;
    run::target("estimate", args.program.clone())?;
    arguments::varied(args).check_names()?;
    stored::check_output(args)?;
    let mut tries = Tries::new(args, &machine, python)?;
    let capacity = Bytes(machine.profile.memory);
    let allowed = Allowed {
        gpus: args.shard_over.unwrap_or(1),
        compile: args.compile,
        arguments: arguments::other_values(args),
    };
    let jobs = tries.jobs();
    let search = cheapest_that_fits(capacity, &allowed, jobs, |batch| tries.attempt(batch))?;
    tries.check_program()?;
    let is_proven = match &search.plan {
        Some(changes) => tries.prove(changes).context("Failed to run the program with the plan")?,
        None => false,
    };
    let is_over = search.tried.values().any(|outcome| *outcome == TryOutcome::NotTried);
    let next_steps = if search.plan.is_none() && !is_over {
        next_steps(&mut tries, &machine.profile).context("Failed to try what would fit")?
    } else {
        Vec::new()
    };
    let found = plan_of(args, &machine, &tries, &search, is_proven, next_steps);
    if let Some(output) = &args.output {
        stored::write(&found, &tries.unchanged_trace(), output, args.force)?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else {
        stdout_style::show(&found)
    };
    let output = CommandOutput { failure: failure(&found, &search), ..text.into() };
    let run = search.plan.as_ref().filter(|_| args.run).map(|changes| {
        let mut command = Command::new(python);
        command.args(["-m", "floodmark"]).args(run_words(args, changes));
        let variables = arguments::program_with(args, changes).1;
        command.envs(variables.into_iter().map(|setting| (setting.key, setting.value)));
        command
    });
    Ok(PlanOutcome { output, run })
}

/// Why the exit status is not 0 although there is an answer.
fn failure(found: &Plan, search: &PlanSearch) -> Option<Failure> {
    let problem = match &search.plan {
        Some(_) if found.is_proven => return None,
        Some(_) => Problem::PlanNotProven,
        None if !found.not_tried.is_empty() => Problem::OutOfTime,
        None => Problem::NoPlan { floor: found.floor.to_string() },
    };
    Some(problem.into())
}
