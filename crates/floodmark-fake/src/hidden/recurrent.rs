//! Recurrent nets: cuDNN's workspace, and the reserve that it keeps for backward.
//!
//! The sizes follow a model that fits recordings of an LSTM and of a GRU in both directions on an H200; of
//! plain cells it is a guess.

use super::{Needs, Rule, Stays};
use crate::call::{Call, TensorInfo, Value};

const LSTM: i64 = 2;
const GRU: i64 = 3;
const ROUNDING: u64 = 512;

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "_cudnn_rnn" => Some(forward),
        "_cudnn_rnn_backward" => Some(backward),
        _ => None,
    }
}

/// A network and its batch, in numbers.
struct Network {
    /// What a pass works with for each step of a cell.
    worked_with: u64,
    /// What it keeps beside that.
    kept_beside: u64,
    steps_at_once: u64,
    layers: u64,
    directions: u64,
    /// Of one state of all steps and samples.
    state_bytes: u64,
    step_bytes: u64,
    state_numbers: u64,
    has_dropout: bool,
    is_training: bool,
}

impl Network {
    /// From the arguments, of which the mode is at `mode` and what follows it has one order.
    fn new(call: &Call<'_>, mode: usize) -> Option<Self> {
        let int = |at: usize| match call.args.get(at) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        let is_set = |at: usize| is_set(call, at);
        let input = call.tensor(0)?;
        let (kind, hidden) = (int(mode)?, int(mode + 1)?.unsigned_abs());
        let &[first, second, _] = input.sizes.as_slice() else { return None };
        let (batch, steps) = if is_set(mode + 4) { (first, second) } else { (second, first) };
        let step_bytes = batch * hidden * input.dtype.bytes();
        Some(Self {
            worked_with: match kind {
                LSTM => 4,
                // The gates of the input and of the state apart.
                GRU => 6,
                _ => 1,
            },
            kept_beside: u64::from(kind == LSTM),
            steps_at_once: if kind == GRU { 23 } else { 10 },
            layers: int(mode + 3)?.unsigned_abs(),
            directions: 1 + u64::from(is_set(mode + 7)),
            state_bytes: steps * step_bytes,
            step_bytes,
            state_numbers: steps * batch * hidden,
            has_dropout: matches!(call.args.get(mode + 5), Some(Value::Float(dropout)) if *dropout > 0.0),
            is_training: is_set(mode + 6),
        })
    }

    fn between(&self) -> u64 {
        self.layers.saturating_sub(1) * self.directions
    }

    fn workspace_bytes(&self) -> u64 {
        let layers = self.layers * self.directions;
        let at_once = if self.is_training { layers } else { self.directions };
        let passed_on = self.state_bytes * self.directions.min(self.between());
        self.state_bytes * at_once * self.worked_with
            + passed_on
            + self.steps_at_once * layers * self.step_bytes
            + ROUNDING
    }

    fn reserve_bytes(&self) -> u64 {
        if !self.is_training {
            return 0;
        }
        let layers = self.layers * self.directions;
        let cells = layers * (self.worked_with + self.kept_beside);
        let kept = self.state_bytes * (cells + self.between()) + ROUNDING / 2;
        let dropped = self.between() * self.state_numbers / 8;
        kept + if self.has_dropout && self.between() > 0 { dropped } else { 0 }
    }
}

/// Steps come first inside: a copy of what does not lie so, where the batch comes first.
fn steps_first(tensor: Option<&TensorInfo>, is_batch_first: bool) -> u64 {
    let Some(tensor) = tensor.filter(|tensor| is_batch_first && tensor.sizes.len() == 3) else {
        return 0;
    };
    let swap = |of: &[u64]| vec![of[1], of[0], of[2]];
    let (sizes, strides) = (swap(&tensor.sizes), swap(&tensor.strides));
    if (TensorInfo { sizes, strides, ..tensor.clone() }).is_contiguous() {
        0
    } else {
        tensor.bytes()
    }
}

fn is_set(call: &Call<'_>, at: usize) -> bool {
    matches!(call.args.get(at), Some(Value::Bool(true)))
}

fn forward(call: &Call<'_>, needs: &mut Needs) {
    let Some(network) = Network::new(call, 6) else { return };
    needs.call("the input, steps first", steps_first(call.tensor(0), is_set(call, 10)));
    needs.call("cuDNN workspace", network.workspace_bytes());
    if matches!(call.args.get(3), Some(Value::None) | None) {
        needs.push("weights in one piece", weight_bytes(call), Stays::Result(4));
    }
    needs.push("cuDNN reserve", network.reserve_bytes(), Stays::Result(3));
}

fn backward(call: &Call<'_>, needs: &mut Needs) {
    let Some(network) = Network::new(call, 10) else { return };
    let copy = |at: usize| steps_first(call.tensor(at), is_set(call, 14));
    let (input, output, grad) = (copy(0), copy(6), copy(7));
    // The gradient of the input is there before that of the weights is made, which counts from the start.
    let early =
        (input + output + grad + network.workspace_bytes()).saturating_sub(weight_bytes(call));
    needs.moment("for the gradient of the input", early);
    needs.moment("for the gradients of weights", input + output + network.workspace_bytes());
}

fn weight_bytes(call: &Call<'_>) -> u64 {
    match call.args.get(1) {
        Some(Value::Tensors(weights)) => weights.iter().map(TensorInfo::bytes).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda};
    use super::*;
    use crate::call::DType;

    fn forward(cell: i64, is_both_ways: bool) -> (u64, u64) {
        forward_of(cell, is_both_ways, [32, 256, 512], 0.1)
    }

    fn forward_of(cell: i64, is_both_ways: bool, sizes: [u64; 3], dropout: f64) -> (u64, u64) {
        let input = cuda(DType::F32, &sizes).into();
        let hidden = i64::try_from(sizes[2]).expect("a small number");
        let mut args =
            vec![input, Value::Other, Value::Int(4), Value::None, Value::None, Value::None];
        args.extend([Value::Int(cell), Value::Int(hidden), Value::Int(0), Value::Int(2)]);
        args.extend([
            Value::Bool(true),
            Value::Float(dropout),
            Value::Bool(true),
            Value::Bool(is_both_ways),
        ]);
        let found = Made::new("aten::_cudnn_rnn", args).hidden();
        let of =
            |stays| found.iter().filter(|part| part.stays == stays).map(|part| part.bytes).sum();
        (of(Stays::Call), of(Stays::Result(3)))
    }

    #[test]
    fn an_lstm_keeps_its_gates() {
        assert_eq!(forward(LSTM, false), (16_777_216 + 152_306_176, 185_073_920));
        assert_eq!(forward(LSTM, true), (16_777_216 + 304_611_840, 370_147_584));
    }

    #[test]
    fn a_gru_has_the_gates_of_input_and_state_apart() {
        let (work, kept) = forward_of(GRU, true, [32, 100, 256], 0.0);
        assert_eq!((work - 3_276_800, kept), (88_211_968, 85_197_056));
    }

    #[test]
    fn a_plain_cell_has_one() {
        assert_eq!(forward(1, false), (16_777_216 + 51_642_880, 50_856_192));
    }
}
