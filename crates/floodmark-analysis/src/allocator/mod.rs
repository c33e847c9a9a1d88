//! Answers that need the blocks and segments of torch's caching allocator, replayed or simulated.

pub(crate) mod block_owners;
pub(crate) mod fragmentation;
pub(crate) mod fragmentation_curve;
pub(crate) mod oom;
pub(crate) mod segments;
pub(crate) mod simulated_segments;
pub(crate) mod simulation;
