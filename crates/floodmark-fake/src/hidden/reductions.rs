//! Sums, means, norms, extremes, variances: the buffer through which blocks meet, and copies in another type.

use super::reduce::Reduction;
use super::{Needs, Rule};
use crate::call::{Call, DType, TensorInfo, Value};

/// By the whole name: `max.dim` carries more than `max`.
pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "sum" | "sum.dim_IntList" | "mean" | "mean.dim" | "nansum" | "prod" | "prod.dim_int" => {
            Some(sum)
        }
        "linalg_vector_norm" | "norm.ScalarOpt_dim" | "norm.ScalarOpt_dim_dtype" => Some(norm),
        "norm.Scalar" => Some(whole_norm),
        "amax" | "amin" | "max" | "min" => Some(extreme),
        "any" | "all" | "any.dim" | "all.dim" | "any.dims" | "all.dims" => Some(truth),
        "max.dim" | "min.dim" | "argmax" | "argmin" => Some(extreme_with_index),
        "std.correction" | "var.correction" | "var_mean.correction" | "std_mean.correction" => {
            Some(variance)
        }
        "logsumexp" => Some(logsumexp),
        _ => None,
    }
}

/// The dimensions that an argument names.
pub(super) fn dims(call: &Call<'_>, at: usize) -> Vec<i64> {
    match call.args.get(at) {
        Some(Value::Ints(dims)) => dims.clone(),
        Some(Value::Int(dim)) => vec![*dim],
        _ => Vec::new(),
    }
}

fn buffer(call: &Call<'_>, needs: &mut Needs, dims: &[i64], carried: u64) {
    if let Some(input) = call.tensor(0) {
        let bytes = Reduction { input, dims, carried }.buffer_bytes(call.machine);
        needs.moment("parts of a reduction", bytes);
    }
}

/// The type in which values are added up.
pub(super) fn carried(dtype: DType) -> u64 {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => 4,
        DType::F64 | DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            8
        }
        DType::Other(bytes) => u64::from(bytes),
    }
}

fn sum(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    if is_short_integer(input) {
        needs.call("the input in int64", input.numel() * 8);
    }
    buffer(call, needs, &dims(call, 1), carried(input.dtype));
}

fn is_short_integer(tensor: &TensorInfo) -> bool {
    matches!(tensor.dtype, DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32)
}

fn norm(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    buffer(call, needs, &dims(call, 2), carried(input.dtype));
}

fn whole_norm(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    buffer(call, needs, &[], carried(input.dtype));
}

fn extreme(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    buffer(call, needs, &dims(call, 1), input.dtype.bytes());
}

fn truth(call: &Call<'_>, needs: &mut Needs) {
    buffer(call, needs, &dims(call, 1), 1);
}

/// A value and where it was, padded.
fn extreme_with_index(call: &Call<'_>, needs: &mut Needs) {
    buffer(call, needs, &dims(call, 1), 16);
}

/// A mean, a sum of squares and two counts.
fn variance(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    buffer(call, needs, &dims(call, 1), 4 * carried(input.dtype));
}

fn logsumexp(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    needs.call("exponentials", input.bytes());
    buffer(call, needs, &dims(call, 1), carried(input.dtype));
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda};
    use super::*;

    fn most(op: &'static str, dtype: DType, sizes: &[u64], dim: i64) -> u64 {
        Made::new(op, vec![cuda(dtype, sizes).into(), Value::Ints(vec![dim])]).most()
    }

    #[test]
    fn what_is_carried_depends_on_the_reduction() {
        let sizes = [65_536, 256];
        assert_eq!(most("aten::amax", DType::F32, &sizes, 0), 134_217_728);
        assert_eq!(most("aten::amax", DType::BF16, &sizes, 0), 67_108_864);
        assert_eq!(most("aten::max.dim", DType::BF16, &sizes, 0), 536_870_912);
        assert_eq!(most("aten::std.correction", DType::BF16, &sizes, 0), 536_870_912);
    }

    #[test]
    fn truth_values_are_added_up_as_integers() {
        let bytes = most("aten::sum.dim_IntList", DType::Bool, &[65_536, 256], 0);
        assert_eq!(bytes, 134_217_728 + 268_435_456);
    }

    #[test]
    fn a_logsumexp_keeps_the_exponentials_for_a_moment() {
        assert_eq!(most("aten::logsumexp", DType::BF16, &[4096, 4096], -1), 33_554_432);
    }
}
