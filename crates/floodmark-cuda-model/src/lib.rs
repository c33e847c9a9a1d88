//! What CUDA's driver and libraries do with memory, as observed on a GPU.
//!
//! NVIDIA documents little of it. The simulated allocator, the phantom and the engine of fake tensors need these rules without
//! a GPU, so each rule is here once. The crate only computes: it calls no library and maps no memory.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. `addresses`: where `cudaMalloc` places an allocation, and the bytes of the device that it uses; [`fourier`]: the bytes
//!    that cuFFT requests for a transform; [`library_memory`]: the memory that CUDA and its libraries hold for themselves;
//!    [`recurrent`]: the bytes that cuDNN requests for a recurrent network.

mod addresses;
pub mod fourier;
pub mod library_memory;
pub mod recurrent;

pub use addresses::{AddressSpace, PAGE_BYTES, RANGE_BYTES, granted_bytes};
