//! How much memory the recorder holds, and how much it may (`--max-memory`).
//!
//! All that grows with the program asks here first: the call tree, names, the state of threads, the stacks of
//! autograd nodes, mapped segments. What the writer holds (rows, live blocks) is counted once a lap. The figures are
//! estimates of what an entry takes in its table.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one recording may hold, in bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicU64,
    taken: AtomicU64,
    /// What the writer held at its last lap.
    writer: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), taken: AtomicU64::new(0), writer: AtomicU64::new(0) }
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Raises the limit to that of a window that may hold more.
    pub(crate) fn raise_limit(&self, limit: u64) {
        self.limit.fetch_max(limit, Ordering::Relaxed);
    }

    /// How much is held.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed) + self.writer.load(Ordering::Relaxed)
    }

    /// Takes so many bytes. `false`, and nothing taken, when they would be too many.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        if self.held_bytes().saturating_add(bytes) > self.limit_bytes() {
            return false;
        }
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Takes so many bytes that cannot be done without.
    pub(crate) fn take_always(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What the writer holds now.
    pub(crate) fn set_writer(&self, bytes: usize) {
        self.writer.store(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_the_limit() {
        let budget = Budget::new(100);
        assert!(budget.take(60) && !budget.take(41) && budget.take(40));
        budget.take_always(1000);
        budget.set_writer(50);
        assert_eq!(budget.held_bytes(), 1150);
        assert!(!budget.take(1));
    }
}
