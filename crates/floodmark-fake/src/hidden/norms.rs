//! Norms: inputs and gradients that must lie side by side, and sums over many rows in two passes.

use super::images::is_channels_last;
use super::reduce::Reduction;
use super::{Needs, Rule};
use crate::call::{Call, TensorInfo, Value};

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "native_layer_norm" | "_fused_rms_norm" => Some(forward),
        "native_group_norm" => Some(group),
        "native_batch_norm" | "_native_batch_norm_legit" => Some(batch),
        "native_layer_norm_backward" => Some(layer_backward),
        "_fused_rms_norm_backward" => Some(rms_backward),
        "native_group_norm_backward" => Some(group_backward),
        _ => None,
    }
}

fn forward(call: &Call<'_>, needs: &mut Needs) {
    needs.contiguous("the input, side by side", call.tensor(0));
}

/// A scale and a shift for each sample and channel, in float32.
fn group(call: &Call<'_>, needs: &mut Needs) {
    needs.contiguous("the input, side by side", call.tensor(0));
    needs.moment("scales and shifts", 2 * 4 * channels(call, 3));
}

fn group_backward(call: &Call<'_>, needs: &mut Needs) {
    copies(call, needs);
    needs.moment("sums of channels", 3 * 4 * channels(call, 5));
}

/// Means of parts of the places, where channels move fastest and the kernel is torch's own.
fn batch(call: &Call<'_>, needs: &mut Needs) {
    let Some(input) = call.tensor(0) else { return };
    let is_own = match input.sizes.len() {
        2 => true,
        4 | 5 => is_channels_last(input) && input.dtype.bytes() == 2,
        _ => false,
    };
    let is_training = matches!(call.args.get(5), Some(Value::Bool(true)));
    if is_own && is_training {
        let channels = input.sizes[1].max(1);
        let blocks = (input.numel() / channels).div_ceil(256).min(128);
        needs.moment("means of parts", 4 * 4 * channels * blocks);
    }
}

/// Samples times channels, which stand side by side among the arguments.
fn channels(call: &Call<'_>, at: usize) -> u64 {
    let Some([Value::Int(samples), Value::Int(channels)]) = call.args.get(at..at + 2) else {
        return 0;
    };
    (samples * channels).unsigned_abs()
}

fn copies(call: &Call<'_>, needs: &mut Needs) {
    needs.contiguous("the gradient, side by side", call.tensor(0));
    needs.contiguous("the input, side by side", call.tensor(1));
}

/// Gradient, input, shape, mean, deviation, weight, bias, mask.
fn layer_backward(call: &Call<'_>, needs: &mut Needs) {
    copies(call, needs);
    gradients_of_parameters(call, needs, call.tensor(5), 7);
}

/// Gradient, input, shape, deviation, weight, mask.
fn rms_backward(call: &Call<'_>, needs: &mut Needs) {
    copies(call, needs);
    gradients_of_parameters(call, needs, call.tensor(4), 5);
}

/// With many rows and few columns, torch 2.8 and later adds rows up in parts, and then the parts.
fn gradients_of_parameters(
    call: &Call<'_>,
    needs: &mut Needs,
    weight: Option<&TensorInfo>,
    mask: usize,
) {
    let (Some(input), Some(weight), Some(Value::Bools(mask))) =
        (call.tensor(1), weight, call.args.get(mask))
    else {
        return;
    };
    let columns = weight.numel().max(1);
    let rows = input.numel() / columns;
    let blocks = columns / 32;
    if call.machine.torch < (2, 8)
        || rows <= 65_536
        || blocks >= u64::from(call.machine.multiprocessors) / 2
    {
        return;
    }
    let asked = mask.iter().skip(1).filter(|&&is_asked| is_asked).count() as u64;
    let parts = (32_768 / columns.div_ceil(32)).min(rows.div_ceil(32));
    let sums =
        TensorInfo { sizes: vec![parts, columns], strides: vec![columns, 1], ..weight.clone() };
    needs.call("sums of parts of the rows", asked * sums.bytes());
    let buffer = Reduction { input: &sums, dims: &[0], carried: 4 }.buffer_bytes(call.machine);
    needs.moment("parts of a reduction", if asked > 0 { buffer } else { 0 });
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda, strided};
    use super::*;
    use crate::call::DType;

    fn layer(dtype: DType, rows: u64, columns: u64, grad: Option<TensorInfo>) -> u64 {
        let input = cuda(dtype, &[rows, columns]);
        let row = cuda(dtype, &[columns]);
        let column = cuda(DType::F32, &[rows, 1]);
        let grad = grad.unwrap_or_else(|| input.clone());
        let mut args: Vec<Value> = vec![grad.into(), input.into(), Value::Ints(vec![1])];
        args.extend([column.clone(), column, row.clone(), row].map(Value::Tensor));
        args.push(Value::Bools(vec![true, true, true]));
        Made::new("aten::native_layer_norm_backward", args).most()
    }

    #[test]
    fn few_rows_take_nothing() {
        assert_eq!(layer(DType::F32, 8192, 768, None), 0);
        assert_eq!(layer(DType::F32, 131_072, 4096, None), 0);
    }

    #[test]
    fn many_rows_are_added_up_in_parts() {
        assert_eq!(layer(DType::F32, 131_072, 768, None), 2 * 4_193_280 + 8_650_752);
        assert_eq!(layer(DType::BF16, 200_000, 256, None), 2 * 2_097_152 + 8_388_608);
    }

    #[test]
    fn an_expanded_gradient_is_copied() {
        let grad = strided(DType::BF16, &[8192, 768], &[0, 0]);
        assert_eq!(layer(DType::BF16, 8192, 768, Some(grad)), 12_582_912);
    }

    #[test]
    fn channels_that_move_fastest_have_means_of_parts() {
        let of = |input: TensorInfo| {
            let mut args = vec![Value::None; 5];
            args.insert(0, input.into());
            args[5] = Value::Bool(true);
            Made::new("aten::native_batch_norm", args).most()
        };
        assert_eq!(of(cuda(DType::F32, &[8192, 512])), 262_144);
        let last = |sizes: &[u64], strides: &[u64]| of(strided(DType::BF16, sizes, strides));
        assert_eq!(last(&[64, 512, 28, 28], &[401_408, 1, 14_336, 512]), 1_048_576);
        assert_eq!(last(&[64, 2048, 7, 7], &[100_352, 1, 14_336, 2048]), 425_984);
        assert_eq!(of(cuda(DType::BF16, &[64, 512, 28, 28])), 0);
    }

    #[test]
    fn groups_have_sums_of_channels() {
        let input = Value::from(cuda(DType::F32, &[16, 320, 64, 64]));
        let mut args = vec![input.clone(), input, Value::None, Value::None, Value::None];
        args.extend([Value::Int(16), Value::Int(320)]);
        assert_eq!(Made::new("aten::native_group_norm_backward", args).most(), 3 * 20_480);
    }
}
