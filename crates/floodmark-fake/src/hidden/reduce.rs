//! How torch splits a reduction among blocks, and the buffer of their partial results.
//!
//! Follows `setReduceConfig` of `Reduce.cuh`: threads go along the dimension that moves fastest in memory;
//! where each would have too many values to add up, several blocks share an output, and each leaves its part
//! in a buffer.

use crate::call::{Machine, TensorInfo};

const MOST_THREADS: u64 = 512;
const WARP: u64 = 32;
const FEWEST_VALUES: u64 = 16;
const MOST_VALUES: u64 = 256;
/// The threads that a multiprocessor holds, by its compute capability.
fn resident_threads(capability: u32) -> u64 {
    match capability {
        75 => 1024,
        86..=89 | 120.. => 1536,
        _ => 2048,
    }
}

/// A reduction of a tensor over some of its dimensions.
#[derive(Debug)]
pub(super) struct Reduction<'a> {
    pub(super) input: &'a TensorInfo,
    /// The reduced dimensions; all of them if none is named.
    pub(super) dims: &'a [i64],
    /// The bytes of what a thread carries from value to value.
    pub(super) carried: u64,
}

/// Size and stride of a dimension.
type Dim = (u64, u64);

impl Reduction<'_> {
    /// The bytes of the buffer; 0 where no blocks share an output.
    pub(super) fn buffer_bytes(&self, machine: &Machine) -> u64 {
        let (reduced, kept) = self.coalesced();
        let inputs: u64 = reduced.iter().map(|dim| dim.0).product();
        let outputs: u64 = kept.iter().map(|dim| dim.0).product();
        if inputs == 0 || outputs == 0 {
            return 0;
        }
        let along_inputs = match (reduced.first(), kept.first()) {
            (Some(reduced), Some(kept)) => reduced.1 < kept.1,
            (_, None) => true,
            (None, _) => return 0,
        };
        let vector = if along_inputs { 1 } else { vector_of(&reduced, &kept) };
        let is_flat = along_inputs && kept.is_empty() && reduced.len() == 1;
        let plan =
            ReduceConfig::new(inputs, outputs, along_inputs, vector, is_flat && reduced[0].1 == 1);
        plan.buffer_elements(machine) * self.carried
    }

    /// Reduced dimensions and the others, each from the fastest to the slowest, neighbours joined.
    fn coalesced(&self) -> (Vec<Dim>, Vec<Dim>) {
        let rank = self.input.sizes.len();
        let goes = |at: usize| {
            let (at, rank) = (at.cast_signed(), rank.cast_signed());
            self.dims.is_empty()
                || self.dims.iter().any(|&dim| dim == at as i64 || dim + rank as i64 == at as i64)
        };
        let all = |is_reduced: bool| -> Vec<Dim> {
            (0..rank)
                .rev()
                .filter(|&at| goes(at) == is_reduced && self.input.sizes[at] != 1)
                .map(|at| (self.input.sizes[at], self.input.strides[at]))
                .collect()
        };
        let mut reduced = all(true);
        reduced.sort_by_key(|dim| dim.1);
        (joined(&reduced), joined(&all(false)))
    }
}

fn joined(dims: &[Dim]) -> Vec<Dim> {
    let mut found: Vec<Dim> = Vec::new();
    for &(size, stride) in dims {
        match found.last_mut() {
            Some(last) if last.0 * last.1 == stride => last.0 *= size,
            _ => found.push((size, stride)),
        }
    }
    found
}

/// How many outputs a thread loads at once, where outputs lie side by side.
fn vector_of(reduced: &[Dim], kept: &[Dim]) -> u64 {
    let [(size, 1), slower @ ..] = kept else { return 1 };
    let mut vector = 4;
    let strides = reduced.iter().chain(slower).map(|dim| dim.1);
    for number in strides.chain([*size]) {
        while !number.is_multiple_of(vector) {
            vector /= 2;
        }
    }
    vector
}

/// Blocks and threads of a reduction.
#[derive(Debug)]
struct ReduceConfig {
    inputs: u64,
    outputs: u64,
    along_inputs: bool,
    vector: u64,
    width: u64,
    height: u64,
}

impl ReduceConfig {
    fn new(inputs: u64, outputs: u64, along_inputs: bool, vector: u64, is_flat: bool) -> Self {
        let (mut first, second) = if along_inputs { (inputs, outputs) } else { (outputs, inputs) };
        if is_flat && first > 128 {
            first /= 4;
        }
        first /= vector;
        let most = MOST_THREADS / vector;
        let power = |size: u64| if size < most { 1 << size.max(1).ilog2() } else { most };
        let height = power(second).min(most / power(first).min(WARP));
        let width = power(first).min(most / height);
        Self { inputs, outputs, along_inputs, vector, width, height }
    }

    fn buffer_elements(&self, machine: &Machine) -> u64 {
        let mut step_in = if self.along_inputs { self.width } else { 1 };
        let mut step_out = if self.along_inputs { 1 } else { self.width };
        let values = self.inputs.div_ceil(step_in);
        if values < self.height * FEWEST_VALUES && values < MOST_VALUES {
            return 0;
        }
        step_in *= self.height;
        let values = self.inputs.div_ceil(step_in);
        step_out = step_out.max(1);
        let grid = (self.outputs / self.vector).div_ceil(step_out);
        let blocks = resident_threads(machine.capability) / (self.width * self.height);
        let target = u64::from(machine.multiprocessors) * blocks;
        if values < MOST_VALUES || grid > target {
            return 0;
        }
        let enough = target.div_ceil(grid).min(values.div_ceil(FEWEST_VALUES));
        let shares = enough.max(values.div_ceil(MOST_VALUES));
        let lanes = if self.along_inputs { 1 } else { self.width * self.vector };
        if shares > 1 { self.outputs * shares * lanes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{cuda, h200, strided};
    use super::*;
    use crate::call::DType;

    fn buffer(input: &TensorInfo, dims: &[i64], carried: u64) -> u64 {
        Reduction { input, dims, carried }.buffer_bytes(&h200())
    }

    #[test]
    fn columns_are_shared_by_many_blocks() {
        let of = |sizes: &[u64]| buffer(&cuda(DType::F32, sizes), &[0], 4);
        assert_eq!(of(&[8192, 768]), 50_331_648);
        assert_eq!(of(&[65_536, 256]), 134_217_728);
        assert_eq!(of(&[32_768, 4096]), 138_412_032);
        assert_eq!(of(&[1365, 768]), 8_650_752);
    }

    #[test]
    fn dimensions_that_lie_together_count_as_one() {
        assert_eq!(buffer(&cuda(DType::BF16, &[4, 1024, 3072]), &[0, 1], 4), 100_663_296);
        assert_eq!(buffer(&cuda(DType::F32, &[8, 2048, 2048]), &[1], 4), 142_606_336);
        let last = strided(DType::F32, &[32, 64, 112, 112], &[802_816, 1, 7168, 64]);
        assert_eq!(buffer(&last, &[-1, -2], 4), 138_412_032);
    }

    #[test]
    fn a_whole_tensor_takes_a_value_for_each_block() {
        assert_eq!(buffer(&cuda(DType::F32, &[8192, 768]), &[], 4), 2112);
        assert_eq!(buffer(&cuda(DType::F32, &[1 << 28]), &[], 4), 8192);
    }

    #[test]
    fn rows_need_none() {
        assert_eq!(buffer(&cuda(DType::F32, &[8192, 768]), &[1], 4), 0);
        assert_eq!(buffer(&cuda(DType::F32, &[64, 1 << 22]), &[1], 4), 8192);
    }

    #[test]
    fn a_smaller_multiprocessor_holds_fewer_threads() {
        let input = cuda(DType::F32, &[8192, 768]);
        let small = Machine { capability: 75, multiprocessors: 40, ..h200() };
        let found = Reduction { input: &input, dims: &[], carried: 4 }.buffer_bytes(&small);
        assert_eq!(found, 4 * 80);
    }

    #[test]
    fn an_expanded_input_is_not_loaded_in_vectors() {
        assert_eq!(buffer(&strided(DType::BF16, &[8192, 3072], &[0, 0]), &[0], 4), 2_359_296);
    }
}
