//! Opens the traces at a path: a file, a rank of a folder, a growing file.

pub(crate) mod chosen_trace;
pub(crate) mod trace_paths;
pub(crate) mod watched_trace;
