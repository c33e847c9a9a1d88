//! Answers that need the blocks and segments of torch's caching allocator, replayed or simulated.

pub(crate) mod fragmentation;
pub(crate) mod fragmentation_curve;
pub(crate) mod simulation;
