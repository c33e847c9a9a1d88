//! Host memory that the engine of fake tensors allocates on the program's threads, for itself.
//!
//! While [`HostWork`] lives, what torch's CPU allocator allocates on this thread is neither recorded nor reported to a
//! profiler. Its blocks are stored by address until they are freed, which may be later; other frees, such as those of
//! the program's tensors by the garbage collector, are recorded. The addresses are stored per thread, so no lock is
//! needed that a fork could leave locked.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    // A `HashSet` would ask the kernel for random numbers on each thread of the program.
    static BLOCKS: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
}

/// Host allocations of this thread are not recorded until it is dropped.
#[derive(Debug)]
pub struct HostWork(());

impl HostWork {
    /// Hides what this thread allocates on the host.
    #[expect(clippy::new_without_default, reason = "it begins something")]
    pub fn new() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self(())
    }
}

impl Drop for HostWork {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Stores a new block. Returns whether it belongs to the engine.
pub(crate) fn note_new(addr: usize) -> bool {
    // A thread that is ending has neither.
    let is_ours = DEPTH.try_with(Cell::get).unwrap_or(0) > 0;
    if !is_ours {
        // Another thread may have freed a block of the engine at that address.
        note_delete(addr);
        return false;
    }
    BLOCKS
        .try_with(|blocks| blocks.try_borrow_mut().map(|mut blocks| blocks.insert(addr)).is_ok())
        .unwrap_or(false)
}

/// Removes a block that is about to be freed. Returns whether it belongs to the engine.
pub(crate) fn note_delete(addr: usize) -> bool {
    BLOCKS
        .try_with(|blocks| {
            blocks
                .try_borrow_mut()
                .is_ok_and(|mut blocks| !blocks.is_empty() && blocks.remove(&addr))
        })
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_ours_is_known_until_it_is_freed() {
        assert!(!note_new(0x10));
        let work = HostWork::new();
        assert!(note_new(0x20));
        {
            let _inner = HostWork::new();
            assert!(note_new(0x30));
        }
        assert!(note_new(0x40));
        assert!(!note_delete(0x10), "the program's");
        drop(work);
        assert!(!note_new(0x50));
        assert!([0x20, 0x30, 0x40].map(note_delete).iter().all(|&is_ours| is_ours));
        assert!(!note_delete(0x20), "it was freed");
    }
}
