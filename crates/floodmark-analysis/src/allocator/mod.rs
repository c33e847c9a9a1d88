//! Answers that need the blocks and segments of torch's caching allocator, replayed or simulated.

pub(crate) mod fragmentation;
pub(crate) mod oom;
pub(crate) mod segments;
pub(crate) mod simulation;
