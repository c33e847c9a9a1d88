//! From a path to a trace: opening a file or a folder, and following a file that grows.

pub(crate) mod following;
#[cfg(test)]
pub(crate) mod growing;
pub(crate) mod journal_files;
pub(crate) mod open;
pub(crate) mod regular_file;
