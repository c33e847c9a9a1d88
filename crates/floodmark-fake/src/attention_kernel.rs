//! The kernel that `scaled_dot_product_attention` chooses on a GPU.
//!
//! A build of torch without CUDA multiplies the matrices instead, which takes far more memory. The rules follow
//! the observed choices of torch 2.4 to 2.15.

use crate::call::DType;

/// A kernel for scaled dot product attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKernel {
    /// cuDNN's.
    Cudnn,
    /// Flash attention.
    Flash,
    /// The memory-efficient kernel.
    Efficient,
    /// Products of matrices: torch's own formula.
    Math,
}

/// A call of `scaled_dot_product_attention`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionCall<'a> {
    /// The type of the queries.
    pub dtype: DType,
    /// The sizes of the queries.
    pub query: &'a [u64],
    /// The sizes of the values.
    pub value: &'a [u64],
    /// Whether there is a mask.
    pub has_mask: bool,
    /// The probability of dropout.
    pub dropout: f64,
    /// Whether several heads of queries share a head of keys.
    pub is_grouped: bool,
}

impl AttentionKernel {
    /// The kernel for a call with this version of torch, on a GPU of this compute capability (90 for 9.0).
    pub fn chosen_for(call: &AttentionCall<'_>, torch: (u32, u32), capability: u32) -> Self {
        let is_half = match call.dtype {
            DType::F16 | DType::BF16 => true,
            DType::F32 => false,
            DType::Bool
            | DType::U8
            | DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::F64
            | DType::Other(_) => return Self::Math,
        };
        let (&[_, _, _, head], Some(&value_head)) = (call.query, call.value.last()) else {
            return Self::Math;
        };
        if is_half
            && cudnn_is_first(torch, capability, call.dropout)
            && fits_cudnn(head, value_head)
        {
            return Self::Cudnn;
        }
        if is_half && !call.has_mask && head <= 256 && capability >= 80 {
            return Self::Flash;
        }
        if call.is_grouped && (torch < (2, 12) || is_half) {
            return Self::Math;
        }
        Self::Efficient
    }
}

/// Since 2.8 torch prefers cuDNN on Hopper and Blackwell; since 2.12 not with dropout.
fn cudnn_is_first(torch: (u32, u32), capability: u32, dropout: f64) -> bool {
    let has_kernels = (90..120).contains(&capability) && torch >= (2, 8);
    has_kernels && (dropout <= 0.0 || torch < (2, 12))
}

fn fits_cudnn(head: u64, value_head: u64) -> bool {
    [head, value_head].iter().all(|width| *width <= 128 && width % 8 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: (u32, u32) = (2, 12);

    fn heads_of(head: u64) -> [u64; 4] {
        [2, 16, 1024, head]
    }

    fn call(dtype: DType, sizes: &[u64]) -> AttentionCall<'_> {
        let (query, value) = (sizes, sizes);
        AttentionCall { dtype, query, value, has_mask: false, dropout: 0.0, is_grouped: false }
    }

    fn chosen(dtype: DType, head: u64, torch: (u32, u32), capability: u32) -> AttentionKernel {
        AttentionKernel::chosen_for(&call(dtype, &heads_of(head)), torch, capability)
    }

    #[test]
    fn cudnn_is_first_on_hopper_and_blackwell() {
        let table = [
            (128, NOW, 90, AttentionKernel::Cudnn),
            (128, NOW, 100, AttentionKernel::Cudnn),
            (128, NOW, 120, AttentionKernel::Flash),
            (128, NOW, 89, AttentionKernel::Flash),
            (128, (2, 7), 90, AttentionKernel::Flash),
            (136, NOW, 90, AttentionKernel::Flash),
            (60, NOW, 90, AttentionKernel::Flash),
        ];
        for (head, torch, capability, kernel) in table {
            let found = chosen(DType::BF16, head, torch, capability);
            assert_eq!(found, kernel, "{head} {torch:?} {capability}");
        }
    }

    #[test]
    fn cudnn_has_dropout_up_to_2_11() {
        let sizes = heads_of(64);
        let dropped = AttentionCall { dropout: 0.1, ..call(DType::F16, &sizes) };
        let chosen = |torch| AttentionKernel::chosen_for(&dropped, torch, 90);
        assert_eq!(chosen((2, 11)), AttentionKernel::Cudnn);
        assert_eq!(chosen(NOW), AttentionKernel::Flash);
    }

    #[test]
    fn flash_takes_no_mask_no_wide_head_and_no_old_gpu() {
        let sizes = heads_of(64);
        let masked = AttentionCall { has_mask: true, ..call(DType::BF16, &sizes) };
        assert_eq!(AttentionKernel::chosen_for(&masked, NOW, 80), AttentionKernel::Efficient);
        assert_eq!(chosen(DType::BF16, 264, NOW, 80), AttentionKernel::Efficient);
        assert_eq!(chosen(DType::F16, 64, NOW, 75), AttentionKernel::Efficient);
        assert_eq!(chosen(DType::F32, 64, NOW, 90), AttentionKernel::Efficient);
    }

    #[test]
    fn shared_keys_have_an_efficient_kernel_in_float32_since_2_12() {
        let sizes = heads_of(512);
        let chosen = |dtype, torch| {
            let grouped = AttentionCall { is_grouped: true, ..call(dtype, &sizes) };
            AttentionKernel::chosen_for(&grouped, torch, 90)
        };
        assert_eq!(chosen(DType::F32, NOW), AttentionKernel::Efficient);
        assert_eq!(chosen(DType::F32, (2, 11)), AttentionKernel::Math);
        assert_eq!(chosen(DType::BF16, NOW), AttentionKernel::Math);
    }

    #[test]
    fn other_types_and_other_dimensions_are_multiplied_out() {
        assert_eq!(chosen(DType::F64, 64, NOW, 90), AttentionKernel::Math);
        let flat = call(DType::BF16, &[16, 1024, 64]);
        assert_eq!(AttentionKernel::chosen_for(&flat, NOW, 90), AttentionKernel::Math);
    }
}
