//! The memory limit of the recorder (`--max-memory`), and its shares.
//!
//! Each part of the recorder has its share of the limit, in sixteenths: 4 for the mapped journal, 2 for events that wait
//! for a flush, 2 for the state of threads, 1 for their shortcuts, 4 for tables (functions, stacks, modules, names, the
//! stacks of autograd nodes), 1 for a window without a file. Live blocks have at least the other 2, and what threads and
//! tables do not use. A part that has used up its share leaves something out, and the trace counts what events lack. The
//! sizes of entries cover all their tables, including the writer's copy.

use std::sync::atomic::{AtomicU64, Ordering};

/// The lowest limit that the recorder accepts.
pub const LEAST_MEMORY_BYTES: u64 = 16 << 20;

/// Memory of the state of a thread: most of it is the thread's part of the extension's heap.
pub(crate) const THREAD_BYTES: u64 = 56 << 10;

/// The memory limit of one recorder, and what is used of it, in bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicU64,
    tables: AtomicU64,
    threads: AtomicU64,
    shortcuts: AtomicU64,
}

/// Adds to a count, unless it would be more than `most`.
fn take(count: &AtomicU64, bytes: usize, most: u64) -> bool {
    let add = |taken: u64| taken.checked_add(bytes as u64).filter(|&taken| taken <= most);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        let none = || AtomicU64::new(0);
        Self { limit: AtomicU64::new(limit), tables: none(), threads: none(), shortcuts: none() }
    }

    fn sixteenths(&self, count: u64) -> u64 {
        self.limit.load(Ordering::Relaxed) / 16 * count
    }

    /// Raises the limit to a window's higher limit.
    pub(crate) fn raise_limit(&self, limit: u64) {
        self.limit.fetch_max(limit, Ordering::Relaxed);
    }

    /// For mapped chunks of the journal.
    pub(crate) fn journal_bytes(limit: u64) -> u64 {
        limit / 4
    }

    /// For events that wait for a flush, and for their encoding.
    pub(crate) fn flush_bytes(&self) -> u64 {
        self.sixteenths(2)
    }

    /// For the events of a window without a file.
    pub(crate) fn window_bytes(&self) -> usize {
        usize::try_from(self.sixteenths(1)).unwrap_or(usize::MAX)
    }

    /// The number of threads that may have their own state.
    pub(crate) fn most_threads(&self) -> usize {
        usize::try_from(self.sixteenths(2) / THREAD_BYTES).unwrap_or(usize::MAX)
    }

    /// For live blocks: their own share, and the unused part of the others.
    pub(crate) fn live_bytes(&self) -> u64 {
        let unused = |count: &AtomicU64, share| {
            self.sixteenths(share).saturating_sub(count.load(Ordering::Relaxed))
        };
        self.sixteenths(2)
            + unused(&self.tables, 4)
            + unused(&self.threads, 2)
            + unused(&self.shortcuts, 1)
    }

    /// Takes bytes for entries of tables. Returns false, and takes nothing, when the share is used up.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        take(&self.tables, bytes, self.sixteenths(4))
    }

    /// Takes bytes for a thread's shortcuts.
    pub(crate) fn take_shortcuts(&self, bytes: usize) -> bool {
        take(&self.shortcuts, bytes, self.sixteenths(1))
    }

    /// A thread has a state of its own, and shortcuts from an earlier recording.
    pub(crate) fn add_thread(&self, shortcut_bytes: usize) {
        self.threads.fetch_add(THREAD_BYTES, Ordering::Relaxed);
        self.shortcuts.fetch_add(shortcut_bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_a_share() {
        let budget = Budget::new(1600);
        assert!(budget.take(300) && !budget.take(101) && budget.take(100));
        assert!(budget.take_shortcuts(100) && !budget.take_shortcuts(1));
        assert_eq!(budget.live_bytes(), 200 + 200);
        budget.raise_limit(3200);
        assert!(budget.take(400) && budget.take_shortcuts(100));
    }

    #[test]
    fn live_blocks_have_what_the_others_leave() {
        let budget = Budget::new(16 << 20);
        assert_eq!(budget.live_bytes(), 9 << 20);
        assert!(budget.take(4 << 20));
        assert_eq!(budget.live_bytes(), 5 << 20);
        for _ in 0..100 {
            budget.add_thread(1 << 20);
        }
        assert_eq!(budget.live_bytes(), 2 << 20);
    }

    #[test]
    fn the_shares_are_the_whole_limit() {
        let limit = 16 << 20;
        let budget = Budget::new(limit);
        let window = budget.window_bytes() as u64;
        let shares = Budget::journal_bytes(limit) + budget.flush_bytes() + window;
        assert_eq!(shares + budget.live_bytes(), limit);
        assert_eq!(budget.most_threads(), 36, "2 MiB at 56 KiB each");
    }

    #[test]
    fn a_share_that_is_spent_stays_spent() {
        let budget = Budget::new(1600);
        assert!(budget.take(1) && !budget.take(usize::MAX) && !budget.take(400));
        assert!(budget.take(399) && !budget.take(1));
        budget.raise_limit(800);
        assert!(!budget.take(1), "a window that may hold less does not lower the limit");
    }
}
