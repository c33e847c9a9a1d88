//! What a program would need with changes, guessed from one trace of it as it is.
//!
//! The trace says what memory is made of at the moments to which a change could move the peak. A change is a row here:
//! how much it leaves of each part, and what it costs. So a new change needs one row. Guesses only say which tries are
//! worth a run.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, PeakPart as Part};

use crate::search::change::{Change, Checkpointed, HostCopies, LossChunks, StatesIn};
use crate::search::plan_need::Cost;

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
    /// How many repeated blocks there are, where they were counted.
    pub blocks: Option<u32>,
    /// How many steps take as long as it takes to copy a GiB between host and device; none where that is unknown.
    pub steps_per_gib: Option<f64>,
}

/// What a change probably does.
struct Row {
    /// What it leaves of each part; all of the others.
    leaves: &'static [(Part, f64)],
    /// Of what each block computes, how much the changes leave that recompute it.
    recomputes: Option<Checkpointed>,
    /// What it leaves of the memory that the allocator wastes.
    wastes: f64,
    /// How long a step takes, as a multiple of an unchanged one, without copies.
    time: f64,
    /// What it copies to the host and back in each step.
    copies: &'static [Part],
    cost: Cost,
}

const NOTHING: Row =
    Row { leaves: &[], recomputes: None, wastes: 1.0, time: 1.0, copies: &[], cost: Cost::Nothing };

const ACTIVATIONS: &[Part] = &[Part::InnerActivations, Part::BlockOutputs, Part::Activations];

/// The row of a change. `position` is that of an argument's value among its values.
fn row(change: &Change, position: u32) -> Row {
    let time = |time| Row { time, cost: Cost::Time, ..NOTHING };
    let results = Row { cost: Cost::Results, ..NOTHING };
    match change {
        Change::Allocator(_) => Row { wastes: 0.2, ..NOTHING },
        Change::Fused => {
            Row { leaves: &[(Part::OptimizerTemporaries, 0.0)], time: 0.98, ..NOTHING }
        }
        Change::FreeGradients => Row { leaves: &[(Part::StaleGradients, 0.0)], ..NOTHING },
        Change::ChunkedLoss(LossChunks::Head | LossChunks::Liger | LossChunks::Cce) => {
            Row { leaves: &[(Part::Logits, 0.15)], time: 1.02, ..NOTHING }
        }
        Change::SdpaAttention => Row { leaves: &[(Part::InnerActivations, 0.7)], ..NOTHING },
        Change::ChunkedLoss(LossChunks::Rows(_)) => {
            Row { leaves: &[(Part::Logits, 0.75)], time: 1.02, ..NOTHING }
        }
        Change::ForeachOff => Row { leaves: &[(Part::OptimizerTemporaries, 0.1)], ..time(1.1) },
        Change::OptimizerInBackward(StatesIn::Gpu) => Row {
            leaves: &[
                (Part::Gradients, 0.15),
                (Part::StaleGradients, 0.0),
                (Part::OptimizerTemporaries, 0.1),
            ],
            ..time(1.1)
        },
        Change::OptimizerInBackward(StatesIn::Host) => Row {
            leaves: &[
                (Part::Gradients, 0.15),
                (Part::StaleGradients, 0.0),
                (Part::OptimizerTemporaries, 0.1),
                (Part::OptimizerStates, 0.1),
            ],
            copies: &[Part::OptimizerStates],
            ..time(1.2)
        },
        Change::OffloadOptimizerStates => Row {
            leaves: &[(Part::OptimizerTemporaries, 0.1), (Part::OptimizerStates, 0.05)],
            copies: &[Part::OptimizerStates],
            ..time(1.2)
        },
        Change::Checkpoint(recomputed) => Row { recomputes: Some(*recomputed), ..time(1.0) },
        Change::OffloadActivations(HostCopies::InOrder) => Row {
            leaves: &[
                (Part::InnerActivations, 0.1),
                (Part::BlockOutputs, 0.1),
                (Part::Activations, 0.2),
            ],
            copies: ACTIVATIONS,
            ..time(1.1)
        },
        Change::OffloadActivations(HostCopies::Async) => Row {
            leaves: &[
                (Part::InnerActivations, 0.1),
                (Part::BlockOutputs, 0.1),
                (Part::Activations, 0.2),
            ],
            copies: ACTIVATIONS,
            ..time(1.05)
        },
        Change::Compile => Row { leaves: &[(Part::InnerActivations, 0.8)], time: 0.9, ..NOTHING },
        Change::Fsdp(_) => Row { cost: Cost::Gpus, ..time(1.2) },
        Change::Autocast(_) => Row {
            leaves: &[
                (Part::InnerActivations, 0.6),
                (Part::BlockOutputs, 0.8),
                (Part::Activations, 0.8),
                (Part::Logits, 0.8),
            ],
            time: 0.7,
            ..results
        },
        Change::EightBitStates => Row { leaves: &[(Part::OptimizerStates, 0.3)], ..results },
        Change::Bf16Parameters => Row {
            leaves: &[
                (Part::InnerActivations, 0.5),
                (Part::BlockOutputs, 0.5),
                (Part::Activations, 0.5),
                (Part::Logits, 0.6),
                (Part::Gradients, 0.5),
                (Part::StaleGradients, 0.5),
                (Part::OptimizerStates, 0.5),
                (Part::OptimizerTemporaries, 0.5),
                (Part::Parameters, 0.5),
            ],
            time: 0.7,
            ..results
        },
        // Only the program knows what it does; mostly it splits the batch.
        Change::Argument { .. } => Row {
            leaves: match position {
                0 => &SPLIT_IN_2,
                1 => &SPLIT_IN_4,
                _ => &SPLIT_IN_8,
            },
            ..time(1.0 + 0.1 * f64::from(position + 1))
        },
    }
}

const fn split(left: f64) -> [(Part, f64); 4] {
    [
        (Part::InnerActivations, left),
        (Part::BlockOutputs, left),
        (Part::Activations, left),
        (Part::Logits, left),
    ]
}
const SPLIT_IN_2: [(Part, f64); 4] = split(0.5);
const SPLIT_IN_4: [(Part, f64); 4] = split(0.25);
const SPLIT_IN_8: [(Part, f64); 4] = split(0.125);

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

/// What a change probably costs.
pub(crate) fn usual_cost(change: &Change) -> Cost {
    row(change, 0).cost
}

impl PeakModel {
    /// What the program probably needs and costs with changes; the position of an argument's value is asked for.
    pub(crate) fn guess(&self, changes: &[&Change], position: impl Fn(&Change) -> u32) -> Guess {
        let of = |change: &&Change| self.row(change, position(change));
        let rows: Vec<Row> = changes.iter().map(of).collect();
        let gpus = changes.iter().map(|change| change.gpus()).max().unwrap_or(1);
        let left = |part: Part| -> f64 {
            let all = rows.iter().flat_map(|row| row.leaves);
            let left: f64 = all.filter(|(of, _)| *of == part).map(|(_, left)| left).product();
            let sharded = match part {
                Part::Parameters
                | Part::Gradients
                | Part::StaleGradients
                | Part::OptimizerStates
                | Part::OptimizerTemporaries => f64::from(gpus),
                Part::Logits
                | Part::InnerActivations
                | Part::BlockOutputs
                | Part::Activations
                | Part::KvCache
                | Part::Rest => 1.0,
            };
            left / sharded
        };
        let blocks = f64::from(self.blocks.unwrap_or(USUAL_BLOCKS).max(1));
        let (mut kept, mut time) = (1.0, 1.0);
        for row in &rows {
            time *= row.time;
            match row.recomputes {
                Some(Checkpointed::All) => (kept, time) = (1.0 / blocks, time + RECOMPUTED),
                Some(Checkpointed::Blocks(count)) => {
                    let share = f64::from(count) / blocks;
                    (kept, time) = (1.0 - share + 1.0 / blocks, time + RECOMPUTED * share);
                }
                Some(Checkpointed::Selective) => {
                    (kept, time) = (LEFT_BY_SELECTIVE, time + RECOMPUTED_SELECTIVELY);
                }
                None => {}
            }
        }
        let kept: f64 = f64::min(kept, 1.0);
        let factor =
            |part: Part| left(part) * if part == Part::InnerActivations { kept } else { 1.0 };
        let of = |moment: &BTreeMap<Part, Bytes>| -> f64 {
            moment.iter().map(|(part, bytes)| float(*bytes) * factor(*part)).sum()
        };
        let peak = self.moments.iter().map(of).fold(0.0, f64::max);
        let left_over: f64 = rows.iter().map(|row| row.wastes).product();
        let (beside, wasted) = (float(self.beside), float(self.wasted));
        let is_aside = changes.contains(&&Change::OffloadActivations(HostCopies::Async));
        for row in &rows {
            let copied: f64 =
                row.copies.iter().map(|part| self.most(*part) * kept_of(*part, kept)).sum();
            let steps =
                self.steps_per_gib.map_or(UNKNOWN_COPIES, |steps| 2.0 * steps * copied / GIB);
            // Copies on a stream of their own take time only where they take longer than the step.
            let is_hidden = is_aside && row.copies == ACTIVATIONS;
            time = if is_hidden { f64::max(time, steps) } else { time + steps };
        }
        Guess { needed: peak + beside - wasted + wasted * left_over, time }
    }

    fn row(&self, change: &Change, position: u32) -> Row {
        let known = row(change, position);
        let saves_nothing = self.is_half && change.needs_bf16();
        if saves_nothing { Row { leaves: &[], time: 1.0, ..known } } else { known }
    }

    /// The most that there is of a part.
    fn most(&self, part: Part) -> f64 {
        let of =
            |moment: &BTreeMap<Part, Bytes>| moment.get(&part).map_or(0.0, |bytes| float(*bytes));
        self.moments.iter().map(of).fold(0.0, f64::max)
    }
}

fn kept_of(part: Part, kept: f64) -> f64 {
    if part == Part::InnerActivations { kept } else { 1.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a guess needs no more than 53 bits")]
fn float(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
