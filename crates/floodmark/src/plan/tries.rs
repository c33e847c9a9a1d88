//! The tries of a plan: estimates in processes of their own, several at a time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use floodmark_profiles::{
    Change, Checkpointed, Combination, GpuProfile, Need, PhantomMachine, Rates, StepTime,
    TryOutcome,
};
use floodmark_trace::{AppliedChange, Bytes, Numerics, StepCost};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{PhantomArgs, PlanArgs};
use crate::in_parallel::in_parallel;
use crate::plan::arguments::program_with;
use crate::plan::model::peak_model;
use crate::requests::estimate::EstimateRequest;
use crate::text::failure::{Context, Problem, Result};
use crate::text::progress::Progress;
use crate::tries::{self, Estimates, Question, TryAnswer};

/// The memory of a GPU on which everything fits, so that what a program needs is known in full.
const PLENTY: u64 = 1 << 40;

/// A try and what it costs.
#[derive(Debug, Clone)]
pub(super) struct Try {
    pub(super) answer: TryAnswer,
    pub(super) fits: bool,
    /// The run on the GPU itself, where it fits there because torch frees cached blocks.
    pub(super) on_gpu: Option<TryAnswer>,
    /// What a step computes; none where it was not counted.
    pub(super) cost: Option<StepCost>,
}

/// How an estimate is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
    /// The memory it needs, on a GPU with plenty.
    Need,
    /// Whether it fits on the GPU.
    Verdict,
    /// What a step computes.
    Cost,
}

/// A run of the program that this command made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PlanRun {
    /// The changes, as behind `--with`.
    changes: Vec<String>,
    /// What it was for.
    asked: Asked,
    /// How long it took, beside those that ran at the same time.
    seconds: f64,
}

/// Runs tries, and remembers them.
pub(super) struct Tries<'a> {
    args: &'a PlanArgs,
    estimates: Estimates<'a>,
    /// How many tries run at a time.
    jobs: usize,
    capacity: Bytes,
    /// Why changes to bf16 are not tried; none where the GPU has it.
    lacks_bf16: Option<String>,
    rates: Option<Rates>,
    until: Option<Instant>,
    done: BTreeMap<Combination, Try>,
    /// Every run that this command made, in the order of their ends.
    runs: Mutex<Vec<PlanRun>>,
    /// Why the program cannot be planned for.
    problem: Option<Problem>,
}

impl<'a> Tries<'a> {
    pub(super) fn new(
        args: &'a PlanArgs,
        machine: &PhantomMachine,
        python: &'a OsStr,
    ) -> Result<Self> {
        let jobs = tries::jobs(args.jobs);
        Ok(Self {
            args,
            estimates: Estimates::new(&args.program, python, args.no_cache, jobs)?,
            jobs,
            capacity: Bytes(machine.profile.memory),
            lacks_bf16: (!machine.profile.has_bf16()).then(|| {
                let GpuProfile { name, capability, .. } = &machine.profile;
                format!("{name} (compute capability {capability}) has no bf16")
            }),
            rates: machine.profile.rates.clone(),
            until: args.budget.map(|budget| Instant::now() + budget),
            done: BTreeMap::new(),
            runs: Mutex::default(),
            problem: None,
        })
    }

    /// How many tries run at a time.
    pub(super) fn jobs(&self) -> usize {
        self.jobs
    }

    /// Tries combinations, several at a time.
    pub(super) fn attempt(&mut self, batch: &[Combination]) -> Result<Vec<TryOutcome>> {
        let what = match batch {
            [one] => named(one),
            _ => format!("{} combinations of changes", batch.len()),
        };
        if batch != [Combination::new()] {
            self.estimates.warm_up();
        }
        let progress = Progress::new(&format!("Trying {what}"), batch.len() as u64);
        let tried = in_parallel(
            self.jobs,
            batch,
            |combination| match self.not_for_this_gpu(combination) {
                Some(_) => Ok(None),
                None => self.one(combination),
            },
            |done| progress.at(done as u64),
        )
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
        self.measure_unchanged_again();
        let outcomes = batch
            .iter()
            .zip(tried)
            .map(|(combination, tried)| match self.not_for_this_gpu(combination) {
                Some(reason) => TryOutcome::LeftOut(reason.to_owned()),
                None => self.outcome(combination, tried),
            })
            .collect();
        Ok(outcomes)
    }

    /// Why a combination cannot be for the GPU.
    fn not_for_this_gpu(&self, combination: &Combination) -> Option<&str> {
        self.lacks_bf16.as_deref().filter(|_| combination.iter().any(Change::needs_bf16))
    }

    /// Takes the time of the unchanged program as it was measured among the others: the first try had the machine to
    /// itself.
    fn measure_unchanged_again(&mut self) {
        let Some(again) = self.estimates.take_repeated() else { return };
        // What is repeated is the first try of this process: another one where the unchanged program was known.
        if let Some(unchanged) = self.done.get_mut(&Combination::new())
            && again.cost.is_some()
            && again.is_of_the_program_of(&unchanged.answer)
        {
            unchanged.cost.clone_from(&again.cost);
            unchanged.answer = again;
            if let Ok(question) = self.question(&Combination::new(), Asked::Need) {
                self.estimates.replace(&question, &self.done[&Combination::new()].answer);
            }
        }
    }

    /// One combination: what it needs, whether it fits, and what it costs.
    fn one(&self, combination: &Combination) -> Result<Option<Try>> {
        let Some(answer) = self.ask(combination, Asked::Need)? else { return Ok(None) };
        let is_known = answer.fits == Some(true);
        let mut fits = is_known && answer.needed <= self.capacity;
        let mut on_gpu = None;
        if is_known && !fits && answer.least <= self.capacity {
            let verdict = self.ask(combination, Asked::Verdict)?;
            on_gpu = verdict.filter(|verdict| verdict.fits == Some(true));
            fits = on_gpu.is_some();
        }
        // What saves nothing is no part of a plan, and its cost is of no interest.
        let unchanged = self.done.get(&Combination::new()).map(|done| done.answer.needed);
        let saves = unchanged.map_or(!fits, |unchanged| answer.needed < unchanged);
        let mut cost = answer.cost.clone();
        let is_counted = cost.is_some() || !is_countable(combination);
        // A program that makes no further step is counted in a run of its own.
        let is_of_interest = combination.len() < 2 || fits;
        if !is_counted && is_known && saves && is_of_interest {
            cost = self.ask(combination, Asked::Cost)?.and_then(|answer| answer.cost);
        }
        Ok(Some(Try { answer, fits, on_gpu, cost }))
    }

    /// An estimate, from the cache or from a process; none where there is no time left.
    fn ask(&self, combination: &Combination, asked: Asked) -> Result<Option<TryAnswer>> {
        let question = self.question(combination, asked)?;
        if asked == Asked::Need && combination.is_empty() && self.args.output.is_some() {
            return self.run(combination, asked, || self.estimates.record(&question));
        }
        self.answer(combination, asked, &question)
    }

    /// The answer to a question, from the cache or from a process; none where there is no time left.
    fn answer(
        &self,
        combination: &Combination,
        asked: Asked,
        question: &Question,
    ) -> Result<Option<TryAnswer>> {
        if let Some(known) = self.estimates.known(question) {
            return Ok(Some(known));
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
        self.run(combination, asked, || self.estimates.ask(question))
    }

    /// Runs the program, and notes how long that took.
    fn run(
        &self,
        combination: &Combination,
        asked: Asked,
        run: impl FnOnce() -> Result<TryAnswer>,
    ) -> Result<Option<TryAnswer>> {
        let began = Instant::now();
        let answer = run()?;
        let seconds = began.elapsed().as_secs_f64();
        let changes = combination.iter().map(ToString::to_string).collect();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push(PlanRun { changes, asked, seconds });
        Ok(Some(answer))
    }

    /// Every run that this command made.
    pub(super) fn runs(&self) -> Vec<PlanRun> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why every try is a new process, or why runs of the program differ; none where neither is so.
    pub(super) fn note(&self) -> Option<String> {
        self.estimates.note()
    }

    fn question(&self, combination: &Combination, asked: Asked) -> Result<Question> {
        let memory = if asked == Asked::Verdict { self.capacity.0 } else { PLENTY };
        let given = PhantomArgs { memory: Some(memory), ..self.args.phantom.clone() };
        self.question_on(&given, combination, asked)
    }

    /// The question for a GPU.
    fn question_on(
        &self,
        given: &PhantomArgs,
        combination: &Combination,
        asked: Asked,
    ) -> Result<Question> {
        let changes = combination.iter().filter(|change| !change.is_argument());
        let phantom = PhantomArgs {
            changes: given.changes.iter().chain(changes).cloned().collect(),
            ..given.clone()
        };
        let (program, environment) = program_with(self.args, combination);
        let request = EstimateRequest {
            counts_operators: asked == Asked::Cost,
            measures_step: asked == Asked::Need && is_countable(combination),
            ..EstimateRequest::of_try(&phantom, program)?
        };
        Ok(Question { request, environment })
    }

    fn outcome(&mut self, combination: &Combination, tried: Option<Try>) -> TryOutcome {
        let Some(tried) = tried else { return TryOutcome::NotTried };
        if let Some(reason) = self.left_out(combination, &tried) {
            return TryOutcome::LeftOut(reason);
        }
        let mut tried = tried;
        let not_applied = take_not_applied(&mut tried.answer.changes, combination);
        let is_applied = |change: &&Change| not_applied.iter().all(|(other, _)| other != *change);
        // Those that found nothing to apply to changed nothing: it is a try of the others.
        let ran: Combination = combination.iter().filter(is_applied).cloned().collect();
        let applied = &tried.answer.changes;
        let need = Need {
            needed: tried.answer.needed,
            fits: tried.fits,
            slows: slows(&ran, applied),
            numerics: numerics(&ran, applied),
            blocks: applied.iter().find_map(|change| change.blocks),
            slow_down: 1.0,
            gpus: ran.iter().map(Change::gpus).max().unwrap_or(1),
            not_applied,
            best_settings: tried.answer.best_settings.clone(),
            model: peak_model(&tried.answer, self.rates.as_ref()),
        };
        self.done.entry(ran.clone()).or_insert(tried);
        let slow_down = self.slow_down(&ran).unwrap_or(1.0);
        TryOutcome::Ran(Need { slow_down, ..need })
    }

    /// Why a combination is no candidate.
    fn left_out(&mut self, combination: &Combination, tried: &Try) -> Option<String> {
        let answer = &tried.answer;
        if answer.fits != Some(true) {
            let is_empty = answer.is_empty();
            if combination.is_empty() {
                let error = answer.error.clone();
                self.problem = Some(if is_empty {
                    Problem::PlanOfNothing
                } else if answer.is_incomplete() {
                    Problem::PlanIncomplete { reason: answer.why_unknown.clone() }
                } else {
                    Problem::PlanOfFailure { error }
                });
            }
            if answer.is_incomplete() {
                return Some(format!("what it needs is unknown: {}", answer.why_unknown.clone()));
            }
            let error = answer.error.lines().last().unwrap_or_default().trim();
            let cause = if error.is_empty() { String::new() } else { format!(": {error}") };
            return Some(format!("the program fails with it{cause}"));
        }
        None
    }

    /// Whether the program itself could be planned for.
    pub(super) fn check_program(&mut self) -> Result<()> {
        match self.problem.take() {
            Some(problem) => Err(problem).context("Failed to plan for the program"),
            None => Ok(()),
        }
    }

    /// Whether the program with these changes fits on the GPU itself.
    pub(super) fn prove(&self, combination: &Combination) -> Result<bool> {
        let answer = self.ask(combination, Asked::Verdict)?;
        Ok(answer.is_some_and(|answer| answer.fits == Some(true)))
    }

    /// Whether the program with these changes fits on another GPU.
    pub(super) fn prove_on(&self, combination: &Combination, gpu: &str) -> Result<bool> {
        let other = PhantomArgs { gpu: gpu.to_owned(), memory: None, ..self.args.phantom.clone() };
        let question = self.question_on(&other, combination, Asked::Verdict)?;
        let answer = self.answer(combination, Asked::Verdict, &question)?;
        Ok(answer.is_some_and(|answer| answer.fits == Some(true)))
    }

    /// Where the trace of the unchanged program lies, if one is wanted.
    pub(super) fn unchanged_trace(&self) -> PathBuf {
        self.estimates.kept_trace()
    }

    /// Every try that ran.
    pub(super) fn done(&self) -> &BTreeMap<Combination, Try> {
        &self.done
    }

    /// The time of a step, where it was measured.
    pub(super) fn step_time(&self, combination: &Combination) -> Option<StepTime> {
        self.time_of(self.done.get(combination)?.cost.as_ref()?)
    }

    fn time_of(&self, cost: &StepCost) -> Option<StepTime> {
        let unchanged = self.done.get::<[Change]>(&[]).and_then(|tried| tried.cost.as_ref());
        self.rates.as_ref().map(|rates| rates.step_time(cost, unchanged))
    }

    /// The time of a step as a multiple of an unchanged one. Where it was not measured, that of several changes is the
    /// product of theirs, and that of some blocks is in proportion to that of all.
    pub(super) fn slow_down(&self, combination: &Combination) -> Option<f64> {
        self.multiple(combination, &|cost| self.time_of(cost).map(|time| time.seconds()))
    }

    /// The floating-point operations of a step as a multiple of an unchanged one.
    pub(super) fn compute(&self, combination: &Combination) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than 53 bits")]
        self.multiple(combination, &|cost| Some(floodmark_profiles::flops(cost) as f64))
    }

    fn multiple(
        &self,
        combination: &Combination,
        of: &dyn Fn(&StepCost) -> Option<f64>,
    ) -> Option<f64> {
        let cost = |changes: &[Change]| of(self.done.get(changes)?.cost.as_ref()?);
        let unchanged = cost(&[]).filter(|cost| *cost > 0.0)?;
        if let Some(own) = cost(combination) {
            return Some(own / unchanged);
        }
        let mut product = 1.0;
        for change in combination {
            product *= match change {
                Change::Checkpoint(Checkpointed::Blocks(count)) => {
                    let all = [Change::Checkpoint(Checkpointed::All)];
                    let mut blocks = self.done.get(&all[..])?.answer.changes.iter();
                    let total = blocks.find_map(|change| change.blocks)?;
                    let share = f64::from(*count) / f64::from(total.max(1));
                    1.0 + (cost(&all)? / unchanged - 1.0) * share
                }
                Change::Allocator(_)
                | Change::Fused
                | Change::ForeachOff
                | Change::FreeGradients
                | Change::ChunkedLoss(_)
                | Change::SdpaAttention
                | Change::Checkpoint(Checkpointed::All | Checkpointed::Selective)
                | Change::OptimizerInBackward(_)
                | Change::OffloadOptimizerStates
                | Change::OffloadActivations(_)
                | Change::Compile
                | Change::Fsdp(_)
                | Change::Autocast(_)
                | Change::EightBitStates(_)
                | Change::Bf16Parameters
                | Change::NoGrad
                | Change::LogitsToKeep(_)
                | Change::KvCache(_)
                | Change::ChannelsLast
                | Change::Embeddings(_)
                | Change::ChunkedMlp(_)
                | Change::MicroBatches(_)
                | Change::Optimizer(_)
                | Change::Adapters(_)
                | Change::Argument { .. } => cost(std::slice::from_ref(change))? / unchanged,
            };
        }
        Some(product)
    }
}

/// Takes those changes of a combination out that found nothing to apply to, with the reasons.
fn take_not_applied(
    applied: &mut Vec<AppliedChange>,
    combination: &Combination,
) -> Vec<(Change, String)> {
    let mut found = Vec::new();
    applied.retain(|one| {
        let change = combination.iter().find(|change| change.to_string() == one.change);
        match change.filter(|_| !one.is_applied()) {
            Some(change) => found.push((change.clone(), one.reason.clone())),
            None => return true,
        }
        false
    });
    found
}

/// Whether a change may slow the program down. What another value of an argument does is known to the program alone.
pub(super) fn slows(combination: &Combination, applied: &[AppliedChange]) -> bool {
    applied.iter().any(|change| change.slows) || combination.iter().any(Change::is_argument)
}

/// What the changes do to the results. Another value of an argument does the same work in another order.
pub(super) fn numerics(combination: &Combination, applied: &[AppliedChange]) -> Numerics {
    let of_arguments = if combination.iter().any(Change::is_argument) {
        Numerics::Rounding
    } else {
        Numerics::Same
    };
    applied.iter().map(|change| change.numerics).fold(of_arguments, Numerics::max)
}

/// Whether the operators of a step with these changes can be counted.
fn is_countable(combination: &[Change]) -> bool {
    combination.iter().all(Change::has_countable_steps)
}

/// `fused + checkpoint=12`.
pub(super) fn named(combination: &[Change]) -> String {
    if combination.is_empty() {
        return "the program as it is".to_owned();
    }
    combination.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
}
