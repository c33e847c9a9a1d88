//! Gradients of embeddings: indices are sorted, and rows of equal indices are added up in parts.

use super::sorting::radix_pairs;
use super::{Needs, Rule};
use crate::call::{Call, TensorInfo, Value};

/// Up to this many indices are not sorted.
const FEW: u64 = 3072;
/// The rows that one thread adds up.
const ROWS_OF_A_PART: u64 = 10;
/// A table of few rows, each used often, is added to at once: torch 2.11 and later. Between the measured
/// sizes, the bounds are assumed.
const FEW_ROWS: u64 = 512;
const USES_OF_FEW_ROWS: u64 = 32;

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
    needs.contiguous("the indices, side by side", Some(indices));
    let counts_uses = matches!(call.args.get(4), Some(Value::Bool(true)));
    if indices.numel() > FEW || counts_uses {
        Segments::new(grad, indices, rows).add(needs, call.machine.torch >= (2, 11));
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
    if !matches!(call.args.get(at + 2), Some(&Value::Int(MAX))) {
        Segments::new(grad, indices, rows).add(needs, false);
    }
}

/// Runs of equal indices. The host does not have their number: memory for the most is allocated.
struct Segments {
    count: u64,
    index_bytes: u64,
    rows: u64,
    width: u64,
    element_bytes: u64,
}

impl Segments {
    fn new(grad: &TensorInfo, indices: &TensorInfo, rows: i64) -> Self {
        Self {
            count: indices.numel(),
            index_bytes: indices.dtype.bytes(),
            rows: rows.unsigned_abs(),
            width: grad.sizes.last().copied().unwrap_or(0),
            element_bytes: grad.dtype.bytes(),
        }
    }

    fn add(&self, needs: &mut Needs, knows_few_rows: bool) {
        let (count, bytes) = (self.count, self.index_bytes);
        needs.call("sorted indices, and where they were", 2 * count * bytes);
        let sort = count * bytes + radix_pairs(count, bytes, bytes, bytes * 8);
        // It is freed before the result is allocated.
        let result = self.rows * self.width * self.element_bytes;
        needs.moment("a radix sort of indices", sort.saturating_sub(result));
        let segments = count.min(self.rows);
        let parts = count / ROWS_OF_A_PART + segments;
        let mut tables = (count + 2 * segments + parts) * bytes;
        let sums =
            if knows_few_rows && self.rows <= FEW_ROWS && count >= USES_OF_FEW_ROWS * self.rows {
                tables += parts * bytes;
                if self.element_bytes < 4 { self.rows * self.width * 4 } else { 0 }
            } else {
                parts * self.width * 4
            };
        needs.moment("segments and the sums of their parts", tables + sums);
    }
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
    fn few_rows_are_added_to_at_once() {
        let tables = 3 * 32_768 + 2 * 800 + 2 * 4072;
        assert_eq!(dense(DType::BF16, 4096, 100, 768), tables + 307_200);
        assert_eq!(
            dense(DType::F32, 65_536, 600, 256),
            3 * 524_288 + 2 * 4800 + 57_224 + 7_324_672
        );
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
