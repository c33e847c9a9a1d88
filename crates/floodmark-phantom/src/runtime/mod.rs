//! CUDA's runtime, as `libcudart` has it.

mod attributes;
mod device;
mod entry;
mod errors;
pub(crate) mod graph;
mod launch;
mod memory;
mod pools;
mod properties;
pub(crate) mod stream;

pub(crate) use attributes::attribute;
pub(crate) use entry::driver_function;
pub(crate) use errors::words as error_words;
pub(crate) use launch::{active_blocks, launch};
pub(crate) use memory::{allocate, forget, free_host, give_device_pointer, give_host, release};

/// The simulated version of CUDA.
pub(crate) fn version() -> i32 {
    crate::machine::machine().map_or(13_000, |machine| machine.settings.cuda)
}
