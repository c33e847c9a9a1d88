//! The traces that a path means: a file, a rank of a folder, one that still grows.

pub(crate) mod chosen_trace;
pub(crate) mod trace_paths;
pub(crate) mod watched_trace;
