//! What NVML says about the memory of the GPUs, asked by a thread of the recorder.

mod nvml;
pub(crate) mod sampler;
