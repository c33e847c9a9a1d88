//! What CUDA's driver and libraries do with memory, as it was seen on a GPU.
//!
//! NVIDIA documents little of it. A simulation needs the answers without a GPU: the simulated allocator,
//! the phantom, and the engine of fake tensors. Each rule is here once. It is arithmetic alone: no library is called,
//! and no memory is mapped.
//!
//! - [`AddressSpace`]: where `cudaMalloc` places an allocation.
//! - [`granted_bytes`]: how much of the device an allocation takes.
//! - [`recurrent`]: the bytes that cuDNN requests for a recurrent network.
//! - [`fourier`]: the bytes that cuFFT requests for a Fourier transform.

mod addresses;
pub mod fourier;
pub mod recurrent;

pub use addresses::{AddressSpace, PAGE_BYTES, RANGE_BYTES, granted_bytes};
