//! What CUDA's driver and libraries do with memory, as observed on a GPU.
//!
//! NVIDIA documents little of it. The simulated allocator, the phantom and the engine of fake tensors need these rules without
//! a GPU, so each rule is here once. The crate only computes: it calls no library and maps no memory.
//!
//! - [`AddressSpace`]: where `cudaMalloc` places an allocation.
//! - [`granted_bytes`]: the bytes of the device that an allocation uses.
//! - [`library_memory`]: the memory that CUDA and its libraries hold for themselves.
//! - [`recurrent`]: the bytes that cuDNN requests for a recurrent network.
//! - [`fourier`]: the bytes that cuFFT requests for a Fourier transform.

mod addresses;
pub mod fourier;
pub mod library_memory;
pub mod recurrent;

pub use addresses::{AddressSpace, PAGE_BYTES, RANGE_BYTES, granted_bytes};
