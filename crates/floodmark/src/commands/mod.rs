//! A command is a file: it loads, asks, shows.
//!
//! [`args`] has the words of the command line, [`chosen_trace`] finds the trace that they mean.

pub(crate) mod advise;
pub(crate) mod annotate;
pub(crate) mod answer;
pub(crate) mod args;
pub(crate) mod chosen_trace;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod estimate;
pub(crate) mod export;
pub(crate) mod fit;
pub(crate) mod gpus;
pub(crate) mod info;
mod info_ranks;
pub(crate) mod launcher;
pub(crate) mod leaks;
pub(crate) mod oom;
pub(crate) mod plan;
mod plan_hint;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod simulate;
pub(crate) mod trace_paths;
mod tries;
pub(crate) mod view;
