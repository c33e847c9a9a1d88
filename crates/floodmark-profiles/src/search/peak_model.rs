//! What a program would need with changes, guessed from one trace of it as it is.
//!
//! The trace says what memory is made of at the moments to which a change could move the peak. [`row`] says what a change
//! leaves of each part. Guesses only say which tries are worth a run.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, PeakPart as Part};

use crate::search::change::{Change, Checkpointed, HostCopies};
use crate::search::change_rows::{ACTIVATIONS, Row, row};

/// What the unchanged program needs, and what that is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeakModel {
    /// The bytes of each part, at the moments to which a change could move the peak.
    pub moments: Vec<BTreeMap<Part, Bytes>>,
    /// What is needed beside them: cached memory, and the CUDA context.
    pub beside: Bytes,
    /// The part of it that is wasted by the allocator.
    pub wasted: Bytes,
    /// Whether all parameters are in 16 bits already.
    pub is_half: bool,
    /// Whether the program trains: it has a backward pass.
    pub trains: bool,
    /// How many repeated blocks there are, where they were counted.
    pub blocks: Option<u32>,
    /// How many steps take as long as it takes to copy a GiB between host and device; none where that is unknown.
    pub steps_per_gib: Option<f64>,
}

/// What is left of the inner activations with selective checkpointing.
const LEFT_BY_SELECTIVE: f64 = 0.6;
/// How much longer a step takes with all blocks recomputed, and with selective checkpointing.
const RECOMPUTED: f64 = 0.3;
const RECOMPUTED_SELECTIVELY: f64 = 0.12;
/// Where nothing says how long a copy takes: as many steps for all that is copied.
const UNKNOWN_COPIES: f64 = 1.0;
/// The blocks of a program whose blocks are not counted.
const USUAL_BLOCKS: u32 = 12;

/// A GiB.
const GIB: f64 = 1_073_741_824.0;

/// What a combination probably needs and costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Guess {
    /// The memory that it needs.
    pub(crate) needed: f64,
    /// How long a step takes, as a multiple of an unchanged one.
    pub(crate) time: f64,
}

/// How many parts there are.
const PARTS: usize = Part::ALL.len();

/// What a change does to one program.
struct Effect {
    leaves: [f64; PARTS],
    row: Row,
    gpus: u32,
    is_aside: bool,
}

/// Guesses for the combinations of a list of changes. There may be a hundred thousand, so the rows of the changes and the
/// moments of the program lie here as arrays.
pub(crate) struct Forecast {
    effects: Vec<Effect>,
    moments: Vec<[f64; PARTS]>,
    /// The most that there is of each part.
    most: [f64; PARTS],
    beside: f64,
    wasted: f64,
    blocks: f64,
    steps_per_gib: Option<f64>,
}

impl Forecast {
    /// For changes, each with the position of an argument's value among its values.
    pub(crate) fn new<'a>(
        model: &PeakModel,
        changes: impl Iterator<Item = (&'a Change, u32)>,
    ) -> Self {
        let array = |moment: &BTreeMap<Part, Bytes>| {
            Part::ALL.map(|part| moment.get(&part).map_or(0.0, |bytes| float(*bytes)))
        };
        let all: Vec<[f64; PARTS]> = model.moments.iter().map(array).collect();
        let most =
            Part::ALL.map(|part| all.iter().map(|one| one[part as usize]).fold(0.0, f64::max));
        Self {
            effects: changes.map(|(change, position)| model.effect(change, position)).collect(),
            moments: highest(all),
            most,
            beside: float(model.beside),
            wasted: float(model.wasted),
            blocks: f64::from(model.blocks.unwrap_or(USUAL_BLOCKS).max(1)),
            steps_per_gib: model.steps_per_gib,
        }
    }

    /// What the program probably needs and costs with the changes whose bits are set; `blocks` is how many blocks are
    /// checkpointed, where not all of them.
    pub(crate) fn guess(&self, changes: u64, blocks: Option<u32>) -> Guess {
        let effects = || {
            let all = self.effects.iter().enumerate();
            all.filter(move |(at, _)| changes >> at & 1 == 1).map(|(_, effect)| effect)
        };
        let mut left = [1.0; PARTS];
        let (mut time, mut wastes, mut gpus, mut kept, mut recomputing) = (1.0, 1.0, 1, 1.0, 0.0);
        for effect in effects() {
            for (left, leaves) in left.iter_mut().zip(effect.leaves) {
                *left *= leaves;
            }
            let row = &effect.row;
            (time, wastes, gpus) = (time * row.time, wastes * row.wastes, gpus.max(effect.gpus));
            let recomputes = row.recomputes.map(|all| blocks.map_or(all, Checkpointed::Blocks));
            if let Some(recomputed) = recomputes {
                (kept, recomputing) = self.recomputed(recomputed);
            }
        }
        // Added last, so that the order of the changes does not matter.
        time += recomputing;
        left[Part::InnerActivations as usize] *= kept;
        for part in SHARDED {
            left[part as usize] /= f64::from(gpus);
        }
        let of = |moment: &[f64; PARTS]| -> f64 {
            moment.iter().zip(left).map(|(bytes, left)| bytes * left).sum()
        };
        let peak = self.moments.iter().map(of).fold(0.0, f64::max);
        let is_aside = effects().any(|effect| effect.is_aside);
        for effect in effects().filter(|effect| !effect.row.copies.is_empty()) {
            let copies = effect.row.copies;
            let moved: f64 =
                copies.iter().map(|part| self.most[*part as usize] * kept_of(*part, kept)).sum();
            let steps =
                self.steps_per_gib.map_or(UNKNOWN_COPIES, |steps| 2.0 * steps * moved / GIB);
            // Copies on a stream of their own take time only where they take longer than the step.
            let is_hidden = is_aside && copies == ACTIVATIONS;
            time = if is_hidden { f64::max(time, steps) } else { time + steps };
        }
        Guess { needed: peak + self.beside - self.wasted + self.wasted * wastes, time }
    }

    /// The part of the inner activations that stays, and how much longer a step takes.
    fn recomputed(&self, recomputed: Checkpointed) -> (f64, f64) {
        let (kept, takes) = match recomputed {
            Checkpointed::All => (1.0 / self.blocks, RECOMPUTED),
            Checkpointed::Blocks(count) => {
                let share = f64::from(count) / self.blocks;
                (1.0 - share + 1.0 / self.blocks, RECOMPUTED * share)
            }
            Checkpointed::Selective => (LEFT_BY_SELECTIVE, RECOMPUTED_SELECTIVELY),
        };
        (f64::min(kept, 1.0), takes)
    }
}

/// The parts that sharding divides.
const SHARDED: [Part; 5] = [
    Part::Parameters,
    Part::Gradients,
    Part::StaleGradients,
    Part::OptimizerStates,
    Part::OptimizerTemporaries,
];

/// The moments that may be the peak: those that no other one exceeds in every part.
fn highest(all: Vec<[f64; PARTS]>) -> Vec<[f64; PARTS]> {
    let mut highest: Vec<[f64; PARTS]> = Vec::new();
    let is_below = |one: &[f64; PARTS], other: &[f64; PARTS]| {
        one.iter().zip(other).all(|(one, other)| one <= other)
    };
    for moment in all {
        if !highest.iter().any(|other| is_below(&moment, other)) {
            highest.retain(|other| !is_below(other, &moment));
            highest.push(moment);
        }
    }
    highest
}

impl PeakModel {
    fn effect(&self, change: &Change, position: u32) -> Effect {
        let known = row(change, position);
        let saves_nothing = self.is_half && change.needs_bf16();
        let row = if saves_nothing { Row { leaves: &[], time: 1.0, ..known } } else { known };
        let mut leaves = [1.0; PARTS];
        for (part, left) in row.leaves {
            leaves[*part as usize] = *left;
        }
        let is_aside = *change == Change::OffloadActivations(HostCopies::Async);
        Effect { leaves, row, gpus: change.gpus(), is_aside }
    }
}

fn kept_of(part: Part, kept: f64) -> f64 {
    if part == Part::InnerActivations { kept } else { 1.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a guess needs no more than 53 bits")]
fn float(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
