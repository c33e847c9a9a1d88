//! What the Python side is to do: the requests of `floodmark run` and `floodmark estimate`.

pub(crate) mod estimate;
mod launcher;
pub(crate) mod run;
