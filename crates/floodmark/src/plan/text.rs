//! The answer of `floodmark plan` as text.

use floodmark_analysis::Cause;
use floodmark_text::answer_text::AnswerText;
use floodmark_text::sheet::{self, Cells, Sheet};
use floodmark_trace::{Bytes, Numerics};

use crate::plan::answer::{LeftOut, Plan, PlanTry, StepLimit};
use crate::plan::next_steps::NextStep;
use crate::tries::text as tries_text;

impl From<&Plan> for AnswerText {
    fn from(found: &Plan) -> Self {
        let mut sheets = Vec::new();
        if !found.causes.is_empty() {
            sheets.push(causes("What fills the peak without changes", &found.causes));
        }
        if found.plan.is_none() && !found.floor_causes.is_empty() {
            sheets.push(causes("What remains with the least memory", &found.floor_causes));
        }
        if found.tries.len() > 1 {
            sheets.push(tries(found));
        }
        if !found.left_out.is_empty() {
            sheets.push(left_out(&found.left_out));
        }
        let mut losses = not_tried(found);
        losses.extend(further_steps(found));
        Self { above: verdict(found), losses, sheets, below: what_to_do(found) }
    }
}

fn verdict(found: &Plan) -> Vec<String> {
    let Plan { gpu, capacity, floor, .. } = found;
    let mut above = Vec::new();
    match (&found.plan, &found.unchanged) {
        (Some(plan), _) if plan.changes.is_empty() => {
            above.push(format!(
                "Fits as it is: {gpu}, {}, {}",
                length(plan),
                headroom(found, plan)
            ));
        }
        (Some(plan), _) => {
            let changes = plan.changes.join(" + ");
            let length = length(plan);
            above.push(format!("Fits with {changes}: {gpu}, {length}, {}", headroom(found, plan)));
            above.push(cost(plan));
        }
        (None, Some(_)) if found.not_tried.is_empty() => {
            above.push(format!(
                "Nothing that was tried fits: {gpu} has {capacity}, and the program needs at least {floor}"
            ));
            let least = found.floor_try.as_ref().filter(|least| !least.changes.is_empty());
            if let Some(least) = least {
                above.push(format!("It needs the least with {}", least.changes.join(" + ")));
            }
            above.extend(found.next_steps.iter().map(next_step));
        }
        (None, _) => above.push(format!("No plan was found in time: {gpu} has {capacity}")),
    }
    if let Some(unchanged) = &found.unchanged {
        above.push(format!(
            "Without changes it needs {}: {} allocated, {} reserved",
            unchanged.needed, unchanged.peak_allocated, unchanged.peak_reserved
        ));
    }
    above
}

/// What fits, as tried.
fn next_step(step: &NextStep) -> String {
    let NextStep { gpu, capacity, gpus, needed, .. } = step;
    let changes = match step.changes.as_slice() {
        [] => "as it is".to_owned(),
        changes => format!("with {}", changes.join(" + ")),
    };
    let on = if *gpus > 1 { format!("{gpus} × {gpu}") } else { gpu.clone() };
    let option = match (step.profile.as_str(), gpus) {
        ("", gpus) => format!("`--shard-over {gpus}`"),
        (profile, 1) => format!("`--gpu {profile}`"),
        (profile, gpus) => format!("`--gpu {profile} --shard-over {gpus}`"),
    };
    format!("It fits on {on} ({option}) {changes}, as tried: {needed} of {capacity}")
}

fn headroom(found: &Plan, plan: &PlanTry) -> String {
    let capacity = found.capacity;
    if plan.frees_cached_blocks {
        format!("{capacity} are enough because torch frees cached blocks")
    } else {
        format!("{} of {capacity} are left", capacity.saturating_sub(plan.needed))
    }
}

fn length(plan: &PlanTry) -> String {
    tries_text::length(plan.ended, plan.steps)
}

/// What the plan costs, in one sentence.
fn cost(plan: &PlanTry) -> String {
    let numerics = match plan.numerics {
        Numerics::Same => "results stay the same",
        Numerics::Rounding => "results differ by rounding alone",
        Numerics::Changed => "results are computed in another precision",
        Numerics::Training => "the training is another one: compare what it learns",
    };
    let time = match (plan.slow_down, plan.slows) {
        (Some(slow_down), _) => {
            let limit = match plan.limited_by {
                Some(StepLimit::Gpu) => ", limited by the GPU",
                Some(StepLimit::Host) => ", limited by the host",
                None => "",
            };
            format!("steps take ~{slow_down:.1} × as long (an estimate{limit})")
        }
        (None, true) => "steps take longer".to_owned(),
        (None, false) => "steps take no longer".to_owned(),
    };
    let gpus = if plan.gpus > 1 {
        format!("{} GPUs, each with the batch of the program; ", plan.gpus)
    } else {
        String::new()
    };
    format!("It costs: {gpus}{time}; {numerics}")
}

/// `2.17 ×`.
fn multiple(value: Option<f64>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| format!("{value:.2} ×"))
}

fn causes(title: &str, found: &[Cause]) -> Sheet {
    let mut columns = sheet::numbers(&["Bytes"]);
    columns.extend(sheet::words(&[title]));
    let rows = found.iter().map(|row| cells(vec![row.bytes.to_string(), row.name.clone()]));
    Sheet { columns, rows: rows.collect(), ..Sheet::default() }
}

fn tries(found: &Plan) -> Sheet {
    let mut columns = sheet::numbers(&["Allocated", "Reserved", "Needed"]);
    columns.extend(sheet::words(&["Fits"]));
    columns.extend(sheet::numbers(&["Operations", "Time (estimate)"]));
    columns.extend(sheet::words(&["Results", "Changes"]));
    // The plan, and tries that no other one beats, are always shown.
    let limit = if found.top == 0 { usize::MAX } else { found.top };
    let plan = found.plan.as_ref().map(|plan| &plan.changes);
    let is_shown = |one: &PlanTry| one.is_best || plan == Some(&one.changes);
    let mut others = limit.saturating_sub(found.tries.iter().filter(|one| is_shown(one)).count());
    let mut rows = Vec::new();
    for tried in &found.tries {
        if !is_shown(tried) {
            if others == 0 {
                continue;
            }
            others -= 1;
        }
        rows.push(row(tried, found.capacity, plan == Some(&tried.changes)));
    }
    Sheet { columns, rows, ..Sheet::default() }
}

fn row(tried: &PlanTry, capacity: Bytes, is_chosen: bool) -> Cells {
    let changes = if tried.changes.is_empty() {
        "(none)".to_owned()
    } else if is_chosen {
        format!("{} (the plan)", tried.changes.join(" + "))
    } else {
        let best = if tried.is_best { "" } else { " (dominated)" };
        tried.changes.join(" + ") + best
    };
    cells(vec![
        tried.peak_allocated.to_string(),
        tried.peak_reserved.to_string(),
        tries_text::beside_limit(tried.needed, capacity),
        if tried.fits { "yes" } else { "no" }.to_owned(),
        multiple(tried.compute),
        multiple(tried.slow_down),
        match tried.numerics {
            Numerics::Same => "same",
            Numerics::Rounding => "rounding",
            Numerics::Changed => "changed",
            Numerics::Training => "training",
        }
        .to_owned(),
        changes,
    ])
}

fn left_out(found: &[LeftOut]) -> Sheet {
    let columns = sheet::words(&["Left out", "Why"]);
    let rows = found.iter().map(|one| cells(vec![one.changes.clone(), one.reason.clone()]));
    Sheet { columns, rows: rows.collect(), is_prose: true, ..Sheet::default() }
}

fn not_tried(found: &Plan) -> Vec<String> {
    if found.not_tried.is_empty() {
        return Vec::new();
    }
    vec![format!("Not tried, because the time was over: {}", found.not_tried.join(", "))]
}

/// What steps that were not made may need, with the plan or, where there is none, without changes.
fn further_steps(found: &Plan) -> Option<String> {
    let tried = found.plan.as_ref().or(found.unchanged.as_ref())?;
    tries_text::further_steps(tried.step_peaks, tried.steps)
}

fn what_to_do(found: &Plan) -> Vec<String> {
    let times: Vec<_> = found.tries.iter().map(|tried| tried.from_earlier_run).collect();
    let mut below: Vec<String> = tries_text::earlier_runs(&times).into_iter().collect();
    if found.patch.is_empty() {
        return below;
    }
    below.extend(["To change the program, add this to it:".to_owned(), String::new()]);
    below.extend(found.patch.lines().map(|line| format!("    {line}").trim_end().to_owned()));
    below.push(String::new());
    below.push(format!("To run it with these changes without editing it: `{}`", found.command));
    below
}

fn cells(cells: Vec<String>) -> Cells {
    Cells { cells, below: Vec::new() }
}
