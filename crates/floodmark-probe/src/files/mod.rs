//! Files of a recording: the trace, the journal's folder and its lock.

pub(crate) mod output;
pub(crate) mod own_file;
pub(crate) mod start_error;
pub(crate) mod state_file;
