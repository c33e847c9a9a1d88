//! The source of a recording's blocks: torch, or a program of fake tensors.

use pyo3::prelude::*;

/// The source of a window's blocks.
#[pyclass(frozen, from_py_object, module = "floodmark._core")]
#[derive(Debug, Clone, Copy)]
pub struct BlockSource(pub floodmark_probe::BlockSource);

#[pymethods]
impl BlockSource {
    #[classattr]
    const TORCH: Self = Self(floodmark_probe::BlockSource::Torch);
    #[classattr]
    const FAKE: Self = Self(floodmark_probe::BlockSource::Fake);
    /// Fake tensors, where torch does not see the devices itself.
    #[classattr]
    const FAKE_WITHOUT_DEVICE: Self = Self(floodmark_probe::BlockSource::FakeWithoutDevice);
}

/// Whether torch's CUDA devices are those of blocks of fake tensors, and not the program's.
#[pyfunction]
pub fn lend_cuda(is_lent: bool) {
    floodmark_probe::lend_cuda(is_lent);
}
