//! Gradients of embeddings: indices are sorted, and rows of equal indices are added up in parts.

use super::sorting::radix_pairs;
use super::{Needs, Rule};
use crate::call::{Call, Value};

/// Up to so many indices no sort is worth it.
const FEW: u64 = 3072;
/// The rows that one thread adds up.
const ROWS_OF_A_PART: u64 = 10;

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "embedding_dense_backward" => Some(dense),
        "_embedding_bag_backward" | "_embedding_bag_dense_backward" => Some(bag),
        _ => None,
    }
}

fn dense(call: &Call<'_>, needs: &mut Needs) {
    let (Some(grad), Some(indices), Some(&Value::Int(rows))) =
        (call.tensor(0), call.tensor(1), call.args.get(2))
    else {
        return;
    };
    needs.contiguous("the gradient, its rows side by side", Some(grad));
    let counts_uses = matches!(call.args.get(4), Some(Value::Bool(true)));
    let Some(&width) = grad.sizes.last() else { return };
    if indices.numel() > FEW || counts_uses {
        by_segments(needs, indices.numel(), indices.dtype.bytes(), rows.unsigned_abs(), width);
    }
}

fn bag(call: &Call<'_>, needs: &mut Needs) {
    const MAX: i64 = 2;
    let at = if call.op.starts_with("aten::_embedding_bag_dense") { 5 } else { 6 };
    let (Some(grad), Some(indices), Some(&Value::Int(rows))) =
        (call.tensor(0), call.tensor(1), call.args.get(at))
    else {
        return;
    };
    if matches!(call.args.get(at + 2), Some(&Value::Int(MAX))) {
        return;
    }
    let Some(&width) = grad.sizes.last() else { return };
    by_segments(needs, indices.numel(), indices.dtype.bytes(), rows.unsigned_abs(), width);
}

/// Segments are runs of equal indices. How many there are is not known on the host: there is room for most.
fn by_segments(needs: &mut Needs, count: u64, index_bytes: u64, rows: u64, width: u64) {
    needs.call("sorted indices, and where they were", 2 * count * index_bytes);
    let sort = radix_pairs(count, index_bytes, index_bytes, index_bytes * 8);
    let segments = count.min(rows);
    let parts = count / ROWS_OF_A_PART + segments;
    let tables = (count + 2 * segments + parts) * index_bytes;
    let sums = parts * width * 4;
    // The sort is over before the result is made, which no moment says: it counts where it is the larger.
    needs.moment("a radix sort of indices", (count * index_bytes + sort).min(tables + sums));
    needs.moment("segments and the sums of their parts", tables + sums);
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda};
    use super::*;
    use crate::call::DType;

    fn dense(dtype: DType, count: u64, rows: u64, width: u64) -> u64 {
        let args = vec![
            cuda(dtype, &[count, width]).into(),
            cuda(DType::I64, &[count]).into(),
            Value::Int(rows.cast_signed()),
        ];
        Made::new("aten::embedding_dense_backward", args).most()
    }

    #[test]
    fn few_indices_take_nothing() {
        assert_eq!(dense(DType::F32, 3072, 50_257, 768), 0);
    }

    #[test]
    fn many_take_a_row_for_each_part() {
        let tables = 3 * 65_536 + 2 * 65_536 + 72_088;
        assert_eq!(dense(DType::BF16, 8192, 50_257, 768), tables + 27_681_792);
        let tables = 3 * 2_097_152 + 2 * 1_026_048 + 1_235_760;
        assert_eq!(dense(DType::F32, 262_144, 128_256, 2048), tables + 1_265_418_240);
    }

    #[test]
    fn bags_are_sorted_too() {
        let index = |count| Value::from(cuda(DType::I64, &[count]));
        let grad = cuda(DType::F32, &[2048, 64]).into();
        let mut args = vec![grad, index(65_536), index(2048), index(65_536), index(2048), index(0)];
        args.extend([Value::Int(100_000), Value::Bool(false), Value::Int(0)]);
        let tables = 3 * 524_288 + 2 * 524_288 + 576_712;
        assert_eq!(Made::new("aten::_embedding_bag_backward", args).most(), tables + 18_454_784);
    }
}
