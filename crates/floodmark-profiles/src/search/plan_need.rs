//! The need and the cost of combinations of changes, and how they are compared.

use std::cmp::Ordering;

use floodmark_trace::{Bytes, Numerics};

use crate::search::change::{Change, StatesIn};
use crate::search::peak_model::PeakModel;

/// A combination of changes, in the order of [`Change`].
pub type Combination = Vec<Change>;

/// The outcome of a try, for the search.
#[derive(Debug, Clone, PartialEq)]
pub enum TryOutcome {
    /// It ran.
    Ran(Need),
    /// A change found nothing to apply to, or the program failed with it: why.
    LeftOut(String),
    /// There was no time left.
    NotTried,
}

/// The need of a program with some changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// The memory that it needs.
    pub needed: Bytes,
    /// Whether that fits.
    pub fits: bool,
    /// Whether a change may slow it down.
    pub slows: bool,
    /// The effect of the changes on the results.
    pub numerics: Numerics,
    /// How long a step takes, as a multiple of an unchanged one; 1 where that is unknown.
    pub slow_down: f64,
    /// How many repeated blocks there are, where they were counted.
    pub blocks: Option<u32>,
    /// How many GPUs it takes, of which each needs this memory.
    pub gpus: u32,
    /// Changes that found nothing to apply to, and why: the program ran without them.
    pub not_applied: Vec<(Change, String)>,
    /// The settings of the allocator with which the same requests would reserve least, as simulated; none where no others
    /// than its own reserve less, or none were simulated.
    pub best_settings: Option<String>,
    /// What the memory of the unchanged program is made of; none for a changed one.
    pub model: Option<PeakModel>,
}

impl Need {
    pub(crate) fn cost(&self) -> Cost {
        match (self.numerics, self.slows) {
            (Numerics::Training, _) => Cost::Training,
            (Numerics::Changed, _) => Cost::Results,
            (Numerics::Same | Numerics::Rounding, _) if self.gpus > 1 => Cost::Gpus,
            (Numerics::Same | Numerics::Rounding, true) => Cost::Time,
            (Numerics::Same | Numerics::Rounding, false) => Cost::Nothing,
        }
    }

    /// How a try is compared with others.
    pub(crate) fn price(&self, combination: &[Change], capacity: Bytes) -> Price {
        // Where torch has to free cached blocks to fit, it waits for the GPU.
        let waits = if self.needed > capacity { WAITS } else { 0.0 };
        let count = u32::try_from(combination.len()).unwrap_or(u32::MAX);
        let is_bold = combination.contains(&Change::OptimizerInBackward(StatesIn::Host));
        Price::new(self.cost(), self.gpus, self.slow_down + waits, count, is_bold)
    }
}

/// The cost of a change, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cost {
    Nothing,
    Time,
    Gpus,
    Results,
    Training,
}

impl Cost {
    /// All of them, cheapest first.
    pub(crate) const ALL: [Self; 5] =
        [Self::Nothing, Self::Time, Self::Gpus, Self::Results, Self::Training];
}

/// What a combination costs, compared with others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Price {
    cost: Cost,
    gpus: u32,
    /// Whether it is without the guard of a first step as it is.
    is_bold: bool,
    /// The time of a step, and a little for each change.
    time: f64,
}

/// A change must save this part of the time of a step, or memory that is needed.
const EACH_CHANGE: f64 = 0.01;
/// How much less time, or how many changes less, are worth a run.
const WORTH_A_TRY: f64 = 0.009;
/// How much longer a step takes where torch frees cached blocks in it.
const WAITS: f64 = 0.03;

impl Price {
    pub(crate) fn new(cost: Cost, gpus: u32, time: f64, changes: u32, is_bold: bool) -> Self {
        Self { cost, gpus, is_bold, time: time + EACH_CHANGE * f64::from(changes) }
    }

    /// Whether it is so much cheaper than a try that fits that it is worth a run.
    pub(crate) fn is_worth_a_try(&self, best: &Self) -> bool {
        Self { time: self.time + WORTH_A_TRY, ..*self }.total_cmp(best).is_lt()
    }

    pub(crate) fn total_cmp(&self, other: &Self) -> Ordering {
        let kind = |price: &Self| (price.cost, price.gpus, price.is_bold);
        kind(self).cmp(&kind(other)).then(self.time.total_cmp(&other.time))
    }
}
