//! Which kernels cast their results by themselves, and the buffers of a tensor in FP8.

/// How a result is quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantizer {
    /// Not at all.
    Absent,
    /// FP8 with a scale of earlier steps (`Float8Quantizer`).
    DelayedScaling,
    /// FP8 with a scale of the tensor itself (`Float8CurrentScalingQuantizer`).
    CurrentScaling,
    /// FP8 with a scale for 32 elements (`MXFP8Quantizer`).
    MxFp8,
    /// Any other: scales of blocks, or FP4.
    Other,
}

/// The buffers of a tensor in FP8 with one scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Float8Buffers {
    /// The sizes of its data.
    pub data: Option<Vec<u64>>,
    /// The sizes of the transposed copy.
    pub transpose: Option<Vec<u64>>,
}

impl Quantizer {
    /// Whether a tensor has one scale, and a transposed copy instead of a column-wise one.
    pub fn is_per_tensor(self) -> bool {
        match self {
            Self::DelayedScaling | Self::CurrentScaling => true,
            Self::Absent | Self::MxFp8 | Self::Other => false,
        }
    }

    /// Whether a product of matrices needs no result in high precision before the cast.
    pub fn is_cast_by_product(self, has_quantized_operand: bool) -> bool {
        match self {
            Self::Absent => true,
            Self::DelayedScaling => has_quantized_operand,
            Self::CurrentScaling | Self::MxFp8 | Self::Other => false,
        }
    }

    /// The same for an activation and its gradient.
    pub fn is_cast_by_activation(self) -> bool {
        match self {
            Self::Absent | Self::DelayedScaling | Self::MxFp8 => true,
            Self::CurrentScaling | Self::Other => false,
        }
    }

    /// The same for a norm.
    pub fn is_cast_by_norm(self) -> bool {
        match self {
            Self::Absent | Self::DelayedScaling => true,
            Self::CurrentScaling | Self::MxFp8 | Self::Other => false,
        }
    }

    /// Whether fused attention returns its results in FP8. It returns them in high precision otherwise.
    pub fn is_cast_by_attention(self) -> bool {
        match self {
            Self::DelayedScaling => true,
            Self::Absent | Self::CurrentScaling | Self::MxFp8 | Self::Other => false,
        }
    }

    /// Whether one kernel casts a gradient and adds it up for a bias. Otherwise torch adds it up.
    pub fn sums_while_casting(self, rowwise: bool, columnwise: bool, capability: u32) -> bool {
        match self {
            Self::MxFp8 => true,
            Self::DelayedScaling => capability >= 100 || (rowwise && columnwise),
            Self::Absent | Self::CurrentScaling | Self::Other => false,
        }
    }
}

impl Float8Buffers {
    /// The buffers of a tensor of these sizes. `transposes`: whether products on this GPU need a transposed copy.
    pub fn new(sizes: &[u64], rowwise: bool, columnwise: bool, transposes: bool) -> Self {
        Self {
            data: (rowwise || !transposes).then(|| sizes.to_vec()),
            transpose: (columnwise && transposes).then(|| transposed(sizes)),
        }
    }
}

/// The sizes of a transposed copy: the last dimension comes first.
pub fn transposed(sizes: &[u64]) -> Vec<u64> {
    let mut sizes = sizes.to_vec();
    if !sizes.is_empty() {
        sizes.rotate_right(1);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_cast_by_themselves_where_the_scale_is_known() {
        // Quantizer; cast by a product with an operand in FP8, by an activation, by a norm, by attention.
        let table = [
            (Quantizer::Absent, [true, true, true, false]),
            (Quantizer::DelayedScaling, [true, true, true, true]),
            (Quantizer::CurrentScaling, [false, false, false, false]),
            (Quantizer::MxFp8, [false, true, false, false]),
            (Quantizer::Other, [false, false, false, false]),
        ];
        for (quantizer, casts) in table {
            let found = [
                quantizer.is_cast_by_product(true),
                quantizer.is_cast_by_activation(),
                quantizer.is_cast_by_norm(),
                quantizer.is_cast_by_attention(),
            ];
            assert_eq!(found, casts, "{quantizer:?}");
        }
        assert!(!Quantizer::DelayedScaling.is_cast_by_product(false));
    }

    #[test]
    fn a_gradient_is_added_up_while_it_is_cast_in_both_directions() {
        let delayed = Quantizer::DelayedScaling;
        assert!(delayed.sums_while_casting(true, true, 90));
        assert!(!delayed.sums_while_casting(true, false, 90));
        assert!(delayed.sums_while_casting(true, false, 100));
        assert!(Quantizer::MxFp8.sums_while_casting(true, false, 90));
        assert!(!Quantizer::CurrentScaling.sums_while_casting(true, true, 100));
    }

    #[test]
    fn hopper_keeps_a_transposed_copy_and_blackwell_the_data() {
        let (data, transpose) = (Some(vec![4, 8, 16]), Some(vec![16, 4, 8]));
        let buffers = |rowwise, columnwise, transposes| {
            Float8Buffers::new(&[4, 8, 16], rowwise, columnwise, transposes)
        };
        let both = Float8Buffers { data: data.clone(), transpose: transpose.clone() };
        assert_eq!(buffers(true, true, true), both);
        assert_eq!(buffers(false, true, true), Float8Buffers { data: None, transpose });
        assert_eq!(buffers(false, true, false), Float8Buffers { data, transpose: None });
    }
}
