//! Recurrent networks, by the older calls.
//!
//! Where weights lie is laid down by cuDNN's manual. What a pass takes is a model: what the algorithm has
//! to keep, with the rest fitted to one network that was measured on an H200 (two layers of LSTM with
//! dropout, trained), whose sizes it gives to the byte. Other cells and passes without training follow
//! the same thinking and were not measured.

use std::ffi::{c_int, c_uint, c_void};

use super::tensors::{Dropout, Tensor, bytes_of, hand_out, take_back};
use super::{BAD_PARAM, SUCCESS};
use crate::runtime::put;

const LSTM: c_int = 2;
const GRU: c_int = 3;
const TRAINING: c_int = 1;
const INPUT_BIAS: c_int = 1;
const BOTH_BIASES: c_int = 2;
const STATE_BIAS: c_int = 3;

/// A network, as the program describes it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Network {
    cell: c_int,
    /// A gate may have a bias for its input, one for its state, or both.
    has_input_bias: bool,
    has_state_bias: bool,
    directions: u64,
    kind: c_int,
    input: u64,
    hidden: u64,
    /// What a layer gives on: smaller than `hidden` with a projection.
    output: u64,
    layers: u64,
    has_dropout: bool,
}

/// A batch of sequences.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sequences {
    steps: u64,
    batch: u64,
}

/// Where a part of the weights lies, in numbers from their start, and its rows and columns.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    at: u64,
    rows: u64,
    columns: u64,
}

impl Network {
    fn gates(&self) -> u64 {
        match self.cell {
            LSTM => 4,
            GRU => 3,
            _ => 1,
        }
    }

    /// What a pass works with, for each step of a cell: its gates; a GRU has those of the input and of the
    /// state apart.
    fn worked_with(&self) -> u64 {
        if self.cell == GRU { 2 * self.gates() } else { self.gates() }
    }

    /// What a cell keeps for its backward pass: an LSTM its state beside its gates.
    fn kept(&self) -> u64 {
        self.worked_with() + u64::from(self.cell == LSTM)
    }

    /// How many steps' states each layer has under way: fitted, to a GRU in both directions and an LSTM.
    fn steps_at_once(&self) -> u64 {
        if self.cell == GRU { 23 } else { 10 }
    }

    fn has_projection(&self) -> bool {
        self.output != self.hidden
    }

    fn biases_of_gate(&self) -> u64 {
        u64::from(self.has_input_bias) + u64::from(self.has_state_bias)
    }

    /// What goes into a layer. Pseudo layers count the directions of a layer one after the other.
    fn input_of(&self, pseudo_layer: u64) -> u64 {
        if pseudo_layer < self.directions { self.input } else { self.output * self.directions }
    }

    fn matrices_of(&self, pseudo_layer: u64) -> u64 {
        let inner = self.input_of(pseudo_layer) + self.output;
        let projection = if self.has_projection() { self.output * self.hidden } else { 0 };
        self.gates() * self.hidden * inner + projection
    }

    /// All matrices of all layers, then all biases.
    fn weights(&self) -> u64 {
        let layers = self.layers * self.directions;
        let matrices: u64 = (0..layers).map(|layer| self.matrices_of(layer)).sum();
        matrices + layers * self.gates() * self.biases_of_gate() * self.hidden
    }

    /// A layer's matrix: those of the input by gate, those of the state by gate, the projection.
    fn matrix(&self, pseudo_layer: u64, which: u64) -> Option<Part> {
        let before: u64 = (0..pseudo_layer).map(|layer| self.matrices_of(layer)).sum();
        let (gates, input) = (self.gates(), self.input_of(pseudo_layer));
        let of_input = gates * self.hidden * input;
        if which < gates {
            let at = before + which * self.hidden * input;
            Some(Part { at, rows: self.hidden, columns: input })
        } else if which < 2 * gates {
            let at = before + of_input + (which - gates) * self.hidden * self.output;
            Some(Part { at, rows: self.hidden, columns: self.output })
        } else if self.has_projection() && which == 2 * gates {
            let at = before + of_input + gates * self.hidden * self.output;
            Some(Part { at, rows: self.output, columns: self.hidden })
        } else {
            None
        }
    }

    fn bias(&self, pseudo_layer: u64, which: u64) -> Option<Part> {
        let gates = self.gates();
        let is_of_state = (gates..2 * gates).contains(&which);
        let is_there = if is_of_state { self.has_state_bias } else { self.has_input_bias };
        if !is_there || which >= 2 * gates {
            return None;
        }
        let slot = if is_of_state && !self.has_input_bias { which - gates } else { which };
        let layers = self.layers * self.directions;
        let matrices: u64 = (0..layers).map(|layer| self.matrices_of(layer)).sum();
        let before = pseudo_layer * gates * self.biases_of_gate();
        let at = matrices + (before + slot) * self.hidden;
        Some(Part { at, rows: self.hidden, columns: 1 })
    }

    /// Bytes of a pass over `batch`: to work with, and to keep for the backward pass.
    fn temporary_bytes(&self, batch: &Sequences, is_training: bool) -> (u64, u64) {
        let bytes = bytes_of(self.kind);
        let step = batch.batch * self.hidden * bytes;
        let states = batch.steps * step;
        let layers = self.layers * self.directions;
        let between = (self.layers.saturating_sub(1)) * self.directions;
        let passed_on = states * self.directions.min(between);
        if !is_training {
            // The gates of one layer at a time, and what it gives to the next.
            let gates = states * self.worked_with() * self.directions;
            return (gates + passed_on + self.steps_at_once() * layers * step + ROUNDING, 0);
        }
        let work =
            states * layers * self.worked_with() + passed_on + self.steps_at_once() * layers * step;
        let mut kept = states * (layers * self.kept() + between) + ROUNDING / 2;
        if self.has_dropout && between > 0 {
            // One bit for each number that may be dropped.
            kept += between * batch.steps * batch.batch * self.hidden / 8;
        }
        (work + ROUNDING, kept)
    }
}

/// What is left over between parts that are rounded up: fitted.
const ROUNDING: u64 = 512;

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnCreateRNNDescriptor(to: *mut *mut Network) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { hand_out(to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnDestroyRNNDescriptor(descriptor: *mut Network) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { take_back(descriptor) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnSetRNNDescriptor_v8(
    descriptor: *mut Network,
    _algorithm: c_int,
    cell: c_int,
    biases: c_int,
    direction: c_int,
    _input_mode: c_int,
    kind: c_int,
    _precision: c_int,
    _math: c_int,
    input: i32,
    hidden: i32,
    output: i32,
    layers: i32,
    dropout: *const Dropout,
    _flags: c_uint,
) -> i32 {
    let number = |value: i32| u64::try_from(value).unwrap_or(0);
    // SAFETY: the caller's descriptors, by cuDNN's contract.
    let (network, dropout) = unsafe { (descriptor.as_mut(), dropout.as_ref()) };
    let Some(network) = network else { return BAD_PARAM };
    *network = Network {
        cell,
        has_input_bias: matches!(biases, INPUT_BIAS | BOTH_BIASES),
        has_state_bias: matches!(biases, STATE_BIAS | BOTH_BIASES),
        directions: if direction == 0 { 1 } else { 2 },
        kind,
        input: number(input),
        hidden: number(hidden),
        output: number(output),
        layers: number(layers),
        has_dropout: dropout.is_some_and(|dropout| dropout.rate > 0.0),
    };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnCreateRNNDataDescriptor(to: *mut *mut Sequences) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { hand_out(to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnDestroyRNNDataDescriptor(descriptor: *mut Sequences) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { take_back(descriptor) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnSetRNNDataDescriptor(
    descriptor: *mut Sequences,
    _kind: c_int,
    _layout: c_int,
    steps: c_int,
    batch: c_int,
    _width: c_int,
    _lengths: *const c_int,
    _padding: *const c_void,
) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    let Some(sequences) = (unsafe { descriptor.as_mut() }) else { return BAD_PARAM };
    let number = |value: c_int| u64::try_from(value).unwrap_or(0);
    *sequences = Sequences { steps: number(steps), batch: number(batch) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    _handle: *mut c_void,
    network: *const Network,
    mode: c_int,
    batch: *const Sequences,
    work: *mut usize,
    kept: *mut usize,
) -> i32 {
    // SAFETY: the caller's descriptors and pointers, by cuDNN's contract.
    unsafe {
        let (Some(network), Some(batch)) = (network.as_ref(), batch.as_ref()) else {
            return BAD_PARAM;
        };
        let (to_work, to_keep) = network.temporary_bytes(batch, mode == TRAINING);
        put(work, usize::try_from(to_work).unwrap_or(usize::MAX));
        put(kept, usize::try_from(to_keep).unwrap_or(usize::MAX));
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnGetRNNWeightSpaceSize(
    _handle: *mut c_void,
    network: *const Network,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's descriptor and pointer, by cuDNN's contract.
    unsafe {
        let Some(network) = network.as_ref() else { return BAD_PARAM };
        let size = network.weights() * bytes_of(network.kind);
        put(bytes, usize::try_from(size).unwrap_or(usize::MAX));
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudnnGetRNNWeightParams(
    _handle: *mut c_void,
    network: *const Network,
    pseudo_layer: i32,
    _length: usize,
    weights: *const c_void,
    which: i32,
    matrix: *mut Tensor,
    matrix_at: *mut *mut c_void,
    bias: *mut Tensor,
    bias_at: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    let Some(network) = (unsafe { network.as_ref() }) else { return BAD_PARAM };
    let (Ok(layer), Ok(which)) = (u64::try_from(pseudo_layer), u64::try_from(which)) else {
        return BAD_PARAM;
    };
    // SAFETY: the caller's descriptors and pointers, by cuDNN's contract.
    unsafe {
        place(network, weights, network.matrix(layer, which), matrix, matrix_at);
        place(network, weights, network.bias(layer, which), bias, bias_at);
    }
    SUCCESS
}

/// Says where a part lies: its shape and its address, or null for one that is not there.
///
/// # Safety
/// The pointers are null or can be written to.
unsafe fn place(
    network: &Network,
    weights: *const c_void,
    part: Option<Part>,
    shape: *mut Tensor,
    at: *mut *mut c_void,
) {
    let address = part.as_ref().map_or(std::ptr::null_mut(), |part| {
        let offset = usize::try_from(part.at * bytes_of(network.kind)).unwrap_or(0);
        weights.cast::<u8>().wrapping_add(offset).cast_mut().cast()
    });
    let number = |value: u64| c_int::try_from(value).unwrap_or(c_int::MAX);
    // SAFETY: by this function's contract.
    unsafe {
        put(at, address);
        if let (Some(shape), Some(part)) = (shape.as_mut(), part) {
            *shape = Tensor::dense(network.kind, &[1, number(part.rows), number(part.columns)]);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cudnnRNNForward() -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudnnRNNBackwardData_v8() -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudnnRNNBackwardWeights_v8() -> i32 {
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of the networks that were measured.
    fn measured() -> Network {
        Network {
            cell: LSTM,
            has_input_bias: true,
            has_state_bias: true,
            directions: 1,
            kind: 0,
            input: 512,
            hidden: 512,
            output: 512,
            layers: 2,
            has_dropout: true,
        }
    }

    #[test]
    fn the_measured_networks_take_what_they_took_on_the_device() {
        let batch = Sequences { steps: 256, batch: 32 };
        assert_eq!(measured().weights() * 4, 16_809_984);
        assert_eq!(measured().temporary_bytes(&batch, true), (152_306_176, 185_073_920));
        let gru = Network {
            cell: GRU,
            directions: 2,
            input: 256,
            hidden: 256,
            output: 256,
            has_dropout: false,
            ..measured()
        };
        let batch = Sequences { steps: 100, batch: 32 };
        assert_eq!(gru.temporary_bytes(&batch, true), (88_211_968, 85_197_056));
    }

    #[test]
    fn parts_lie_one_after_the_other_and_fill_the_weights() {
        for network in [
            measured(),
            Network { cell: GRU, directions: 2, input: 100, ..measured() },
            Network { directions: 2, output: 64, ..measured() },
            Network { has_input_bias: false, layers: 3, ..measured() },
            Network { has_input_bias: false, has_state_bias: false, ..measured() },
        ] {
            let layers = network.layers * network.directions;
            let all = |part: fn(&Network, u64, u64) -> Option<Part>| {
                let parts =
                    (0..layers).flat_map(move |layer| (0..9).map(move |which| (layer, which)));
                parts.filter_map(move |(layer, which)| part(&network, layer, which))
            };
            let mut end = 0;
            for part in all(Network::matrix).chain(all(Network::bias)) {
                assert_eq!(part.at, end);
                end += part.rows * part.columns;
            }
            assert_eq!(end, network.weights());
        }
    }
}
