//! The answer of `floodmark plan`.

use floodmark_analysis::{Cause, StepPeaks};
use floodmark_profiles::{
    Change, Combination, PhantomMachine, PlanSearch, StepTime, TryOutcome, host_bytes,
};
use floodmark_trace::{AppliedChange, Bytes, Numerics, PhantomEnd, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::PlanArgs;
use crate::plan::next_steps::NextStep;
use crate::plan::patch::{patch_of, run_command};
use crate::plan::tries::{PlanRun, Tries, Try, named, numerics, slows};

/// The name under which a trace has the answer.
pub(super) const STORED_AS: &str = "plan";

/// What to change so that a program fits on a simulated GPU.
///
/// A trace may have one that an older floodmark wrote, so every field may be missing.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "`plan` is the key in the JSON")]
pub(crate) struct Plan {
    /// The version of floodmark that wrote the answer.
    floodmark: String,
    /// The version of this JSON: it changes when a field changes its meaning.
    format: u32,
    /// The name of the GPU.
    pub(super) gpu: String,
    /// Its memory.
    pub(super) capacity: Bytes,
    /// The program as it is.
    pub(super) unchanged: Option<PlanTry>,
    /// What fills its peak, by what could be changed: the largest cause first.
    pub(super) causes: Vec<Cause>,
    /// The cheapest changes with which it fits, none for a program that fits as it is; null where nothing fits.
    pub(super) plan: Option<PlanTry>,
    /// Whether the program was run with the plan on the GPU itself, and every allocation succeeded.
    pub(super) is_proven: bool,
    /// The changes of the plan, with what each of them costs.
    pub(super) changes: Vec<PlanChange>,
    /// Plain torch code that does what the plan does; empty without a plan.
    pub(super) patch: String,
    /// A command that runs the program with the plan, without editing it; empty without a plan.
    pub(super) command: String,
    /// The least memory of all tries.
    pub(super) floor: Bytes,
    /// The try that needs the least.
    pub(super) floor_try: Option<PlanTry>,
    /// What remains at its peak: the largest cause first.
    pub(super) floor_causes: Vec<Cause>,
    /// Where nothing fits: what does, as tried. A larger GPU, or more of them.
    pub(super) next_steps: Vec<NextStep>,
    /// Every try, the largest need first.
    pub(super) tries: Vec<PlanTry>,
    /// Changes that are no candidates.
    pub(super) left_out: Vec<LeftOut>,
    /// Combinations for which there was no time.
    pub(super) not_tried: Vec<String>,
    /// Every run of the program that this command made, with its time; the proof of the plan is one of them.
    pub(super) runs: Vec<PlanRun>,
    /// Why every try is a new process, which takes longer, or why figures of tries may differ by chance; null where
    /// neither is so.
    pub(super) tries_note: Option<String>,
    /// How many rows the text shows; 0 for all.
    #[serde(skip)]
    pub(super) top: usize,
}

/// One change of the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PlanChange {
    /// As behind `--with`.
    pub(super) change: String,
    /// What it was applied to.
    pub(super) target: String,
    /// The bytes that it saves alone; null where it was not tried alone.
    pub(super) saves: Option<Bytes>,
    /// Whether it may slow the program down.
    pub(super) slows: bool,
    /// What it does to the results.
    pub(super) numerics: Numerics,
    /// The floating-point operations of a step with it alone, as a multiple of those without; null where unknown.
    pub(super) compute: Option<f64>,
    /// The estimated time of a step with it alone, as a multiple of that without; null where unknown.
    pub(super) slow_down: Option<f64>,
}

/// One combination of changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own in the JSON")]
pub(crate) struct PlanTry {
    /// The changes, as behind `--with`.
    pub(super) changes: Vec<String>,
    /// What each was applied to.
    pub(super) targets: Vec<String>,
    /// The most that torch had allocated.
    pub(super) peak_allocated: Bytes,
    /// The most that torch had reserved: where memory is plenty, or on the GPU itself where it fits there alone.
    pub(super) peak_reserved: Bytes,
    /// What it needs with the CUDA context, likewise.
    pub(super) needed: Bytes,
    /// Whether it fits.
    pub(super) fits: bool,
    /// Whether it fits because torch frees cached blocks, which it would keep where memory is plenty.
    pub(super) frees_cached_blocks: bool,
    /// How many steps ended.
    pub(super) steps: u32,
    /// How the program ended.
    pub(super) ended: PhantomEnd,
    /// Whether its last steps had the same peak; null where it ended by itself, or made too few steps.
    pub(super) step_peaks: Option<StepPeaks>,
    /// When it ran, where the answer is from an earlier run: seconds since 1970; null where it ran now.
    pub(super) from_earlier_run: Option<u64>,
    /// Whether a change may slow it down.
    pub(super) slows: bool,
    /// What the changes do to the results.
    pub(super) numerics: Numerics,
    /// The floating-point operations of a step, as a multiple of those without changes; null where unknown.
    pub(super) compute: Option<f64>,
    /// The estimated time of a step, as a multiple of that without changes; null where unknown.
    pub(super) slow_down: Option<f64>,
    /// The estimated time of a step on the GPU and on its host; null where it was not measured.
    pub(super) step_time: Option<StepTime>,
    /// Which of them a step waits for, as estimated; null where unknown.
    pub(super) limited_by: Option<StepLimit>,
    /// The bytes of a step that pass between host and device; null where they were not counted.
    pub(super) host_bytes: Option<u64>,
    /// How many GPUs it takes: each needs this memory.
    pub(super) gpus: u32,
    /// Whether no other try needs less memory without more time, more GPUs or a larger change of the results.
    pub(super) is_best: bool,
    /// Whether no other try needs less memory without more time, whatever becomes of the results: the points of the
    /// curve of memory against time. False where the time is unknown.
    pub(super) is_on_curve: bool,
}

/// What a step waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepLimit {
    /// The GPU computes all the time.
    Gpu,
    /// The GPU waits until the host has started the next operator.
    Host,
}

impl From<StepTime> for StepLimit {
    fn from(time: StepTime) -> Self {
        if time.is_limited_by_host() { Self::Host } else { Self::Gpu }
    }
}

impl PlanTry {
    /// The time of a step, or its operations where the GPU profile has no rates; none where neither was counted.
    fn cost(&self) -> Option<f64> {
        self.slow_down.or(self.compute)
    }
}

/// A change that is no candidate.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct LeftOut {
    /// The changes, as behind `--with`.
    pub(super) changes: String,
    /// Why.
    pub(super) reason: String,
}

impl Plan {
    /// The plan that a trace has, where it has one that can be read.
    pub(crate) fn stored_in(trace: &Trace) -> Option<Self> {
        serde_json::from_str(trace.answer(STORED_AS)?).ok()
    }
}

pub(super) fn plan_of(
    args: &PlanArgs,
    machine: &PhantomMachine,
    tries: &Tries<'_>,
    search: &PlanSearch,
    is_proven: bool,
    next_steps: Vec<NextStep>,
) -> Plan {
    let mut rows: Vec<(&Combination, PlanTry)> =
        tries.done().iter().map(|(changes, done)| (changes, row(tries, changes, done))).collect();
    mark_best(&mut rows);
    mark_curve(&mut rows);
    let find = |wanted: &Combination| {
        rows.iter().find(|(changes, _)| *changes == wanted).map(|(_, row)| row.clone())
    };
    let applied = |changes: &Combination| -> Vec<AppliedChange> {
        tries.done().get(changes).map(|done| done.answer.changes.clone()).unwrap_or_default()
    };
    let causes = |changes: &Combination| -> Vec<Cause> {
        let done = tries.done().get(changes);
        done.map_or_else(Vec::new, |done| done.answer.causes.clone())
    };
    // What takes more GPUs than are allowed is a next step.
    let allowed = args.shard_over.unwrap_or(1).max(1);
    let of_gpus = rows.iter().filter(|(_, row)| row.gpus <= allowed);
    // Of several that need the least, the fastest.
    let floor = of_gpus.min_by(|(one, a), (other, b)| {
        let time = |row: &PlanTry| row.slow_down.unwrap_or(1.0);
        let needed = a.needed.cmp(&b.needed);
        needed.then(time(a).total_cmp(&time(b))).then(one.len().cmp(&other.len()))
    });
    let changes = search.plan.as_ref();
    let mut shown: Vec<PlanTry> = rows.iter().map(|(_, row)| row.clone()).collect();
    shown.sort_by(|a, b| (b.needed, &a.changes).cmp(&(a.needed, &b.changes)));
    Plan {
        floodmark: env!("CARGO_PKG_VERSION").to_owned(),
        format: floodmark_analysis::FORMAT,
        gpu: machine.profile.name.clone(),
        capacity: Bytes(machine.profile.memory),
        unchanged: find(&Combination::new()),
        causes: causes(&Combination::new()),
        plan: changes.and_then(find),
        is_proven,
        changes: changes.map_or_else(Vec::new, |changes| {
            changes.iter().map(|change| plan_change(tries, change, &applied(changes))).collect()
        }),
        patch: changes.map_or_else(String::new, |changes| patch_of(changes, &applied(changes))),
        command: changes.map_or_else(String::new, |changes| run_command(args, changes)),
        floor: floor.map(|(_, row)| row.needed).unwrap_or_default(),
        floor_try: floor.map(|(_, row)| row.clone()),
        floor_causes: floor.map_or_else(Vec::new, |(changes, _)| causes(changes)),
        next_steps,
        tries: shown,
        left_out: left_out(search),
        not_tried: not_tried(search),
        runs: tries.runs(),
        tries_note: tries.note(),
        top: args.top,
    }
}

fn row(tries: &Tries<'_>, changes: &Combination, done: &Try) -> PlanTry {
    let applied = &done.answer.changes;
    let on_gpu = done.on_gpu.as_ref().unwrap_or(&done.answer);
    PlanTry {
        changes: changes.iter().map(ToString::to_string).collect(),
        targets: applied.iter().map(|change| change.target.clone()).collect(),
        peak_allocated: done.answer.peak_allocated,
        peak_reserved: on_gpu.peak_reserved,
        needed: on_gpu.needed,
        fits: done.fits,
        frees_cached_blocks: done.on_gpu.is_some(),
        steps: done.answer.steps,
        ended: done.answer.ended,
        step_peaks: done.answer.step_peaks.max(on_gpu.step_peaks),
        from_earlier_run: done.answer.earlier.or(on_gpu.earlier),
        slows: slows(changes, applied),
        numerics: numerics(changes, applied),
        compute: tries.compute(changes),
        slow_down: tries.slow_down(changes),
        step_time: tries.step_time(changes),
        limited_by: tries.step_time(changes).map(StepLimit::from),
        host_bytes: done.cost.as_ref().map(host_bytes),
        gpus: changes.iter().map(Change::gpus).max().unwrap_or(1),
        is_best: false,
        is_on_curve: false,
    }
}

/// One change of the plan; `applied` is what all of them were applied to.
fn plan_change(tries: &Tries<'_>, change: &Change, applied: &[AppliedChange]) -> PlanChange {
    let alone: Combination = vec![change.clone()];
    let needed = |changes: &Combination| tries.done().get(changes).map(|done| done.answer.needed);
    let saves = needed(&alone).zip(needed(&Combination::new()));
    let name = change.to_string();
    let here = applied.iter().find(|applied| applied.change == name).cloned().unwrap_or_default();
    PlanChange {
        change: name,
        target: here.target.clone(),
        saves: saves.map(|(alone, unchanged)| unchanged.saturating_sub(alone)),
        slows: slows(&alone, std::slice::from_ref(&here)),
        numerics: numerics(&alone, std::slice::from_ref(&here)),
        compute: tries.compute(&alone),
        slow_down: tries.slow_down(&alone),
    }
}

/// Marks the tries that no other one beats in memory without being worse in time, GPUs or results.
fn mark_best(rows: &mut [(&Combination, PlanTry)]) {
    let all: Vec<PlanTry> = rows.iter().map(|(_, row)| row.clone()).collect();
    let time = |row: &PlanTry| row.cost().unwrap_or(if row.slows { 2.0 } else { 1.0 });
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

/// Marks the tries that no other one beats in memory without being worse in time.
fn mark_curve(rows: &mut [(&Combination, PlanTry)]) {
    let cost = |row: &PlanTry| Some((row.cost()?, row.needed));
    let all: Vec<(f64, Bytes)> = rows.iter().filter_map(|(_, row)| cost(row)).collect();
    for (_, row) in rows {
        row.is_on_curve = cost(row).is_some_and(|(time, needed)| {
            let beats = |&(other, least): &(f64, Bytes)| {
                (other <= time && least < needed) || (other < time && least <= needed)
            };
            !all.iter().any(beats)
        });
    }
}

fn left_out(search: &PlanSearch) -> Vec<LeftOut> {
    let reason = |(changes, outcome): (&Vec<Change>, &TryOutcome)| match outcome {
        TryOutcome::LeftOut(reason) => {
            Some(LeftOut { changes: named(changes), reason: reason.clone() })
        }
        TryOutcome::Ran(_) | TryOutcome::NotTried => None,
    };
    search.tried.iter().filter_map(reason).collect()
}

fn not_tried(search: &PlanSearch) -> Vec<String> {
    let not_tried = search.tried.iter().filter(|(_, outcome)| **outcome == TryOutcome::NotTried);
    not_tried.map(|(changes, _)| named(changes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(needed: u64, slow_down: Option<f64>) -> PlanTry {
        PlanTry { needed: Bytes(needed), slow_down, ..PlanTry::default() }
    }

    #[test]
    fn the_curve_has_what_nothing_beats_in_memory_and_time() {
        let none = Combination::new();
        let tries = [
            tried(100, Some(1.0)),
            tried(90, Some(1.2)),
            tried(95, Some(1.3)),
            tried(50, Some(1.3)),
            tried(10, None),
        ];
        let mut rows: Vec<_> = tries.into_iter().map(|row| (&none, row)).collect();
        // What changes the results is on the curve too, unlike among the best.
        rows[1].1.numerics = Numerics::Changed;
        mark_curve(&mut rows);
        let marked: Vec<bool> = rows.iter().map(|(_, row)| row.is_on_curve).collect();
        assert_eq!(marked, [true, true, false, true, false]);
    }

    #[test]
    fn an_answer_of_an_older_floodmark_is_read() {
        let plan: Plan = serde_json::from_str(r#"{"gpu": "H200", "capacity": 7}"#).unwrap();
        assert_eq!((plan.gpu.as_str(), plan.capacity), ("H200", Bytes(7)));
        assert!(plan.tries.is_empty() && plan.plan.is_none());
    }
}
