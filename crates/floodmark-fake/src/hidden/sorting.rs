//! Sorts, and operators that sort: a second copy of keys and values, and tables of the radix sort.

use super::{Needs, Rule};
use crate::call::{Call, TensorInfo, Value};

/// Slices up to this length are sorted in place by a block each.
const SMALL_SLICE: u64 = 4096;
/// Slices of this length keep a GPU busy, one after the other.
const LARGE_SLICE: u64 = 1_000_000;

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "sort" | "argsort" => Some(sort),
        "topk" => Some(topk),
        "median" | "nanmedian" => Some(median),
        "_unique2" | "unique_dim" | "_unique" => Some(unique),
        "randperm" => Some(randperm),
        "multinomial" => Some(multinomial),
        _ => None,
    }
}

/// The memory of CUB's radix sort of pairs: both buffers again, a table for every tile of keys, and a table
/// of 256 entries for each significant byte of a key.
pub(super) fn radix_pairs(count: u64, key_bytes: u64, value_bytes: u64, key_bits: u64) -> u64 {
    let tile = match key_bytes {
        1 | 2 => 5632,
        4 => 5376,
        _ => 4608,
    };
    let buffers =
        (count * key_bytes).next_multiple_of(256) + (count * value_bytes).next_multiple_of(256);
    buffers + count.div_ceil(tile) * 1024 + key_bits.div_ceil(8) * 2048 + 511
}

fn whole_radix(count: u64, key_bytes: u64) -> u64 {
    radix_pairs(count, key_bytes, 8, key_bytes * 8)
}

fn sort(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    let at = if call.op.ends_with(".stable") { 2 } else { 1 };
    let dim = match call.args.get(at) {
        Some(Value::Int(dim)) => *dim,
        _ => -1,
    };
    sort_along(needs, input, dim);
}

fn sort_along(needs: &mut Needs, input: &TensorInfo, dim: i64) {
    let rank = input.sizes.len();
    let at = if dim < 0 { dim + rank.cast_signed() as i64 } else { dim };
    let Some(&slice) = usize::try_from(at).ok().and_then(|at| input.sizes.get(at)) else { return };
    if slice <= SMALL_SLICE {
        return;
    }
    let (count, key) = (input.numel(), input.dtype.bytes());
    let slices = count / slice;
    if at + 1 != rank.cast_signed() as i64 {
        needs.call("keys, values and indices along the dimension", count * (2 * key + 8));
    }
    if slices == 1 || slice >= LARGE_SLICE {
        needs.call("indices", slice * 8);
        needs.moment("a radix sort", whole_radix(slice, key));
    } else if slices < 128 {
        needs.call("indices of slices", 2 * count * 8);
        needs.moment("a radix sort", count * key + whole_radix(count, key));
    } else {
        needs.call("indices", count * 8);
        needs.moment("a radix sort of segments", count * (key + 8) + 255);
    }
}

/// Counts of digits for every block of a slice, where slices are long enough for several blocks.
fn topk(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    let dim = match call.args.get(2) {
        Some(Value::Int(dim)) => *dim,
        _ => -1,
    };
    let rank = input.sizes.len().cast_signed() as i64;
    let at = if dim < 0 { dim + rank } else { dim };
    let Some(&slice) = usize::try_from(at).ok().and_then(|at| input.sizes.get(at)) else { return };
    if at + 1 != rank || !input.is_contiguous() {
        needs.call("the input, its slices side by side", input.bytes());
    }
    let slices = input.numel() / slice.max(1);
    if !shares_slices(slices, slice) {
        return;
    }
    let lanes = u64::from(call.machine.multiprocessors) * 6 * 256;
    let items = input.numel().div_ceil(lanes).clamp(4, 64);
    let blocks = slice.div_ceil(256 * items) * slices;
    needs.call("counts of digits", blocks * 512 + slices * 1024 + blocks * 8 + slices * 20);
}

/// When torch takes several blocks for a slice.
fn shares_slices(slices: u64, slice: u64) -> bool {
    let shortest = match slices {
        0..=20 => 20_000,
        21..=40 => 10_000,
        41..=80 => 8_000,
        81..=200 => 5_000,
        201..=800 => 3_000,
        801..=4000 => 800,
        _ => 400,
    };
    slice >= shortest
}

/// The median of all is the middle of the sorted.
fn median(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0).filter(|_| call.args.len() == 1) else { return };
    let (count, key) = (input.numel(), input.dtype.bytes());
    needs.call("the sorted input", count * (key + 8));
    if count > SMALL_SLICE {
        needs.call("indices", count * 8);
        needs.moment("a radix sort", whole_radix(count, key));
    }
}

fn unique(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    let (count, key) = (input.numel(), input.dtype.bytes());
    let is_asked = |at: usize| matches!(call.args.get(at), Some(Value::Bool(true)));
    let sorted = (count * key).next_multiple_of(256);
    if is_asked(2) || is_asked(3) {
        needs.call("the sorted input and where it was", sorted + count * 8);
        // It is done before the results are made, which are as long as the input at first.
        let results = count * (key + 8 * u64::from(is_asked(2)) + 8 * u64::from(is_asked(3)));
        needs.moment("a radix sort", (count * 8 + whole_radix(count, key)).saturating_sub(results));
    } else {
        needs.call("the sorted input", sorted);
        let results = count * key;
        needs.moment("a radix sort", radix_pairs(count, key, 0, key * 8).saturating_sub(results));
    }
}

/// Random keys are sorted: of 32 bits where they are few.
fn randperm(call: &Call<'_>, needs: &mut Needs) {
    let Some(&Value::Int(count)) = call.args.first() else { return };
    let count = count.unsigned_abs();
    let key = if count < 30_000 { 4 } else { 8 };
    needs.call("random keys, and numbers to sort by them", 2 * count * key + count * 8);
    needs.moment("a radix sort", radix_pairs(count, key, 8, 24));
}

/// One sample is the largest of the probabilities divided by random numbers; several with replacement are
/// searched in running sums.
fn multinomial(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    let is_several = matches!(call.args.get(1), Some(Value::Int(samples)) if *samples > 1);
    let replaces = matches!(call.args.get(2), Some(Value::Bool(true)));
    let copies = if is_several && replaces { 3 } else { 1 };
    needs.call("distributions", copies * input.bytes());
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda};
    use super::*;
    use crate::call::DType;

    fn sorted(dtype: DType, sizes: &[u64], dim: i64) -> u64 {
        Made::new("aten::sort", vec![cuda(dtype, sizes).into(), Value::Int(dim)]).most()
    }

    #[test]
    fn a_radix_sort_needs_both_buffers_again() {
        assert_eq!(whole_radix(1 << 24, 4), 204_531_199);
        assert_eq!(whole_radix(1 << 24, 2), 170_827_263);
        assert_eq!(whole_radix(100_000, 4), 1_228_287);
        assert_eq!(whole_radix(1 << 22, 8), 68_058_623);
        assert_eq!(radix_pairs(65_536, 8, 8, 17), 1_070_591);
    }

    #[test]
    fn a_sort_depends_on_the_number_of_slices() {
        assert_eq!(sorted(DType::F32, &[1 << 24], 0), 134_217_728 + 204_531_199);
        assert_eq!(sorted(DType::F32, &[4096, 4096], 1), 0);
        assert_eq!(
            sorted(DType::F32, &[64, 262_144], -1),
            2 * 134_217_728 + 67_108_864 + 204_531_199
        );
        let copies = 2 * 33_554_432 + 67_108_864;
        assert_eq!(sorted(DType::F32, &[65_536, 128], 0), copies + 67_108_864 + 100_663_551);
        assert_eq!(sorted(DType::I32, &[64, 16_384], 1), 2 * 8_388_608 + 4_194_304 + 12_792_319);
        let copies = 2 * 67_108_864 + 134_217_728;
        assert_eq!(sorted(DType::F32, &[1 << 20, 16], 0), copies + 8_388_608 + 12_792_319);
    }

    #[test]
    fn the_largest_are_found_by_digits() {
        let most = |sizes: &[u64]| {
            Made::new("aten::topk", vec![cuda(DType::F32, sizes).into(), Value::Int(64)]).most()
        };
        assert_eq!(most(&[4096, 4096]), 2_097_152 + 4_194_304 + 32_768 + 81_920);
        assert_eq!(most(&[65_536, 128]), 0);
    }

    #[test]
    fn samples_need_distributions() {
        let args = |samples, replaces| {
            vec![
                cuda(DType::F32, &[512, 50_257]).into(),
                Value::Int(samples),
                Value::Bool(replaces),
            ]
        };
        assert_eq!(Made::new("aten::multinomial", args(1, false)).most(), 102_926_336);
        assert_eq!(Made::new("aten::multinomial", args(8, true)).most(), 3 * 102_926_336);
    }
}
