//! Calls for the tests of rules.

use floodmark_trace::Device;

use super::{Hidden, hidden, peak_bytes};
use crate::call::{Call, DType, Machine, TensorInfo, Value};

/// A tensor on the first GPU, its elements side by side.
pub(super) fn cuda(dtype: DType, sizes: &[u64]) -> TensorInfo {
    let mut strides = vec![1; sizes.len()];
    for at in (1..sizes.len()).rev() {
        strides[at - 1] = strides[at] * sizes[at];
    }
    TensorInfo { device: Device::cuda(0), dtype, sizes: sizes.to_vec(), strides }
}

/// The same with strides of its own.
pub(super) fn strided(dtype: DType, sizes: &[u64], strides: &[u64]) -> TensorInfo {
    TensorInfo { strides: strides.to_vec(), ..cuda(dtype, sizes) }
}

/// The machine that the figures were measured on.
pub(super) fn h200() -> Machine {
    Machine { torch: (2, 11), capability: 90, multiprocessors: 132, cublas_workspace: None }
}

/// A call that owns its parts.
#[derive(Debug)]
pub(super) struct Made {
    op: &'static str,
    args: Vec<Value>,
    pub(super) results: Vec<Value>,
    pub(super) machine: Machine,
}

impl Made {
    pub(super) fn new(op: &'static str, args: Vec<Value>) -> Self {
        Self { op, args, results: Vec::new(), machine: h200() }
    }

    pub(super) fn hidden(&self) -> Vec<Hidden> {
        let (op, args, results) = (self.op, &self.args, &self.results);
        hidden(&Call { op, args, results, is_backward: false, machine: &self.machine })
    }

    /// The most of it at one moment, without what a thread keeps.
    pub(super) fn most(&self) -> u64 {
        peak_bytes(&self.hidden(), 0)
    }
}

impl From<TensorInfo> for Value {
    fn from(tensor: TensorInfo) -> Self {
        Self::Tensor(tensor)
    }
}
