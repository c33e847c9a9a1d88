//! Blocks that no hook reports: those from before the recording, and those of fake tensors.

pub(crate) mod fake_blocks;
pub(crate) mod host_storages;
pub(crate) mod initial_blocks;
pub(crate) mod own_blocks;
pub(crate) mod tensor_storage;
