//! Recurrent nets: cuDNN's workspace, and the reserve that it keeps for backward.
//!
//! `floodmark-cuda-model` computes their sizes; the phantom uses it as well.

use floodmark_cuda_model::recurrent::{Algorithm, Batch, Cell, Gpu, Network, Number, Pass};

use super::{Needs, Rule, Stays};
use crate::call::{Call, DType, TensorInfo, Value};

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "_cudnn_rnn" => Some(forward),
        "_cudnn_rnn_backward" => Some(backward),
        _ => None,
    }
}

/// A network with its batch, from the arguments: the mode is at `mode`, and what follows it has one order.
fn described(call: &Call<'_>, mode: usize) -> Option<(Network, Batch)> {
    let int = |at: usize| match call.args.get(at) {
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    let input = call.tensor(0)?;
    let (hidden, projected) = (int(mode + 1)?, int(mode + 2)?);
    let batch = batch_of(call, input, mode)?;
    let mut network = Network {
        cell: cell(int(mode)?)?,
        algorithm: Algorithm::Standard,
        number: number(input.dtype)?,
        // torch gives every network both; those that it does not have are zeros.
        biases: 2,
        is_bidirectional: is_set(call, mode + 7),
        input: *input.sizes.last()?,
        hidden,
        output: if projected == 0 { hidden } else { projected },
        layers: int(mode + 3)?,
        has_dropout: is_set(call, mode + 6)
            && matches!(call.args.get(mode + 5), Some(Value::Float(rate)) if *rate > 0.0),
    };
    let (capability, multiprocessors) = (call.machine.capability, call.machine.multiprocessors);
    let gpu = Gpu { capability, multiprocessors };
    let is_backward = call.op.ends_with("_backward");
    network.algorithm = Algorithm::chosen_by_torch(&network, &batch, is_backward, gpu);
    Some((network, batch))
}

/// A packed batch has rows of all sequences, step by step, and how many sequences each step has.
fn batch_of(call: &Call<'_>, input: &TensorInfo, mode: usize) -> Option<Batch> {
    let per_step = match call.args.get(mode + 8) {
        Some(Value::Ints(counts)) => counts.as_slice(),
        _ => &[],
    };
    match (per_step.first(), input.sizes.as_slice()) {
        (Some(&longest), &[total_steps, _]) => Some(Batch {
            steps: per_step.len() as u64,
            sequences: longest.unsigned_abs(),
            total_steps,
            is_packed: true,
        }),
        (None, &[first, second, _]) => {
            let is_batch_first = is_set(call, mode + 4);
            let (steps, sequences) = if is_batch_first { (second, first) } else { (first, second) };
            Some(Batch::padded(steps, sequences))
        }
        _ => None,
    }
}

fn cell(mode: u64) -> Option<Cell> {
    [Cell::Relu, Cell::Tanh, Cell::Lstm, Cell::Gru].get(usize::try_from(mode).ok()?).copied()
}

fn number(dtype: DType) -> Option<Number> {
    match dtype {
        DType::F16 => Some(Number::Half),
        DType::BF16 => Some(Number::BFloat16),
        DType::F32 => Some(Number::Float),
        DType::F64 => Some(Number::Double),
        DType::Bool
        | DType::U8
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::Other(_) => None,
    }
}

/// The kernel needs steps first: a batch-first tensor is copied.
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
    let Some((network, batch)) = described(call, 6) else { return };
    let is_training = is_set(call, 12);
    let pass = if is_training { Pass::Training } else { Pass::Inference };
    needs.call("the input, steps first", steps_first(call.tensor(0), is_set(call, 10)));
    needs.call("cuDNN workspace", network.workspace_bytes(&batch, pass));
    if matches!(call.args.get(3), Some(Value::None) | None) {
        needs.push("weights in one piece", network.weight_bytes(), Stays::Result(4));
    }
    if is_training {
        needs.push("cuDNN reserve", network.reserve_bytes(&batch), Stays::Result(3));
    }
}

fn backward(call: &Call<'_>, needs: &mut Needs) {
    let Some((network, batch)) = described(call, 10) else { return };
    let workspace = network.workspace_bytes(&batch, Pass::Training);
    let copy = |at: usize| steps_first(call.tensor(at), is_set(call, 14));
    let (input, output, grad) = (copy(0), copy(6), copy(7));
    // The gradient of the input is allocated before that of the weights, which counts from the start.
    let early = (input + output + grad + workspace).saturating_sub(network.weight_bytes());
    needs.moment("for the gradient of the input", early);
    needs.moment("for the gradients of weights", input + output + workspace);
}

/// The bytes of cuDNN's random states for dropout: 24 for each of 2,048 threads of a multiprocessor.
pub fn dropout_state_bytes(multiprocessors: u64) -> u64 {
    multiprocessors * 2048 * 24
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda};
    use super::*;

    const LSTM: i64 = 2;
    const GRU: i64 = 3;

    /// Workspace and reserve of a forward call, with the steps first.
    fn sizes(cell: i64, input: &[u64], hidden: i64, choices: (bool, bool, Vec<i64>)) -> (u64, u64) {
        let (is_training, is_both_ways, per_step) = choices;
        let mut args = vec![cuda(DType::F32, input).into(), Value::Other, Value::Int(4)];
        args.extend([Value::Other, Value::None, Value::None]);
        args.extend([cell, hidden, 0, 2].map(Value::Int));
        args.extend([Value::Bool(false), Value::Float(0.0), Value::Bool(is_training)]);
        args.extend([Value::Bool(is_both_ways), Value::Ints(per_step)]);
        let found = Made::new("aten::_cudnn_rnn", args).hidden();
        let of =
            |stays| found.iter().filter(|part| part.stays == stays).map(|part| part.bytes).sum();
        (of(Stays::Call), of(Stays::Result(3)))
    }

    #[test]
    fn padded_batches_take_what_an_h200_recorded() {
        let padded = |cell, is_training, is_both_ways| {
            sizes(cell, &[100, 32, 256], 512, (is_training, is_both_ways, Vec::new()))
        };
        assert_eq!(padded(LSTM, true, false), (68_813_312, 72_089_856));
        assert_eq!(padded(GRU, true, true), (148_898_304, 170_393_856));
        assert_eq!(padded(LSTM, false, false), (68_813_312, 0));
    }

    #[test]
    fn packed_batches_take_what_an_h200_recorded() {
        // 32 sequences of 100 down to 1 steps.
        let lengths: Vec<i64> = (0..32).map(|at| (100 - 99 * at / 31).max(1)).collect();
        let per_step: Vec<i64> = (0..100)
            .map(|step| lengths.iter().map(|&length| i64::from(length > step)).sum())
            .collect();
        let rows = lengths.iter().sum::<i64>().unsigned_abs();
        let packed = |cell, is_both_ways| {
            sizes(cell, &[rows, 256], 512, (true, is_both_ways, per_step.clone()))
        };
        assert_eq!(packed(LSTM, true), (113_484_032, 73_486_592));
        assert_eq!(packed(GRU, false), (38_201_600, 43_424_000));
    }

    #[test]
    fn a_copy_is_made_where_the_batch_comes_first() {
        let tensor = cuda(DType::F32, &[32, 100, 256]);
        assert_eq!(steps_first(Some(&tensor), true), 32 * 100 * 256 * 4);
        assert_eq!(steps_first(Some(&tensor), false), 0);
    }

    #[test]
    fn every_thread_of_the_gpu_has_a_random_state() {
        assert_eq!(dropout_state_bytes(132), 6_488_064);
    }
}
