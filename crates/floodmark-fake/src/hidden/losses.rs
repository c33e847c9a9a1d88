//! Losses and softmax: products as large as the input, and results whose storage is larger than a
//! number.

use super::{Needs, Rule, Stays};
use crate::call::{Call, Value};

const NONE: i64 = 0;

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "_softmax_backward_data" => Some(softmax_backward),
        "_safe_softmax" => Some(safe_softmax),
        "mse_loss" | "smooth_l1_loss" => Some(reduced_in_place),
        "binary_cross_entropy_with_logits" => Some(cross_entropy_with_logits),
        _ => None,
    }
}

/// The gradient times the output.
fn softmax_backward(call: &Call<'_>, needs: &mut Needs) {
    if let Some(grad) = call.tensor(0) {
        needs.call("the gradient times the output", grad.bytes());
    }
}

/// Whether each element is masked.
fn safe_softmax(call: &Call<'_>, needs: &mut Needs) {
    if let Some(input) = call.tensor(0) {
        needs.call("which elements are masked", input.numel());
    }
}

/// The loss of each element is computed in the result's storage, and the sum is stored there: the storage of a
/// number is as large as the input.
fn reduced_in_place(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    if matches!(call.args.get(2), Some(Value::Int(NONE))) {
        return;
    }
    needs.push("the loss of each element", input.bytes(), Stays::Result(0));
    needs.call("the loss of each element", input.bytes());
}

fn cross_entropy_with_logits(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    let is_reduced = !matches!(call.args.get(4), Some(Value::Int(NONE)));
    needs.call("parts of the loss of each element", input.bytes() * (1 + u64::from(is_reduced)));
}

#[cfg(test)]
mod tests {
    use super::super::Hidden;
    use super::super::made::{Made, cuda};
    use super::*;
    use crate::call::DType;

    #[test]
    fn the_gradient_of_a_softmax_is_multiplied_first() {
        let args = vec![cuda(DType::BF16, &[64, 1024, 1024]).into(); 2];
        assert_eq!(Made::new("aten::_softmax_backward_data", args).most(), 134_217_728);
    }

    #[test]
    fn a_loss_keeps_the_losses_of_elements() {
        let args = vec![cuda(DType::BF16, &[4096, 4096]).into(); 2];
        let made = Made::new("aten::mse_loss", args);
        let what = "the loss of each element";
        let kept = Hidden { what, bytes: 33_554_432, stays: Stays::Result(0) };
        assert_eq!(made.hidden(), [kept, Hidden { stays: Stays::Call, ..kept }]);
    }

    #[test]
    fn a_safe_softmax_looks_for_masked_rows() {
        let args = vec![cuda(DType::F32, &[16, 8, 256, 256]).into()];
        assert_eq!(Made::new("aten::_safe_softmax", args).most(), 8_388_608);
    }

    #[test]
    fn a_loss_that_is_not_reduced_takes_nothing() {
        let mut args: Vec<Value> = vec![cuda(DType::BF16, &[4096, 4096]).into(); 2];
        args.push(Value::Int(0));
        assert_eq!(Made::new("aten::mse_loss", args).hidden(), []);
    }
}
