//! `floodmark fit`: the largest values with which a program fits on a simulated GPU.
//!
//! Each try is an estimate in a process of its own ([`crate::tries`]): CUDA, also a simulated one, begins once in
//! a process. The search itself is `floodmark_profiles::frontier_that_fits`.

mod answer;
mod answer_text;

use std::ffi::OsStr;
use std::time::Instant;

use floodmark_profiles::{Dimension, FitLimits, Point, frontier_that_fits};
use floodmark_trace::Bytes;

use crate::args::{FitArgs, VariedValue};
pub(crate) use crate::fit::answer::Fit;
use crate::fit::answer::{Try, fit_of, objective_of};
use crate::in_parallel::in_parallel;
use crate::requests::estimate::{EstimateRequest, machine};
use crate::requests::run;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Failure, Problem, Result};
use crate::text::{output, stdout_style};
use crate::tries::{self, Estimates, Question, VariedProgram, text};

pub(crate) fn fit(args: &FitArgs, python: &OsStr) -> Result<CommandOutput> {
    let machine = machine(&args.phantom)?;
    run::target("estimate", args.program.clone())?;
    varied(args).check_names()?;
    check_objective(args)?;
    let dimensions = dimensions(&args.vary);
    let limits = FitLimits {
        capacity: Bytes(machine.profile.memory),
        jobs: tries::jobs(args.jobs),
        looks_further: true,
    };
    let estimates = Estimates::new(&args.program, python, args.no_cache, limits.jobs)?;
    let mut is_first = true;
    let found = frontier_that_fits(&dimensions, limits, |points| {
        // The first try alone says what is imported; the others are then faster.
        let alone = usize::from(std::mem::take(&mut is_first));
        let mut tried = Vec::new();
        for (jobs, points) in [(1, &points[..alone]), (limits.jobs, &points[alone..])] {
            if points.is_empty() {
                continue;
            }
            if jobs > 1 || alone == 0 {
                estimates.warm_up();
            }
            let one = |point: &Point| attempt(args, &estimates, &values_at(&dimensions, point));
            let batch = in_parallel(jobs, points, one, |_| {});
            let batch = batch.into_iter().collect::<Result<Vec<_>>>()?;
            for outcome in &batch {
                say(args, outcome);
            }
            tried.extend(batch);
        }
        Ok::<_, Failure>(tried)
    })?;
    let found = fit_of(args, &machine, &dimensions, &found)?;
    let shown = if args.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else {
        stdout_style::show(&found)
    };
    let nothing = || {
        let first: Point = vec![0; dimensions.len()];
        Problem::NothingFits { values: named(args, &values_at(&dimensions, &first)) }
    };
    let failure = found.best.is_none().then(|| Failure::from(nothing()));
    Ok(CommandOutput { failure, ..shown.into() })
}

fn say(args: &FitArgs, outcome: &Try) {
    let fits = if outcome.fits { "fits" } else { "does not fit" };
    let Try { values, peak_allocated, peak_reserved, seconds, .. } = outcome;
    let named = named(args, values);
    let when = match outcome.from_earlier_run {
        Some(at) => format!("from an earlier run, {}", text::utc(at)),
        None => format!("{seconds:.1} s"),
    };
    output::note(&format!(
        "{named} {fits}: {peak_allocated} allocated, {peak_reserved} reserved, {when}\n"
    ));
}

/// A list keeps its order among others; alone it is searched like a range.
fn dimensions(varied: &[VariedValue]) -> Vec<Dimension> {
    let one = |varied: &VariedValue| Dimension {
        values: varied.values.clone(),
        is_range: varied.is_range,
    };
    let mut all: Vec<Dimension> = varied.iter().map(one).collect();
    if let [alone] = &mut all[..] {
        alone.values.sort_unstable();
        alone.is_range = true;
    }
    all
}

fn values_at(dimensions: &[Dimension], point: &[usize]) -> Vec<u64> {
    point.iter().zip(dimensions).map(|(&at, one)| one.values[at]).collect()
}

/// `BATCH = 8, SEQ = 1024`.
fn named(args: &FitArgs, values: &[u64]) -> String {
    let one = |(varied, value): (&VariedValue, &u64)| format!("{} = {value}", varied.name);
    args.vary.iter().zip(values).map(one).collect::<Vec<_>>().join(", ")
}

/// The objective knows the names that are varied, and no others.
fn check_objective(args: &FitArgs) -> Result<()> {
    if let Some(objective) = &args.objective {
        let first: Vec<u64> = args.vary.iter().map(|varied| varied.values[0]).collect();
        objective_of(args, objective, &first).context("Failed to read `--objective`")?;
    }
    Ok(())
}

fn varied(args: &FitArgs) -> VariedProgram<'_> {
    VariedProgram { vary: &args.vary, program: &args.program, environment: &args.environment }
}

/// One try.
fn attempt(args: &FitArgs, estimates: &Estimates<'_>, values: &[u64]) -> Result<Try> {
    let began = Instant::now();
    let answer = estimates.ask(&question(args, values)?)?;
    let values_named = || named(args, values);
    if answer.is_empty() {
        return Err(Failure::from(Problem::NothingOnGpu { values: values_named() }));
    }
    let failed = || {
        let reason = answer.why_unknown.clone();
        let values = values_named();
        if answer.is_incomplete() {
            return Failure::from(Problem::TryIncomplete { values, reason });
        }
        let tail = if reason.starts_with('\n') { reason } else { format!(": {reason}") };
        Failure::from(Problem::TryFailed { values, tail })
    };
    Ok(Try {
        value: values[0],
        values: values.to_vec(),
        fits: answer.fits.ok_or_else(failed)?,
        peak_allocated: answer.peak_allocated,
        peak_reserved: answer.peak_reserved,
        needed: answer.needed,
        steps: answer.steps,
        ended: answer.ended,
        step_peaks: answer.step_peaks,
        from_earlier_run: answer.earlier,
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn question(args: &FitArgs, values: &[u64]) -> Result<Question> {
    let (program, environment) = varied(args).with(values);
    Ok(Question { request: EstimateRequest::of_try(&args.phantom, program)?, environment })
}
