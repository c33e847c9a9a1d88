//! The answer of `floodmark fit` as text.

use floodmark_text::answer_text::AnswerText;
use floodmark_text::sheet::{self, Cells, Sheet};

use crate::fit::answer::{Fit, FitPoint, Try};
use crate::tries::text;

impl From<&Fit> for AnswerText {
    fn from(found: &Fit) -> Self {
        if found.names.len() == 1 { one(found) } else { several(found) }
    }
}

/// One value: every try.
fn one(found: &Fit) -> AnswerText {
    let Fit { name, gpu, .. } = found;
    let answer = match found.largest {
        Some(value) if found.is_last => {
            format!(
                "{name} = {value} fits on {gpu}{}: the largest value of `--vary`",
                length(found)
            )
        }
        Some(value) => {
            format!("{name} = {value} is the largest that fits on {gpu}{}", length(found))
        }
        None => format!("No value of {name} fits on {gpu}"),
    };
    let mut columns = sheet::numbers(&[name, "Peak allocated", "Peak reserved", "Needed"]);
    columns.extend(sheet::words(&["Fits"]));
    let rows = found.tries.iter().map(|tried| Cells {
        cells: vec![
            tried.value.to_string(),
            tried.peak_allocated.to_string(),
            tried.peak_reserved.to_string(),
            if tried.fits {
                text::beside_limit(tried.needed, found.capacity)
            } else {
                format!("> {}", tried.needed)
            },
            if tried.fits { "yes" } else { "no" }.to_owned(),
        ],
        below: Vec::new(),
    });
    let odd = found.not_monotone.iter().map(|[less, more]| {
        format!(
            "{name} = {more} needs less than {less} does: a value that was not tried may fit too"
        )
    });
    AnswerText {
        above: vec![answer],
        losses: further_steps(found).into_iter().chain(odd).collect(),
        sheets: vec![Sheet { columns, rows: rows.collect(), ..Sheet::default() }],
        below: earlier_runs(found).into_iter().collect(),
    }
}

/// The try of the best values.
fn best_try(found: &Fit) -> Option<&Try> {
    found.tries.iter().find(|tried| Some(&tried.values) == found.best.as_ref())
}

/// For how many steps the best values were tried.
fn length(found: &Fit) -> String {
    let of = |tried: &Try| format!(", in {}", text::length(tried.ended, tried.steps));
    best_try(found).map_or_else(String::new, of)
}

fn further_steps(found: &Fit) -> Option<String> {
    let tried = best_try(found)?;
    text::further_steps(tried.step_peaks, tried.steps)
}

fn earlier_runs(found: &Fit) -> Option<String> {
    let times: Vec<_> = found.tries.iter().map(|tried| tried.from_earlier_run).collect();
    text::earlier_runs(&times)
}

/// Several values: the frontier.
fn several(found: &Fit) -> AnswerText {
    let gpu = &found.gpu;
    let described = |values: &[u64]| {
        let one = |(name, value): (&String, &u64)| format!("{name} = {value}");
        found.names.iter().zip(values).map(one).collect::<Vec<_>>().join(", ")
    };
    let answer = match (&found.best, &found.objective) {
        (Some(best), Some(objective)) => {
            let length = length(found);
            format!("{} fits on {gpu}{length}, with the largest {objective}", described(best))
        }
        (Some(best), None) => format!("{} fits on {gpu}{}", described(best), length(found)),
        (None, _) => format!("No combination of {} fits on {gpu}", found.names.join(", ")),
    };
    let mut above = vec![answer];
    if found.is_last {
        above.push("It has the largest value of a `--vary`: larger ones may fit, too".to_owned());
    }
    let names: Vec<&str> = found.names.iter().map(String::as_str).collect();
    let mut columns = sheet::numbers(&names);
    columns.extend(sheet::numbers(&found.objective.as_deref().into_iter().collect::<Vec<_>>()));
    columns.extend(sheet::numbers(&["Peak allocated", "Peak reserved", "Needed"]));
    let rows = found.frontier.iter().map(row).collect();
    let mut below = Vec::new();
    if !found.assumptions.is_empty() {
        below.push(format!("{} tries. They assume that:", found.tries.len()));
        below.extend(found.assumptions.iter().map(|one| format!("- {one}")));
    }
    let sheets = if found.frontier.is_empty() {
        Vec::new()
    } else {
        vec![Sheet { columns, rows, ..Sheet::default() }]
    };
    below.extend(earlier_runs(found));
    AnswerText { above, losses: further_steps(found).into_iter().collect(), sheets, below }
}

fn row(point: &FitPoint) -> Cells {
    let mut cells: Vec<String> = point.values.iter().map(ToString::to_string).collect();
    cells.extend(point.objective.map(|objective| objective.to_string()));
    cells.push(point.peak_allocated.to_string());
    cells.push(point.peak_reserved.to_string());
    cells.push(point.needed.to_string());
    Cells { cells, below: Vec::new() }
}
