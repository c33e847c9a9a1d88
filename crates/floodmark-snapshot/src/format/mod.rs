//! What torch writes: the keys and values of its dicts, and which version added which key.

pub(crate) mod known_strings;
pub(crate) mod torch_version;
