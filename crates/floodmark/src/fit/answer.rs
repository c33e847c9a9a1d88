//! The answer of `floodmark fit`.

use std::borrow::Cow;

use floodmark_analysis::StepPeaks;
use floodmark_profiles::{
    Dimension, Direction, Frontier, Objective, ObjectiveError, PhantomMachine, Tried,
};
use floodmark_trace::{Bytes, PhantomEnd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::FitArgs;
use crate::text::failure::Result;

/// The largest values with which a program fits on a simulated GPU.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Fit {
    /// The version of floodmark that wrote the answer.
    floodmark: Cow<'static, str>,
    /// The version of this JSON: it changes when a field changes its meaning.
    format: u32,
    /// The name of the first value.
    pub(super) name: String,
    /// The names of all values, in the order of `--vary`.
    pub(super) names: Vec<String>,
    /// The name of the GPU profile.
    pub(super) gpu: String,
    /// The memory of the GPU.
    pub(super) capacity: Bytes,
    /// The first of the best values; null when nothing fits.
    pub(super) largest: Option<u64>,
    /// The values that fit with the largest objective, in the order of the names; null when nothing fits.
    pub(super) best: Option<Vec<u64>>,
    /// Whether they are the largest values of the question, so that larger ones may fit too.
    pub(super) is_last: bool,
    /// What is to be as large as possible; null where nothing grows.
    pub(super) objective: Option<String>,
    /// Of every combination of the other values that fits, the largest of the one with the most values; the best first.
    pub(super) frontier: Vec<FitPoint>,
    /// What the search assumed of the program.
    pub(super) assumptions: Vec<String>,
    /// Pairs of values of which the larger one needs less memory. Only where one value is varied.
    pub(super) not_monotone: Vec<[u64; 2]>,
    /// Every try, smallest values first.
    pub(super) tries: Vec<Try>,
}

/// A combination that fits, and above which nothing was found to fit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FitPoint {
    /// The values, in the order of the names.
    pub(super) values: Vec<u64>,
    /// The objective; null where there is none.
    pub(super) objective: Option<f64>,
    /// The most that torch had allocated, of all devices.
    pub(super) peak_allocated: Bytes,
    /// The most that torch had reserved, of all devices.
    pub(super) peak_reserved: Bytes,
    /// What it needs with the CUDA context.
    pub(super) needed: Bytes,
}

/// One estimate.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Try {
    /// The first value.
    pub(super) value: u64,
    /// All values, in the order of the names.
    pub(super) values: Vec<u64>,
    /// Whether it fits.
    pub(super) fits: bool,
    /// The most that torch had allocated, of all devices.
    pub(super) peak_allocated: Bytes,
    /// The most that torch had reserved, of all devices.
    pub(super) peak_reserved: Bytes,
    /// What it needs with the CUDA context; a lower bound when it does not fit.
    pub(super) needed: Bytes,
    /// How many steps ended.
    pub(super) steps: u32,
    /// How the program ended.
    pub(super) ended: PhantomEnd,
    /// Whether its last steps had the same peak; null where it ended by itself, or made too few steps.
    pub(super) step_peaks: Option<StepPeaks>,
    /// How long the try took.
    pub(super) seconds: f64,
    /// When it ran, where the answer is from an earlier run: seconds since 1970; null where it ran now.
    pub(super) from_earlier_run: Option<u64>,
}

impl Tried for Try {
    fn needed(&self) -> Option<Bytes> {
        self.fits.then_some(self.needed)
    }
}

pub(super) fn fit_of(
    args: &FitArgs,
    machine: &PhantomMachine,
    dimensions: &[Dimension],
    found: &Frontier<Try>,
) -> Result<Fit> {
    let names: Vec<String> = args.vary.iter().map(|varied| varied.name.clone()).collect();
    let objective = args.objective.clone().or_else(|| usual_objective(&names, found));
    let mut frontier = Vec::new();
    for tried in found.largest.iter().filter_map(|point| found.tried.get(point)) {
        let value = objective.as_ref().map(|one| objective_of(args, one, &tried.values));
        frontier.push(FitPoint {
            values: tried.values.clone(),
            objective: value.transpose()?,
            peak_allocated: tried.peak_allocated,
            peak_reserved: tried.peak_reserved,
            needed: tried.needed,
        });
    }
    // Of those that are equally good, the one that needs least.
    let key = |point: &FitPoint| point.objective.unwrap_or_default();
    frontier.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.needed.cmp(&b.needed)));
    let best = frontier.first().map(|point| point.values.clone());
    let last = |one: &Dimension| one.values.last().copied();
    let is_last = best.as_ref().is_some_and(|best| {
        found.searched.is_some_and(|at| Some(best[at]) == last(&dimensions[at]))
    });
    let tries: Vec<Try> = found.tried.values().cloned().collect();
    Ok(Fit {
        floodmark: env!("CARGO_PKG_VERSION").into(),
        format: floodmark_analysis::FORMAT,
        name: names[0].clone(),
        gpu: machine.profile.name.clone(),
        capacity: Bytes(machine.profile.memory),
        largest: best.as_ref().map(|best| best[0]),
        best,
        is_last,
        objective: objective.map(|objective| objective.to_string()),
        frontier,
        assumptions: assumptions(&names, &found.directions),
        not_monotone: if names.len() == 1 { not_monotone(&tries) } else { Vec::new() },
        tries,
        names,
    })
}

/// The objective of some values.
pub(super) fn objective_of(
    args: &FitArgs,
    objective: &Objective,
    values: &[u64],
) -> Result<f64, ObjectiveError> {
    #[expect(clippy::cast_precision_loss, reason = "for a comparison 53 bits are enough")]
    let value_of = |name: &str| {
        let at = args.vary.iter().position(|varied| varied.name == name)?;
        Some(values[at] as f64)
    };
    objective.value(&value_of)
}

/// The product of the values with which the need grows.
fn usual_objective(names: &[String], found: &Frontier<Try>) -> Option<Objective> {
    let directions = names.iter().zip(&found.directions);
    let growing: Vec<&str> = directions
        .filter(|(_, direction)| **direction == Direction::Grows)
        .map(|(name, _)| name.as_str())
        .collect();
    Objective::product(&growing)
}

fn assumptions(names: &[String], directions: &[Direction]) -> Vec<String> {
    if names.len() == 1 {
        return Vec::new();
    }
    let say = |(name, direction): (&String, &Direction)| match direction {
        Direction::Grows => Some(format!("what the program needs grows with {name}")),
        Direction::Shrinks => {
            Some(format!("what the program needs shrinks from the first to the last {name}"))
        }
        Direction::Level => None,
    };
    names.iter().zip(directions).filter_map(say).collect()
}

/// Pairs of values next to each other of which the larger one needs less, or fits where the smaller does not.
fn not_monotone(tries: &[Try]) -> Vec<[u64; 2]> {
    let falls = |pair: &&[Try]| {
        let both_fit = pair[0].fits && pair[1].fits;
        (both_fit && pair[1].peak_allocated < pair[0].peak_allocated)
            || (!pair[0].fits && pair[1].fits)
    };
    tries.windows(2).filter(falls).map(|pair| [pair[0].value, pair[1].value]).collect()
}
