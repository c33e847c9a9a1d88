//! Recurrent networks, by the older calls.
//!
//! cuDNN's manual defines the layout of the weights. `floodmark-cuda-model` computes the sizes of the
//! buffers of a pass; fake tensors use it as well.

use std::ffi::{c_int, c_uint, c_void};

use floodmark_cuda_model::recurrent::{Algorithm, Batch, Cell, Network as Sizes, Number, Pass};

use super::tensors::{Dropout, Tensor, bytes_of, destroy_descriptor, new_descriptor};
use super::{BAD_PARAM, NOT_SUPPORTED, SUCCESS};
use crate::guard::{ConstOrNull, OrNull};
use crate::status::put;

const TRAINING: c_int = 1;
const INPUT_BIAS: c_int = 1;
const BOTH_BIASES: c_int = 2;
const STATE_BIAS: c_int = 3;
const PACKED: c_int = 1;

/// A network, as the program describes it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Network {
    sizes: Sizes,
    kind: c_int,
    /// A gate may have a bias for its input, one for its state, or both.
    has_input_bias: bool,
    has_state_bias: bool,
}

/// A batch of sequences.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sequences(Batch);

/// The offset of a part of the weights, in numbers, and its rows and columns.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    at: u64,
    rows: u64,
    columns: u64,
}

impl Network {
    fn before(&self, pseudo_layer: u64) -> u64 {
        (0..pseudo_layer).map(|layer| self.sizes.matrices_of(layer)).sum()
    }

    /// A layer's matrix: those of the input by gate, those of the state by gate, the projection.
    fn matrix(&self, pseudo_layer: u64, which: u64) -> Option<Part> {
        let Sizes { hidden, output, .. } = self.sizes;
        let before = self.before(pseudo_layer);
        let (gates, input) = (self.sizes.cell.gates(), self.sizes.input_of(pseudo_layer));
        let of_input = gates * hidden * input;
        if which < gates {
            Some(Part { at: before + which * hidden * input, rows: hidden, columns: input })
        } else if which < 2 * gates {
            let at = before + of_input + (which - gates) * hidden * output;
            Some(Part { at, rows: hidden, columns: output })
        } else if self.sizes.has_projection() && which == 2 * gates {
            let at = before + of_input + gates * hidden * output;
            Some(Part { at, rows: output, columns: hidden })
        } else {
            None
        }
    }

    /// All biases lie behind all matrices.
    fn bias(&self, pseudo_layer: u64, which: u64) -> Option<Part> {
        let gates = self.sizes.cell.gates();
        let is_of_state = (gates..2 * gates).contains(&which);
        let is_there = if is_of_state { self.has_state_bias } else { self.has_input_bias };
        if !is_there || which >= 2 * gates {
            return None;
        }
        let slot = if is_of_state && !self.has_input_bias { which - gates } else { which };
        let before = pseudo_layer * gates * self.sizes.biases;
        let at = self.sizes.matrices() + (before + slot) * self.sizes.hidden;
        Some(Part { at, rows: self.sizes.hidden, columns: 1 })
    }
}

fn cell(mode: c_int) -> Cell {
    match mode {
        0 => Cell::Relu,
        2 => Cell::Lstm,
        3 => Cell::Gru,
        _ => Cell::Tanh,
    }
}

fn number(kind: c_int) -> Number {
    match kind {
        1 => Number::Double,
        2 => Number::Half,
        9 => Number::BFloat16,
        _ => Number::Float,
    }
}

/// `None` for one whose sizes were not recorded: kernels that are compiled when they are needed.
fn algorithm(which: c_int) -> Option<Algorithm> {
    match which {
        0 => Some(Algorithm::Standard),
        1 => Some(Algorithm::PersistStatic),
        3 => Some(Algorithm::PersistStaticSmallHidden),
        _ => None,
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateRNNDescriptor(to: *mut *mut Network) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroyRNNDescriptor(descriptor: OrNull<Network>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnSetRNNDescriptor_v8(
    descriptor: *mut Network,
    which: c_int,
    mode: c_int,
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
    let positive = |value: i32| u64::try_from(value).unwrap_or(0);
    // SAFETY: the caller's descriptors, by cuDNN's contract.
    let (network, dropout) = unsafe { (descriptor.as_mut(), dropout.as_ref()) };
    let Some(network) = network else { return BAD_PARAM };
    let Some(algorithm) = algorithm(which) else { return NOT_SUPPORTED };
    let has_input_bias = matches!(biases, INPUT_BIAS | BOTH_BIASES);
    let has_state_bias = matches!(biases, STATE_BIAS | BOTH_BIASES);
    let sizes = Sizes {
        cell: cell(mode),
        algorithm,
        number: number(kind),
        biases: u64::from(has_input_bias) + u64::from(has_state_bias),
        is_bidirectional: direction != 0,
        input: positive(input),
        hidden: positive(hidden),
        output: positive(output),
        layers: positive(layers),
        has_dropout: dropout.is_some_and(|dropout| dropout.rate > 0.0),
    };
    *network = Network { sizes, kind, has_input_bias, has_state_bias };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateRNNDataDescriptor(to: *mut *mut Sequences) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroyRNNDataDescriptor(descriptor: OrNull<Sequences>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnSetRNNDataDescriptor(
    descriptor: *mut Sequences,
    _kind: c_int,
    layout: c_int,
    steps: c_int,
    batch: c_int,
    _width: c_int,
    lengths: *const c_int,
    _padding: *const c_void,
) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    let Some(sequences) = (unsafe { descriptor.as_mut() }) else { return BAD_PARAM };
    let positive = |value: c_int| u64::try_from(value).unwrap_or(0);
    let (Ok(count), false) = (usize::try_from(batch), lengths.is_null()) else { return BAD_PARAM };
    // SAFETY: a length for each sequence, by cuDNN's contract.
    let lengths = unsafe { std::slice::from_raw_parts(lengths, count) };
    *sequences = Sequences(Batch {
        steps: positive(steps),
        sequences: positive(batch),
        total_steps: lengths.iter().map(|&length| positive(length)).sum(),
        is_packed: layout == PACKED,
    });
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    _handle: *mut c_void,
    network: *const Network,
    mode: c_int,
    batch: *const Sequences,
    work: OrNull<usize>,
    kept: OrNull<usize>,
) -> i32 {
    // SAFETY: the caller's descriptors and pointers, by cuDNN's contract.
    unsafe {
        let (Some(network), Some(batch)) = (network.as_ref(), batch.as_ref()) else {
            return BAD_PARAM;
        };
        if !network.sizes.is_supported() {
            return NOT_SUPPORTED;
        }
        let (pass, reserve) = if mode == TRAINING {
            (Pass::Training, network.sizes.reserve_bytes(&batch.0))
        } else {
            (Pass::Inference, 0)
        };
        let workspace = network.sizes.workspace_bytes(&batch.0, pass);
        put(work, usize::try_from(workspace).unwrap_or(usize::MAX));
        put(kept, usize::try_from(reserve).unwrap_or(usize::MAX));
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetRNNWeightSpaceSize(
    _handle: *mut c_void,
    network: *const Network,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's descriptor and pointer, by cuDNN's contract.
    unsafe {
        let Some(network) = network.as_ref() else { return BAD_PARAM };
        put(bytes, usize::try_from(network.sizes.weight_bytes()).unwrap_or(usize::MAX));
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetRNNWeightParams(
    _handle: *mut c_void,
    network: *const Network,
    pseudo_layer: i32,
    _length: usize,
    weights: ConstOrNull<c_void>,
    which: i32,
    matrix: OrNull<Tensor>,
    matrix_at: OrNull<*mut c_void>,
    bias: OrNull<Tensor>,
    bias_at: OrNull<*mut c_void>,
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

/// Writes the shape and the address of a part; null for one that does not exist.
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

#[crate::entry_point]
extern "C" fn cudnnRNNForward() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnRNNBackwardData_v8() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnRNNBackwardWeights_v8() -> i32 {
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lstm() -> Network {
        let sizes = Sizes {
            cell: Cell::Lstm,
            biases: 2,
            input: 512,
            hidden: 512,
            output: 512,
            layers: 2,
            ..Sizes::default()
        };
        Network { sizes, kind: 0, has_input_bias: true, has_state_bias: true }
    }

    fn changed(change: impl Fn(&mut Network)) -> Network {
        let mut network = lstm();
        change(&mut network);
        network
    }

    #[test]
    fn parts_lie_one_after_the_other_and_fill_the_weights() {
        for network in [
            lstm(),
            changed(|network| {
                network.sizes.cell = Cell::Gru;
                network.sizes.is_bidirectional = true;
                network.sizes.input = 100;
            }),
            changed(|network| {
                network.sizes.is_bidirectional = true;
                network.sizes.output = 64;
            }),
            changed(|network| {
                (network.has_input_bias, network.sizes.biases, network.sizes.layers) =
                    (false, 1, 3);
            }),
            changed(|network| {
                (network.has_input_bias, network.has_state_bias) = (false, false);
                network.sizes.biases = 0;
            }),
        ] {
            let layers = network.sizes.pseudo_layers();
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
            assert_eq!(end * 4, network.sizes.weight_bytes());
        }
    }
}
