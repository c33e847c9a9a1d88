//! Lists of tensors: only norms need hidden memory.

use super::{Needs, Rule};
use crate::call::{Call, Value};

/// The elements that one block of a norm over a list adds up.
const CHUNK: u64 = 65_536;

pub(super) fn rule(op: &str) -> Option<Rule> {
    (op == "_foreach_norm" || op == "_foreach_max").then_some(norm as Rule)
}

/// A number for each chunk of the largest tensor, for every tensor; from torch 2.15 for each chunk alone.
fn norm(call: &Call<'_>, needs: &mut Needs) {
    let Some(Value::Tensors(tensors)) = call.args.first() else { return };
    let chunks = tensors.iter().map(|tensor| tensor.numel().div_ceil(CHUNK));
    let numbers = if call.machine.torch < (2, 15) {
        tensors.len() as u64 * chunks.max().unwrap_or(0)
    } else {
        chunks.sum()
    };
    let bytes = tensors.first().map_or(4, |tensor| tensor.dtype.bytes().max(4));
    needs.call("norms of chunks", numbers * bytes);
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda};
    use super::*;
    use crate::call::DType;

    #[test]
    fn a_norm_has_a_number_for_each_chunk_of_the_largest() {
        let mut tensors = vec![cuda(DType::F32, &[768, 768]); 240];
        tensors.push(cuda(DType::F32, &[50_257, 768]));
        let made = Made::new("aten::_foreach_norm.Scalar", vec![Value::Tensors(tensors)]);
        assert_eq!(made.most(), 567_796);
    }
}
