//! Operators on images: gradients that need the input's layout, columns, Fourier transforms.

use floodmark_cuda_model::fourier::{Transform, work_bytes};

use super::{Needs, Rule, Stays};
use crate::call::{Call, DType, TensorInfo, Value};

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "max_pool2d_with_indices_backward" | "avg_pool2d_backward" => Some(pool_backward),
        "im2col" => Some(im2col),
        "col2im" => Some(col2im),
        "_fft_r2c" | "_fft_c2r" | "_fft_c2c" => Some(fft),
        "abs" => Some(abs),
        _ => None,
    }
}

/// Whether channels move fastest, by strides alone as torch decides it: a window of one place may be either.
pub(super) fn is_channels_last(tensor: &TensorInfo) -> bool {
    let rank = tensor.sizes.len();
    if !(4..=5).contains(&rank) {
        return false;
    }
    let mut least = 0;
    for at in [1].into_iter().chain((2..rank).rev()).chain([0]) {
        let (size, stride) = (tensor.sizes[at], tensor.strides[at]);
        if size == 0 || stride < least || (at == 0 && least == tensor.strides[1]) {
            return false;
        }
        least = stride * size.max(1);
    }
    true
}

/// Whether the elements lie side by side with channels last.
pub(super) fn lies_channels_last(tensor: &TensorInfo) -> bool {
    let rank = tensor.sizes.len();
    let mut expected = 1;
    for at in [1].into_iter().chain((2..rank).rev()).chain([0]) {
        if tensor.sizes[at] != 1 && tensor.strides[at] != expected {
            return false;
        }
        expected *= tensor.sizes[at];
    }
    true
}

/// Gradient, input.
fn pool_backward(call: &Call<'_>, needs: &mut Needs) {
    let (Some(grad), Some(input)) = (call.tensor(0), call.tensor(1)) else { return };
    let lies_alike =
        if is_channels_last(input) { lies_channels_last(grad) } else { grad.is_contiguous() };
    if !lies_alike {
        needs.call("the gradient, laid out as the input", grad.bytes());
    }
}

fn im2col(call: &Call<'_>, needs: &mut Needs) {
    if let Some(input) = call.tensor(0) {
        needs.call("the input", input.bytes());
    }
}

/// The result is cut out of a storage as large as the columns.
fn col2im(call: &Call<'_>, needs: &mut Needs) {
    if let Some(columns) = call.tensor(0) {
        needs.push("room as large as the columns", columns.bytes(), Stays::Result(0));
    }
}

/// Of complex numbers: a copy of them.
fn abs(call: &Call<'_>, needs: &mut Needs) {
    if let Some(input) = call.tensor(0).filter(|input| matches!(input.dtype, DType::Other(8 | 16)))
    {
        needs.call("complex numbers", input.bytes());
    }
}

/// cuFFT's work area; a transform to real numbers overwrites its input, so it gets a copy.
fn fft(call: &Call<'_>, needs: &mut Needs) {
    let (Some(input), Some(Value::Ints(dims))) = (call.tensor(0), call.args.get(1)) else { return };
    let to_real = call.op == "aten::_fft_c2r";
    let real = if to_real { call.result(0) } else { Some(input) };
    let Some(whole) = real else { return };
    let lengths: Vec<u64> = dims
        .iter()
        .filter_map(|&dim| whole.sizes.get(usize::try_from(dim).ok()?).copied())
        .collect();
    let is_real = call.op != "aten::_fft_c2c";
    let number = whole.dtype.bytes();
    let transform = Transform { is_real, complex_bytes: if is_real { 2 * number } else { number } };
    let batch = whole.numel() / lengths.iter().product::<u64>().max(1);
    if to_real {
        needs.call("the input, which is overwritten", input.bytes());
    }
    needs.call("cuFFT work area", work_bytes(&lengths, batch, transform));
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda, strided};
    use super::*;

    #[test]
    fn channels_may_move_fastest() {
        assert!(is_channels_last(&strided(DType::F32, &[32, 64, 8, 8], &[4096, 1, 512, 64])));
        assert!(is_channels_last(&strided(DType::F32, &[32, 64, 1, 1], &[64, 1, 64, 64])));
        assert!(!is_channels_last(&cuda(DType::F32, &[32, 64, 8, 8])));
        assert!(!is_channels_last(&cuda(DType::F32, &[32, 64, 1, 1])));
    }

    #[test]
    fn a_gradient_follows_the_input() {
        let input = strided(DType::F32, &[32, 64, 112, 112], &[802_816, 1, 7168, 64]);
        let grad = cuda(DType::F32, &[32, 64, 56, 56]);
        let made = Made::new("aten::avg_pool2d_backward", vec![grad.into(), input.into()]);
        assert_eq!(made.most(), 25_690_112);
    }

    #[test]
    fn a_usual_transform_needs_no_work_area_and_a_long_one_does() {
        let most = |sizes: &[u64], dims: Vec<i64>| {
            let args = vec![cuda(DType::F32, sizes).into(), Value::Ints(dims)];
            Made::new("aten::_fft_r2c", args).most()
        };
        assert_eq!(most(&[64, 256, 256], vec![1, 2]), 0);
        assert_eq!(most(&[3, 1 << 20], vec![1]), 3 * ((1 << 22) + 8));
    }
}
