//! Rules about kernels' memory for plugins: attention kernels, and the kernels of Transformer
//! Engine.

use floodmark_fake::transformer_engine as te;
use floodmark_fake::{AttentionCall, AttentionKernel as Chosen, DType, hidden};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A kernel for scaled dot product attention.
#[pyclass(frozen, eq, module = "floodmark._core")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionKernel(Chosen);

#[pymethods]
impl AttentionKernel {
    #[classattr]
    const CUDNN: Self = Self(Chosen::Cudnn);
    #[classattr]
    const FLASH: Self = Self(Chosen::Flash);
    #[classattr]
    const EFFICIENT: Self = Self(Chosen::Efficient);
    #[classattr]
    const MATH: Self = Self(Chosen::Math);

    /// The kernel that torch chooses on a GPU; `dtype` is torch's name of the queries' type.
    #[staticmethod]
    #[pyo3(signature = (query, value, *, dtype, has_mask, dropout, is_grouped, torch, capability))]
    #[expect(clippy::too_many_arguments, reason = "keywords on the Python side")]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python lists")]
    fn chosen_for(
        query: Vec<u64>,
        value: Vec<u64>,
        dtype: &str,
        has_mask: bool,
        dropout: f64,
        is_grouped: bool,
        torch: (u32, u32),
        capability: (u32, u32),
    ) -> Self {
        let (dtype, query, value) = (DType::named(dtype, 0), &query[..], &value[..]);
        let call = AttentionCall { dtype, query, value, has_mask, dropout, is_grouped };
        Self(Chosen::chosen_for(&call, torch, number(capability)))
    }
}

/// A compute capability as one number: 90 for 9.0.
fn number((major, minor): (u32, u32)) -> u32 {
    major * 10 + minor
}

/// The bytes of cuDNN's random states for dropout.
#[pyfunction]
pub fn cudnn_dropout_state_bytes(multiprocessors: u64) -> u64 {
    hidden::dropout_state_bytes(multiprocessors)
}

/// How Transformer Engine quantizes a result.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct TeQuantizer(te::Quantizer);

#[pymethods]
impl TeQuantizer {
    #[classattr]
    const ABSENT: Self = Self(te::Quantizer::Absent);
    #[classattr]
    const DELAYED_SCALING: Self = Self(te::Quantizer::DelayedScaling);
    #[classattr]
    const CURRENT_SCALING: Self = Self(te::Quantizer::CurrentScaling);
    #[classattr]
    const MXFP8: Self = Self(te::Quantizer::MxFp8);
    #[classattr]
    const OTHER: Self = Self(te::Quantizer::Other);

    fn is_per_tensor(&self) -> bool {
        self.0.is_per_tensor()
    }

    fn is_cast_by_product(&self, has_quantized_operand: bool) -> bool {
        self.0.is_cast_by_product(has_quantized_operand)
    }

    fn is_cast_by_activation(&self) -> bool {
        self.0.is_cast_by_activation()
    }

    fn is_cast_by_norm(&self) -> bool {
        self.0.is_cast_by_norm()
    }

    fn is_cast_by_attention(&self) -> bool {
        self.0.is_cast_by_attention()
    }

    fn sums_while_casting(&self, rowwise: bool, columnwise: bool, capability: (u32, u32)) -> bool {
        self.0.sums_while_casting(rowwise, columnwise, number(capability))
    }
}

/// The sizes of the data and of the transposed copy of a tensor in FP8; `None` for a buffer that it does not have.
#[pyfunction]
#[pyo3(signature = (sizes, *, rowwise, columnwise, transposes))]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
pub fn te_float8_buffers(
    sizes: Vec<u64>,
    rowwise: bool,
    columnwise: bool,
    transposes: bool,
) -> (Option<Vec<u64>>, Option<Vec<u64>>) {
    let te::Float8Buffers { data, transpose } =
        te::Float8Buffers::new(&sizes, rowwise, columnwise, transposes);
    (data, transpose)
}

/// The sizes of a transposed copy.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
pub fn te_transposed(sizes: Vec<u64>) -> Vec<u64> {
    te::transposed(&sizes)
}

/// The bytes of a dropout mask.
#[pyfunction]
pub fn te_dropout_mask_bytes(elements: u64) -> u64 {
    te::dropout_mask_bytes(elements)
}

/// A norm of Transformer Engine.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct TeNorm(te::Norm);

#[pymethods]
impl TeNorm {
    #[classattr]
    const LAYER: Self = Self(te::Norm::Layer);
    #[classattr]
    const RMS: Self = Self(te::Norm::Rms);

    /// The sizes of the workspace of its backward pass, in float32.
    fn backward_workspace(&self, rows: u64, width: u64, multiprocessors: u64) -> [u64; 3] {
        self.0.backward_workspace(rows, width, multiprocessors)
    }
}

/// The kernel of cuDNN for an attention of Transformer Engine.
#[pyclass(frozen, eq, module = "floodmark._core")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TeFusedAttention(te::FusedAttention);

#[pymethods]
impl TeFusedAttention {
    #[classattr]
    const HALF: Self = Self(te::FusedAttention::Half);
    #[classattr]
    const FLOAT8: Self = Self(te::FusedAttention::Float8);
    #[classattr]
    const UNALIGNED_HEAD: Self = Self(te::FusedAttention::UnalignedHead);
    #[classattr]
    const UNSUPPORTED: Self = Self(te::FusedAttention::Unsupported);

    #[staticmethod]
    #[pyo3(signature = (query_head, value_head, *, is_half, is_float8, capability))]
    fn chosen_for(
        query_head: u64,
        value_head: u64,
        is_half: bool,
        is_float8: bool,
        capability: (u32, u32),
    ) -> Self {
        let capability = number(capability);
        Self(te::FusedAttention::chosen_for(query_head, value_head, is_half, is_float8, capability))
    }
}

/// How queries, keys and values of Transformer Engine lie.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct TeLayout(te::Layout);

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "extracted from Python lists")]
impl TeLayout {
    /// Reads the name of a member of `NVTE_QKV_Layout`.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        let layout: Result<te::Layout, _> = name.parse();
        layout.map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The sizes of the output; `format` is the name of a member of `NVTE_QKV_Format`.
    fn output(&self, format: &str, queries: Vec<u64>, value_head: u64) -> Vec<u64> {
        self.0.output(format.parse().ok(), &queries, value_head)
    }

    fn softmax_sums(&self, queries: Vec<u64>, longest: u64) -> Vec<u64> {
        self.0.softmax_sums(&queries, longest)
    }

    fn heads(&self, queries: Vec<u64>) -> u64 {
        self.0.heads(&queries)
    }

    /// The buffers of the gradients in the layout `after`: their sizes, and the dimension along which one holds
    /// several gradients.
    fn gradients(
        &self,
        after: &Self,
        queries: Vec<u64>,
        keys: Vec<u64>,
        values: Vec<u64>,
    ) -> Vec<(Vec<u64>, Option<usize>)> {
        let buffers = self.0.gradients(&after.0, &queries, &keys, &values);
        buffers.into_iter().map(|buffer| (buffer.sizes, buffer.packed_axis)).collect()
    }

    fn backward_workspace(&self, queries: Vec<u64>, keys: Vec<u64>, element_bytes: u64) -> u64 {
        self.0.backward_workspace(&queries, &keys, element_bytes)
    }
}
