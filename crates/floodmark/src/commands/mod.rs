//! Commands, one file each: load a trace, compute the answer, print it.
//!
//! [`crate::args`] has their options, [`crate::traces`] opens their traces.

pub(crate) mod advise;
pub(crate) mod annotate;
pub(crate) mod answer;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod gpus;
pub(crate) mod info;
mod info_ranks;
pub(crate) mod leaks;
pub(crate) mod ledger;
pub(crate) mod oom;
mod plan_hint;
pub(crate) mod report;
pub(crate) mod shell;
pub(crate) mod simulate;
pub(crate) mod view;
