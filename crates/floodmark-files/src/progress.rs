//! How far a long piece of work is: reported to the caller, who may show it.

/// Receives how far something is.
pub trait Progress: std::fmt::Debug + Send + Sync {
    /// `done` bytes are done, of `total` where that is known.
    fn at(&self, done: u64, total: Option<u64>);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _done: u64, _total: Option<u64>) {}
}
