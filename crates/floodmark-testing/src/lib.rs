//! Recordings for the tests of several crates, made without running a program.
//!
//! Every crate may use it as a dev-dependency. It is not shipped. An invalid script panics.
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
