//! What the tests of several crates share: recordings without a program that ran.
//!
//! Every crate may use this one, as a dev-dependency alone: nothing of it is shipped. A script that
//! is wrong panics.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`script`]: a recording from a few readable lines; [`training_loop`]: the recording of a training loop of any length;
//!    [`spoil`]: wrong contents for a file whose checksums are right; `recorded_calls`: calls that torch made and the memory
//!    that they allocated (feature `fake`).
//! 2. [`program`]: a recording that still grows, as a reader finds it beside a running program.

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
