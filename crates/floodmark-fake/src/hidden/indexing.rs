//! Writes to indices that may repeat: the indices are sorted.

use super::sorting::radix_pairs;
use super::{Needs, Rule};
use crate::call::{Call, TensorInfo, Value};

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "index_put" | "index_put_" | "_index_put_impl_" => Some(index_put),
        "cumprod" => Some(cumprod),
        "roll" => Some(roll),
        _ => None,
    }
}

/// Indices, sorted indices, and two permutations: eight bytes each.
fn index_put(call: &Call<'_>, needs: &mut Needs) {
    let (Some(target), Some(Value::Tensors(indices)), Some(values)) =
        (call.tensor(0), call.args.get(1), call.tensor(2))
    else {
        return;
    };
    if !matches!(call.args.get(3), Some(Value::Bool(true))) || indices.is_empty() {
        return;
    }
    let count = broadcast(indices);
    let places: u64 = target.sizes.iter().take(indices.len()).product();
    let rest: u64 = target.sizes.iter().skip(indices.len()).product();
    if values.numel() < count * rest {
        needs.call("values for each place", count * rest * values.dtype.bytes());
    }
    needs.call("places, sorted and not", 4 * count * 8);
    let bits = u64::from(places.max(1).ilog2()) + 1;
    needs.moment("a radix sort of places", radix_pairs(count, 8, 8, bits));
}

/// How many elements indices have when they are expanded to each other.
fn broadcast(indices: &[TensorInfo]) -> u64 {
    let rank = indices.iter().map(|index| index.sizes.len()).max().unwrap_or(0);
    let size = |back: usize| {
        indices
            .iter()
            .filter_map(|index| index.sizes.iter().rev().nth(back))
            .copied()
            .max()
            .unwrap_or(1)
    };
    (0..rank).map(size).product()
}

fn cumprod(call: &Call<'_>, needs: &mut Needs) {
    needs.contiguous("the input, side by side", call.tensor(0));
}

/// Dimensions are rolled one after the other.
fn roll(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    if matches!(call.args.get(2), Some(Value::Ints(dims)) if dims.len() > 1) {
        needs.call("the input, rolled along one dimension", input.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda};
    use super::*;
    use crate::call::DType;

    fn put(values: &[u64], accumulates: bool) -> u64 {
        let args = vec![
            cuda(DType::F32, &[100_000, 64]).into(),
            Value::Tensors(vec![cuda(DType::I64, &[65_536])]),
            cuda(DType::F32, values).into(),
            Value::Bool(accumulates),
        ];
        Made::new("aten::index_put_", args).most()
    }

    #[test]
    fn places_that_may_meet_are_sorted() {
        assert_eq!(put(&[65_536, 64], true), 4 * 524_288 + 1_070_591);
        assert_eq!(put(&[65_536, 64], false), 0);
    }

    #[test]
    fn a_value_for_all_is_expanded() {
        assert_eq!(put(&[64], true), 16_777_216 + 4 * 524_288 + 1_070_591);
    }
}
