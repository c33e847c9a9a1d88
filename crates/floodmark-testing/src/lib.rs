//! What the tests of several crates share: recordings without a program that ran.
//!
//! - [`script`]: a recording from a few readable lines.
//! - [`program`]: a recording that still grows, as a reader finds it beside a running program.
//! - [`training_loop`]: the recording of a training loop of any length.
//! - [`spoil`]: wrong contents for a file whose checksums are right.
//! - [`recorded_calls`]: calls that torch made and the memory that they took (feature `fake`).
//!
//! Every crate may use this one, as a dev-dependency alone: nothing of it is shipped. A script that
//! is wrong panics.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test, a panic is the message"
)]

pub mod program;
#[cfg(feature = "fake")]
pub mod recorded_calls;
pub mod script;
pub mod spoil;
pub mod training_loop;
