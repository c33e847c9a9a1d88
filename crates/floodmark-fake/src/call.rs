//! An operator's call, with the facts that determine memory.

use floodmark_trace::Device;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// `bool`.
    Bool,
    /// `uint8`.
    U8,
    /// `int8`.
    I8,
    /// `int16`.
    I16,
    /// `int32`.
    I32,
    /// `int64`.
    I64,
    /// `float16`.
    F16,
    /// `bfloat16`.
    BF16,
    /// `float32`.
    F32,
    /// `float64`.
    F64,
    /// Any other, with the bytes of an element.
    Other(u8),
}

impl DType {
    /// The type with this name in torch, without `torch.`; `bytes` are those of an element.
    pub fn named(name: &str, bytes: u8) -> Self {
        match name {
            "bool" => Self::Bool,
            "uint8" => Self::U8,
            "int8" => Self::I8,
            "int16" => Self::I16,
            "int32" => Self::I32,
            "int64" => Self::I64,
            "float16" => Self::F16,
            "bfloat16" => Self::BF16,
            "float32" => Self::F32,
            "float64" => Self::F64,
            _ => Self::Other(bytes),
        }
    }

    /// The bytes of an element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
            Self::Other(bytes) => u64::from(bytes),
        }
    }
}

/// A tensor of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Where it lies.
    pub device: Device,
    /// The type of its elements.
    pub dtype: DType,
    /// Its sizes.
    pub sizes: Vec<u64>,
    /// Its strides, in elements.
    pub strides: Vec<u64>,
}

impl TensorInfo {
    /// How many elements it has.
    pub fn numel(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// The bytes of its elements, laid side by side.
    pub fn bytes(&self) -> u64 {
        self.numel() * self.dtype.bytes()
    }

    /// Whether its elements lie side by side in the order of its sizes.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            if size != 1 && stride != expected {
                return false;
            }
            expected *= size;
        }
        true
    }
}

/// An argument, or a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`, or an argument that was not given.
    None,
    /// A tensor.
    Tensor(TensorInfo),
    /// A list of tensors; `None` among them are left out.
    Tensors(Vec<TensorInfo>),
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// A number.
    Float(f64),
    /// Truth values.
    Bools(Vec<bool>),
    /// Anything else.
    Other,
}

/// The GPU and the version of torch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// torch's version: major and minor.
    pub torch: (u32, u32),
    /// The compute capability: 90 for 9.0.
    pub capability: u32,
    /// How many multiprocessors the GPU has.
    pub multiprocessors: u32,
    /// The bytes that `CUBLAS_WORKSPACE_CONFIG` requests
    /// ([`workspace_bytes`](crate::hidden::workspace_bytes)); `None` where it is not set.
    pub cublas_workspace: Option<u64>,
}

/// A call of an operator that has returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// The operator and its overload: `aten::mm`, `aten::add.Tensor`; no overload for `default`.
    pub op: &'a str,
    /// Its arguments in the order of its schema, also those given by name; [`Value::None`] for one that was
    /// not given.
    pub args: &'a [Value],
    /// What it returned.
    pub results: &'a [Value],
    /// Whether the backward pass called it.
    pub is_backward: bool,
    /// Where it ran.
    pub machine: &'a Machine,
}

impl Call<'_> {
    /// The tensor at this place among the arguments.
    pub fn tensor(&self, at: usize) -> Option<&TensorInfo> {
        match self.args.get(at) {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// The tensor at this place among the results.
    pub fn result(&self, at: usize) -> Option<&TensorInfo> {
        match self.results.get(at) {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(sizes: &[u64], strides: &[u64]) -> TensorInfo {
        let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
        TensorInfo { device: Device::cuda(0), dtype: DType::BF16, sizes, strides }
    }

    #[test]
    fn a_transposed_tensor_is_not_contiguous() {
        assert!(tensor(&[2, 3], &[3, 1]).is_contiguous());
        assert!(!tensor(&[3, 2], &[1, 3]).is_contiguous());
        assert!(tensor(&[1, 3], &[7, 1]).is_contiguous());
    }

    #[test]
    fn bytes_are_those_of_the_elements() {
        assert_eq!(tensor(&[2, 3], &[100, 1]).bytes(), 12);
    }
}
