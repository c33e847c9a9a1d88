//! The version of the JSON that answers become.

/// It changes when a field of an answer changes its meaning.
pub const FORMAT: u32 = 1;
