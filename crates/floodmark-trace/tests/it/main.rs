//! The guarantees of the file: everything is read back, damage is reported, and hostile bytes do no
//! harm.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod contents;
mod damaged;
mod gpu_memory;
mod growing;
mod hostile;
mod labels;
mod laws;
mod recording;
mod salvage;
mod size;
mod sources;
mod step_totals;
mod stored_answers;
