//! The answer of `floodmark plan`.

use floodmark_profiles::{Change, Combination, Outcome, PhantomMachine, PlanSearch, host_bytes};
use floodmark_trace::{AppliedChange, Bytes, Numerics};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::args::PlanArgs;
use crate::commands::plan::patch::{patch_of, run_command};
use crate::commands::plan::tries::{Tries, Try, named};
use crate::commands::tries::TryCause;

/// What to change so that a program fits on a simulated GPU.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "`plan` is the key in the JSON")]
pub(crate) struct Plan {
    /// The version of floodmark that wrote the answer.
    floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    format: u32,
    /// The name of the GPU.
    pub(super) gpu: String,
    /// Its memory.
    pub(super) capacity: Bytes,
    /// The program as it is.
    pub(super) unchanged: Option<PlanTry>,
    /// What fills its peak, by what could be changed: the largest cause first.
    pub(super) causes: Vec<PlanCause>,
    /// The cheapest changes with which it fits, none for a program that fits as it is; null where nothing fits.
    pub(super) plan: Option<PlanTry>,
    /// Whether the program was run with the plan on the GPU itself, and every allocation succeeded.
    pub(super) is_proven: bool,
    /// Plain torch code that does what the plan does; empty without a plan.
    pub(super) patch: String,
    /// A command that runs the program with the plan, without editing it; empty without a plan.
    pub(super) command: String,
    /// The least memory of all tries.
    pub(super) floor: Bytes,
    /// The try that needs the least.
    pub(super) floor_try: Option<PlanTry>,
    /// What remains at its peak: the largest cause first.
    pub(super) floor_causes: Vec<PlanCause>,
    /// Every try, the largest need first.
    pub(super) tries: Vec<PlanTry>,
    /// Changes that are no candidates.
    pub(super) left_out: Vec<LeftOut>,
    /// Combinations for which there was no time.
    pub(super) not_tried: Vec<String>,
    /// How many rows the text shows; 0 for all.
    #[serde(skip)]
    pub(super) top: usize,
}

/// One combination of changes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanTry {
    /// The changes, as behind `--with`.
    pub(super) changes: Vec<String>,
    /// What each was applied to.
    pub(super) targets: Vec<String>,
    /// The most that torch had allocated.
    pub(super) peak_allocated: Bytes,
    /// The most that torch had reserved, where memory is plenty.
    pub(super) peak_reserved: Bytes,
    /// What it needs with the CUDA context, where memory is plenty.
    pub(super) needed: Bytes,
    /// Whether it fits.
    pub(super) fits: bool,
    /// Whether a change may slow it down.
    pub(super) slows: bool,
    /// What the changes do to the results.
    pub(super) numerics: Numerics,
    /// The floating-point operations of a step, as a multiple of those without changes; null where unknown.
    pub(super) compute: Option<f64>,
    /// The estimated time of a step, as a multiple of that without changes; null where unknown.
    pub(super) slow_down: Option<f64>,
    /// The bytes of a step that pass between host and device; null where they were not counted.
    pub(super) host_bytes: Option<u64>,
    /// How many GPUs it takes: each needs this memory.
    pub(super) gpus: u32,
    /// Whether no other try needs less memory without more time or more GPUs.
    pub(super) is_best: bool,
}

/// A part of what fills the peak.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanCause {
    /// What it is, in words.
    pub(super) name: String,
    /// Its bytes.
    pub(super) bytes: Bytes,
    /// The location with the most bytes of it.
    pub(super) location: Option<String>,
}

/// A change that is no candidate.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// The changes, as behind `--with`.
    pub(super) changes: String,
    /// Why.
    pub(super) reason: String,
}

pub(super) fn plan_of(
    args: &PlanArgs,
    machine: &PhantomMachine,
    tries: &Tries<'_>,
    search: &PlanSearch,
    is_proven: bool,
) -> Plan {
    let mut rows: Vec<(&Combination, PlanTry)> =
        tries.done().iter().map(|(changes, done)| (changes, row(tries, changes, done))).collect();
    mark_best(&mut rows);
    let find = |wanted: &Combination| {
        rows.iter().find(|(changes, _)| *changes == wanted).map(|(_, row)| row.clone())
    };
    let applied = |changes: &Combination| -> Vec<AppliedChange> {
        tries.done().get(changes).map(|done| done.answer.changes.clone()).unwrap_or_default()
    };
    let causes = |changes: &Combination| -> Vec<PlanCause> {
        let cause = |cause: &TryCause| PlanCause {
            name: cause.name.clone(),
            bytes: cause.bytes,
            location: cause.location.clone(),
        };
        let done = tries.done().get(changes);
        done.map_or_else(Vec::new, |done| done.answer.causes().iter().map(cause).collect())
    };
    let floor = rows.iter().min_by_key(|(changes, row)| (row.needed, changes.len()));
    let changes = search.plan.as_ref();
    let mut shown: Vec<PlanTry> = rows.iter().map(|(_, row)| row.clone()).collect();
    shown.sort_by(|a, b| (b.needed, &a.changes).cmp(&(a.needed, &b.changes)));
    Plan {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: floodmark_analysis::FORMAT,
        gpu: machine.profile.name.clone(),
        capacity: Bytes(machine.profile.memory),
        unchanged: find(&Combination::new()),
        causes: causes(&Combination::new()),
        plan: changes.and_then(find),
        is_proven,
        patch: changes.map_or_else(String::new, |changes| patch_of(&applied(changes))),
        command: changes.map_or_else(String::new, |changes| run_command(args, changes)),
        floor: floor.map(|(_, row)| row.needed).unwrap_or_default(),
        floor_try: floor.map(|(_, row)| row.clone()),
        floor_causes: floor.map_or_else(Vec::new, |(changes, _)| causes(changes)),
        tries: shown,
        left_out: left_out(search),
        not_tried: not_tried(search),
        top: args.top,
    }
}

fn row(tries: &Tries<'_>, changes: &Combination, done: &Try) -> PlanTry {
    let applied = &done.answer.changes;
    PlanTry {
        changes: changes.iter().map(ToString::to_string).collect(),
        targets: applied.iter().map(|change| change.target.clone()).collect(),
        peak_allocated: done.answer.peak_allocated,
        peak_reserved: done.answer.peak_reserved,
        needed: done.answer.needed(),
        fits: done.fits,
        slows: applied.iter().any(|change| change.slows),
        numerics: applied.iter().map(|change| change.numerics).max().unwrap_or_default(),
        compute: tries.compute(changes),
        slow_down: tries.slow_down(changes),
        host_bytes: done.cost.as_ref().map(host_bytes),
        gpus: changes.iter().map(Change::gpus).max().unwrap_or(1),
        is_best: false,
    }
}

/// Marks the tries that no other one beats in memory without being worse in time, GPUs or results.
fn mark_best(rows: &mut [(&Combination, PlanTry)]) {
    let all: Vec<PlanTry> = rows.iter().map(|(_, row)| row.clone()).collect();
    let time =
        |row: &PlanTry| row.slow_down.or(row.compute).unwrap_or(if row.slows { 2.0 } else { 1.0 });
    for (_, row) in rows {
        let beats = |other: &PlanTry| {
            let is_no_worse = other.needed <= row.needed
                && time(other) <= time(row)
                && other.gpus <= row.gpus
                && other.numerics <= row.numerics;
            let is_better = other.needed < row.needed
                || time(other) < time(row)
                || other.gpus < row.gpus
                || other.numerics < row.numerics;
            is_no_worse && is_better
        };
        row.is_best = !all.iter().any(beats);
    }
}

fn left_out(search: &PlanSearch) -> Vec<LeftOut> {
    let reason = |(changes, outcome): (&Vec<Change>, &Outcome)| match outcome {
        Outcome::LeftOut(reason) => {
            Some(LeftOut { changes: named(changes), reason: reason.clone() })
        }
        Outcome::Ran(_) | Outcome::NotTried => None,
    };
    search.tried.iter().filter_map(reason).collect()
}

fn not_tried(search: &PlanSearch) -> Vec<String> {
    let not_tried = search.tried.iter().filter(|(_, outcome)| **outcome == Outcome::NotTried);
    not_tried.map(|(changes, _)| named(changes)).collect()
}
