//! Scaled dot product attention: backward needs a running sum of the queries' gradients in float32.
//!
//! Sizes are of tensors that lie as batch, heads, length, head dimension.

use super::{Needs, Rule};
use crate::call::{Call, DType, TensorInfo, Value};

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "_scaled_dot_product_flash_attention" => Some(flash),
        "_scaled_dot_product_flash_attention_backward" => Some(flash_backward),
        "_scaled_dot_product_efficient_attention" => Some(efficient),
        "_scaled_dot_product_efficient_attention_backward" => Some(efficient_backward),
        "_scaled_dot_product_cudnn_attention_backward" => Some(cudnn_backward),
        _ => None,
    }
}

/// Batch, heads, length, head dimension.
fn shape(tensor: &TensorInfo) -> Option<[u64; 4]> {
    tensor.sizes.clone().try_into().ok()
}

/// Whether the elements lie side by side as batch, length, heads, head dimension: what the kernels work on.
fn lies_by_length(tensor: &TensorInfo) -> bool {
    let swap = |of: &[u64]| vec![of[0], of[2], of[1], of[3]];
    let swapped = TensorInfo {
        sizes: swap(&tensor.sizes),
        strides: swap(&tensor.strides),
        device: tensor.device,
        dtype: tensor.dtype,
    };
    swapped.is_contiguous()
}

fn copy_by_length(needs: &mut Needs, what: &'static str, tensor: &TensorInfo) {
    if tensor.sizes.len() == 4 && !lies_by_length(tensor) {
        needs.call(what, tensor.bytes());
    }
}

/// With few queries the keys are split among blocks, and the parts are added up.
fn flash(call: &Call<'_>, needs: &mut Needs) {
    let (Some(query), Some(key)) = (call.tensor(0), call.tensor(1)) else { return };
    let (Some([batch, mut heads, mut length, head]), Some([_, key_heads, keys, _])) =
        (shape(query), shape(key))
    else {
        return;
    };
    if matches!(call.args.get(3), Some(Value::Float(dropout)) if *dropout > 0.0) {
        return;
    }
    if length == 1 && heads > key_heads {
        (length, heads) = (heads / key_heads, key_heads);
    }
    let width = if head <= 64 {
        256
    } else if head <= 128 {
        128
    } else {
        64
    };
    let rows = batch * heads * length.div_ceil(64);
    let splits =
        splits_of_keys(rows, 2 * u64::from(call.machine.multiprocessors), keys.div_ceil(width));
    if splits > 1 {
        let rounded = head.next_multiple_of(if head <= 128 { 32 } else { 64 });
        needs.call("sums of exponentials of parts", splits * batch * heads * length * 4);
        needs.call("outputs of parts", splits * batch * heads * length * rounded * 4);
    }
}

/// Into how many parts keys are split: the fewest that keep nearly as many multiprocessors busy as any.
fn splits_of_keys(rows: u64, processors: u64, blocks: u64) -> u64 {
    if rows * 10 >= processors * 8 {
        return 1;
    }
    let most = 128.min(processors).min(blocks);
    let is_new = |parts: u64| parts == 1 || blocks.div_ceil(parts) != blocks.div_ceil(parts - 1);
    // In millionths: how full the waves of blocks are.
    let full = |parts: u64| {
        let work = rows * parts;
        work * 1_000_000 / (work.div_ceil(processors) * processors)
    };
    let best = (1..=most).filter(|&parts| is_new(parts)).map(full).max().unwrap_or(0);
    (1..=most).find(|&parts| is_new(parts) && full(parts) * 100 >= best * 85).unwrap_or(1)
}

fn flash_backward(call: &Call<'_>, needs: &mut Needs) {
    let (Some(grad), Some(query), Some(key), Some(out)) =
        (call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(4))
    else {
        return;
    };
    let (Some([batch, heads, length, head]), Some([_, key_heads, keys, _])) =
        (shape(query), shape(key))
    else {
        return;
    };
    copy_by_length(needs, "the gradient, laid out by length", grad);
    copy_by_length(needs, "the output, laid out by length", out);
    let length = length.next_multiple_of(128);
    let rounded = head.next_multiple_of(if head <= 128 { 32 } else { 64 });
    needs.call("sums over the softmax", batch * heads * length * 4);
    needs.call("gradient of queries in float32", batch * heads * length * rounded * 4);
    if key_heads != heads {
        needs.call(
            "gradients of keys and values for each head",
            2 * batch * keys * heads * head * query.dtype.bytes(),
        );
    }
}

/// Heads that are too wide for registers are summed in float32.
fn efficient(call: &Call<'_>, needs: &mut Needs) {
    let (Some(query), Some(value)) = (call.tensor(0), call.tensor(2)) else { return };
    let (Some([batch, heads, length, _]), Some([_, _, _, head])) = (shape(query), shape(value))
    else {
        return;
    };
    if head > 128 && query.dtype != DType::F32 {
        needs.call("output in float32", batch * heads * length * head * 4);
    }
}

fn efficient_backward(call: &Call<'_>, needs: &mut Needs) {
    let (Some(grad), Some(query), Some(key)) = (call.tensor(0), call.tensor(1), call.tensor(2))
    else {
        return;
    };
    let (Some([batch, heads, length, head]), Some([_, _, keys, _])) = (shape(query), shape(key))
    else {
        return;
    };
    copy_by_length(needs, "the gradient, laid out by length", grad);
    let delta = batch * heads * length * 4;
    needs.call("sums of gradients times outputs", delta);
    if query.dtype == DType::F32 {
        needs.moment("gradients times outputs", batch * heads * length * head * 4 + delta);
    }
    let is_half = query.dtype != DType::F32;
    let floats = Tiles::choose(head, is_half).floats(batch * heads, length, keys, head);
    needs.moment("gradients of tiles", batch * heads * floats * 4);
}

/// How the efficient kernel cuts a head's matrices.
struct Tiles {
    queries: u64,
    width: u64,
    /// Whether gradients of keys and values wait in memory, in float32.
    spills: bool,
}

impl Tiles {
    const KEYS: u64 = 64;

    fn choose(head: u64, is_half: bool) -> Self {
        match head {
            0..=64 => Self { queries: 64, width: 64, spills: false },
            65..=128 if is_half => Self { queries: 128, width: 128, spills: false },
            _ => Self { queries: 128, width: 64, spills: is_half },
        }
    }

    /// The floats of the workspace of one head; a tile of the queries' gradient has a lock of four words.
    fn floats(&self, heads: u64, length: u64, keys: u64, head: u64) -> u64 {
        let tiles = length.div_ceil(self.queries) * head.div_ceil(self.width);
        let queries = tiles * (self.queries * self.width + 4);
        let spilled = if self.spills {
            2 * Self::splits(heads, keys) * Self::KEYS * head.next_multiple_of(self.queries)
        } else {
            0
        };
        queries + spilled
    }

    /// Into how many parts the keys are split: fewer where there are many heads.
    fn splits(heads: u64, keys: u64) -> u64 {
        keys.div_ceil(Self::KEYS).min(200 / heads.max(1)).max(1)
    }
}

/// cuDNN's workspace: gradients of queries in float32 and a sum for each; with shared keys, gradients of keys
/// and values for each head.
fn cudnn_backward(call: &Call<'_>, needs: &mut Needs) {
    let (Some(grad), Some(query), Some(key), Some(out)) =
        (call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(4))
    else {
        return;
    };
    let (Some([batch, heads, length, head]), Some([_, key_heads, keys, _])) =
        (shape(query), shape(key))
    else {
        return;
    };
    if grad.strides != out.strides {
        needs.call("the gradient, laid out as the output", grad.bytes());
    }
    let shared = (key_heads != heads).then_some(batch * heads * keys);
    let bytes =
        cudnn_attention_workspace(batch * heads * length, head, shared, query.dtype.bytes());
    needs.call("cuDNN workspace", bytes);
}

/// The bytes of the workspace of cuDNN's backward pass, for `rows` queries in all heads. Where heads share keys,
/// `shared_rows` is the number of keys times the number of heads.
pub(crate) fn cudnn_attention_workspace(
    rows: u64,
    head: u64,
    shared_rows: Option<u64>,
    element_bytes: u64,
) -> u64 {
    rows * (head + 1) * 4 + 256 + 2 * shared_rows.unwrap_or(0) * head * element_bytes
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, cuda, strided};
    use super::*;

    fn backward(op: &'static str, dtype: DType, query: &[u64], key: &[u64]) -> u64 {
        let (query, key) = (cuda(dtype, query), cuda(dtype, key));
        let args = [&query, &query, &key, &key, &query].map(|tensor| Value::Tensor(tensor.clone()));
        Made::new(op, args.to_vec()).most()
    }

    #[test]
    fn flash_backward_adds_up_in_float32() {
        let op = "aten::_scaled_dot_product_flash_attention_backward";
        let sizes = [4, 16, 1000, 80];
        let copies = 2 * 10_240_000;
        assert_eq!(backward(op, DType::BF16, &sizes, &sizes), copies + 262_144 + 25_165_824);
        let shared = backward(op, DType::BF16, &[4, 16, 1024, 64], &[4, 4, 1024, 64]);
        assert_eq!(shared, 4 * 8_388_608 + 262_144 + 16_777_216);
    }

    #[test]
    fn flash_splits_the_keys_of_a_single_query() {
        let query = cuda(DType::BF16, &[1, 32, 1, 64]);
        let key = cuda(DType::BF16, &[1, 32, 4096, 64]);
        let made = |key: TensorInfo| {
            let args = vec![query.clone().into(), key.clone().into(), key.into()];
            Made::new("aten::_scaled_dot_product_flash_attention", args).most()
        };
        assert_eq!(made(key), 1024 + 65_536);
        assert_eq!(made(cuda(DType::BF16, &[1, 32, 8192, 64])), 896 + 57_344);
    }

    #[test]
    fn cudnn_backward_has_a_workspace() {
        let op = "aten::_scaled_dot_product_cudnn_attention_backward";
        let sizes = [2, 16, 333, 64];
        assert_eq!(backward(op, DType::BF16, &sizes, &sizes), 2_770_816);
        assert_eq!(backward(op, DType::BF16, &sizes, &[2, 4, 333, 64]), 5_498_752);
    }

    #[test]
    fn efficient_backward_cuts_tiles() {
        let op = "aten::_scaled_dot_product_efficient_attention_backward";
        let of = |dtype, length, head| {
            let sizes = [4, 16, length, head];
            backward(op, dtype, &sizes, &sizes)
        };
        assert_eq!(of(DType::BF16, 1024, 64), 8_388_608 + 262_144 + 16_793_600);
        assert_eq!(of(DType::BF16, 1000, 128), 16_384_000 + 256_000 + 33_562_624);
        assert_eq!(of(DType::BF16, 1024, 160), 20_971_520 + 262_144 + 75_522_048);
        assert_eq!(of(DType::BF16, 1024, 512), 67_108_864 + 262_144 + 184_614_912);
        assert_eq!(of(DType::F32, 1024, 160), 41_943_040 + 262_144 + 50_356_224);
    }

    #[test]
    fn a_gradient_in_length_order_is_not_copied() {
        let tensor = strided(DType::BF16, &[4, 16, 1024, 64], &[1_048_576, 64, 1024, 1]);
        let args = vec![Value::Tensor(tensor); 5];
        let made = Made::new("aten::_scaled_dot_product_flash_attention_backward", args);
        assert_eq!(made.most(), 262_144 + 16_777_216);
    }
}
