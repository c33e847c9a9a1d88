//! The reserve space: the values that forward saves for backward.

use super::network::{Batch, Cell, Network, aligned, part, size};
use super::workspace::SLACK;

impl Network {
    /// The bytes of the reserve space of a training pass.
    pub fn reserve_bytes(&self, batch: &Batch) -> u64 {
        let (rows, layers) = (batch.total_steps, u128::from(self.pseudo_layers()));
        let between = u128::from(self.layers.saturating_sub(1) * self.directions());
        let states = |count: u128| part(self, count, rows, self.hidden);
        let mut bytes = SLACK + states(layers * self.cell.kept_gates()) + states(between);
        if self.cell == Cell::Lstm {
            bytes += states(layers);
        }
        if self.has_projection() {
            bytes += states(layers) + part(self, layers, rows, self.output);
        }
        if self.has_dropout {
            bytes = bytes.saturating_add(between.saturating_mul(self.mask_bytes(batch)));
        }
        size(bytes)
    }

    /// One bit for each number that one direction of a layer may drop, for padded steps too.
    fn mask_bytes(&self, batch: &Batch) -> u128 {
        let width = u128::from(self.output) * u128::from(self.directions());
        let cells = u128::from(batch.steps) * u128::from(batch.sequences);
        let bits = cells.saturating_mul(width);
        aligned(bits.div_ceil(8))
    }
}
