//! CUDA's driver, as `libcuda` has it.

mod context;
mod device;
mod entry;
mod kernel;
mod linked_runtime;
mod memory;
mod stream;
mod virtual_memory;
