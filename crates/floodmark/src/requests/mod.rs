//! The requests of `floodmark run` and `floodmark estimate`, which Python executes.

pub(crate) mod estimate;
mod launcher;
pub(crate) mod run;
