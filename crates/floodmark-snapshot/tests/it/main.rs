//! Reads real, old, damaged and hostile snapshots, and writes some.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod damaged;
mod formats;
mod hostile;
mod opcodes;
mod python;
mod recordings;
mod ring;
mod round_trip;
mod sample;
