//! Windows: recordings that are open, and the recorder that runs for them.

pub(crate) mod open_window;
pub(crate) mod running_recorder;
