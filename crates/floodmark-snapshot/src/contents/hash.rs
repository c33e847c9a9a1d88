//! A fast hash for strings and for lists of numbers that a file repeats.

use std::hash::{BuildHasher, RandomState};

/// Adds eight bytes to a hash.
pub(crate) fn hash_step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// A random seed for each reader, so that no file can be made with strings that all have the same hash.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// The hash of a string.
pub(crate) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut hash = seed ^ bytes.len() as u64;
    for chunk in chunks {
        hash = hash_step(hash, u64::from_le_bytes(*chunk));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    finish_hash(hash_step(hash, u64::from_le_bytes(last)))
}

/// Spreads a hash over all bits: tables use the highest and the lowest ones.
pub(crate) fn finish_hash(hash: u64) -> u64 {
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
