//! The need and the cost of combinations of changes, and bounds for others.

use floodmark_trace::{Bytes, Numerics};

use crate::search::change::Change;

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
    /// The settings of the allocator with which the same requests would reserve least, as simulated; none where no others
    /// than its own reserve less, or none were simulated.
    pub best_settings: Option<String>,
}

impl Need {
    pub(crate) fn cost(&self) -> Cost {
        match (self.numerics, self.slows) {
            (Numerics::Changed, _) => Cost::Results,
            (Numerics::Same | Numerics::Rounding, _) if self.gpus > 1 => Cost::Gpus,
            (Numerics::Same | Numerics::Rounding, true) => Cost::Time,
            (Numerics::Same | Numerics::Rounding, false) => Cost::Nothing,
        }
    }
}

/// The cost of a change, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cost {
    Nothing,
    Time,
    Gpus,
    Results,
}

/// The effect of every change alone.
pub(crate) struct Alone {
    pub(crate) unchanged: Need,
    /// Those that save memory, the cheapest first, of one cost those that save most.
    pub(crate) saving: Vec<(Change, Need)>,
    /// Those that save nothing alone, but may once the peak has moved.
    pub(crate) neutral: Vec<(Change, Need)>,
}

impl Alone {
    pub(crate) fn need_of(&self, change: &Change) -> Option<&Need> {
        let mut all = self.saving.iter().chain(&self.neutral);
        all.find(|(known, _)| known == change).map(|(_, need)| need)
    }

    pub(crate) fn saved(&self, change: &Change) -> Bytes {
        let need = self.need_of(change).map_or(self.unchanged.needed, |need| need.needed);
        self.unchanged.needed.saturating_sub(need)
    }

    /// Whether the changes would save enough if none of them hindered another, with some room for error.
    pub(crate) fn may_fit(&self, combination: &Combination, capacity: Bytes) -> bool {
        let saved: u64 = combination.iter().map(|change| self.saved(change).0).sum();
        self.unchanged.needed.0.saturating_sub(saved + saved / 4) <= capacity.0
    }

    /// Whether a change costs nothing and what needs `needed` with it would not fit without even half of what it saves.
    pub(crate) fn is_surely_needed(&self, change: &Change, needed: Bytes, capacity: Bytes) -> bool {
        let is_free = self.need_of(change).is_some_and(|need| need.cost() == Cost::Nothing);
        is_free && needed <= capacity && needed.0 + self.saved(change).0 / 2 > capacity.0
    }
}
