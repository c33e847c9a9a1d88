//! The workspace: scratch memory of one call.
//!
//! Forward and backward have different layouts. A training pass requests the larger of the two.

use super::algorithm::Algorithm;
use super::network::{Batch, Cell, Network, Number, Pass, aligned, part, size};

/// Room to align the whole buffer.
pub(crate) const SLACK: u128 = 256;
/// A workspace of cuBLAS for each pseudo layer.
const CUBLAS: u128 = 8 << 20;
/// The highest number of steps whose gates one direction computes at a time.
const STEPS_AT_ONCE: u64 = 256;

impl Network {
    /// The bytes of the workspace.
    pub fn workspace_bytes(&self, batch: &Batch, pass: Pass) -> u64 {
        let shared = self.shared();
        let forward = shared + self.forward(batch) + self.packing(batch, 1);
        size(match pass {
            Pass::Inference => forward,
            Pass::Training => {
                let backward = shared + self.backward(batch) + self.packing(batch, 2);
                forward.max(backward)
            }
        })
    }

    /// cuDNN has no persistent kernels for bfloat16 and uses its standard ones.
    fn is_persistent(&self) -> bool {
        self.algorithm != Algorithm::Standard && self.number != Number::BFloat16
    }

    fn is_lstm(&self) -> bool {
        self.cell == Cell::Lstm
    }

    /// Of all steps of all sequences, as wide as the state.
    fn states(&self, batch: &Batch, count: u128) -> u128 {
        part(self, count, batch.total_steps, self.hidden)
    }

    /// Of one step of all pseudo layers, as wide as the state.
    fn step(&self, batch: &Batch, count: u128) -> u128 {
        part(self, count * u128::from(self.pseudo_layers()), batch.sequences, self.hidden)
    }

    /// A copy of all matrices, and room for cuBLAS.
    fn shared(&self) -> u128 {
        let layers = u128::from(self.pseudo_layers());
        SLACK + layers * CUBLAS + part(self, 1, self.matrices(), 1)
    }

    fn forward(&self, batch: &Batch) -> u128 {
        let (gates, directions) = (u128::from(self.cell.gates()), u128::from(self.directions()));
        let is_persistent = self.is_persistent();
        let mut bytes = if is_persistent {
            self.states(batch, gates * directions)
                + self.states(batch, 4 * gates)
                + self.step(batch, 2)
        } else {
            let at_once = batch.sequences.saturating_mul(STEPS_AT_ONCE);
            let is_whole = self.is_bidirectional || batch.total_steps < at_once;
            let rows = if is_whole { batch.total_steps } else { at_once };
            part(self, gates * directions, rows, self.hidden) + self.step(batch, gates)
        };
        if self.is_lstm() {
            bytes += self.step(batch, 2);
        }
        if self.is_bidirectional {
            bytes += self.states(batch, 4) + self.step(batch, if is_persistent { 1 } else { 2 });
        } else if self.has_dropout {
            bytes += self.states(batch, 1);
        }
        bytes + self.projected(batch)
    }

    fn backward(&self, batch: &Batch) -> u128 {
        let inputs = if self.is_bidirectional { 4 } else { 1 };
        let widest = self.input.max(self.hidden);
        let mut bytes = part(self, inputs, batch.total_steps, widest) + self.gradients(batch);
        if self.is_persistent() {
            bytes += self.states(batch, self.cell.kept_gates()) + self.persistent(batch);
        }
        let steps = if self.is_persistent() && !self.is_bidirectional { 2 } else { 1 };
        bytes += self.step(batch, steps);
        if self.is_lstm() {
            bytes += self.step(batch, 2);
        }
        if self.is_bidirectional {
            bytes += self.step(batch, 2);
        }
        bytes + self.projected(batch)
    }

    /// Gradients of outputs. Standard kernels of one direction go through several layers in waves, which
    /// need a few steps of each.
    fn gradients(&self, batch: &Batch) -> u128 {
        let count = if self.layers > 1 { 2 } else { 1 };
        if self.is_bidirectional {
            return self.states(batch, 2 * count);
        }
        if self.is_persistent() {
            return self.states(batch, count);
        }
        if self.layers == 1 {
            return self.states(batch, 1);
        }
        let wave = steps_of_wave(batch);
        let rows = batch.sequences.saturating_mul(wave.max(8) + wave * self.layers);
        part(self, 1, rows.min(batch.total_steps), self.hidden)
    }

    /// The buffer through which the multiprocessors of a persistent kernel communicate. The kernels for any width have a
    /// smallest size, in two-byte numbers.
    fn persistent(&self, batch: &Batch) -> u128 {
        let exchanged = self.states(batch, 8);
        if self.algorithm == Algorithm::PersistStaticSmallHidden {
            return exchanged;
        }
        let least = (u128::from(batch.sequences) + 2432) * u128::from(self.hidden) * 2;
        exchanged.max(aligned(least))
    }

    /// The states before their projection.
    fn projected(&self, batch: &Batch) -> u128 {
        if self.has_projection() { self.states(batch, u128::from(self.directions())) } else { 0 }
    }

    /// Padded sequences are packed first: inputs, outputs and states, and in backward their gradients.
    fn packing(&self, batch: &Batch, copies: u128) -> u128 {
        if batch.is_packed {
            return 0;
        }
        let (rows, layers) = (batch.total_steps, u128::from(self.pseudo_layers()));
        let outputs = part(self, u128::from(self.directions()), rows, self.output);
        let states = 2 * part(self, layers, batch.sequences, self.output);
        let cells = if self.is_lstm() { 2 * self.step(batch, 1) } else { 0 };
        let lengths = aligned(8 * u128::from(batch.sequences));
        lengths + copies * (part(self, 1, rows, self.input) + outputs + states + cells)
    }
}

/// Steps that one layer is ahead of the next in a wave.
fn steps_of_wave(batch: &Batch) -> u64 {
    match batch.sequences {
        0..=1 => 32,
        2..=8 => 16,
        9..=16 => 8,
        _ if batch.steps >= 128 => 8,
        17..=96 => 4,
        _ => 2,
    }
}
