//! Snapshots: real ones, old ones, hostile ones.

mod damaged;
mod formats;
mod hostile;
mod opcodes;
mod python;
mod recordings;
mod round_trip;
mod sample;
