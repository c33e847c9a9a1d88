//! The progress of a long read or write, for a caller that shows it.

/// Receives the progress.
pub trait Progress: std::fmt::Debug + Send + Sync {
    /// `done` bytes are done, of `total` if that is known.
    fn at(&self, done: u64, total: Option<u64>);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _done: u64, _total: Option<u64>) {}
}
