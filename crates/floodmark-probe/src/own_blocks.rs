//! Host memory that an engine of ours allocates on the program's thread: none of it is the program's.
//!
//! While [`HostWork`] lives, what torch's CPU allocator allocates on this thread is neither recorded nor reported to a
//! profiler. A block is known by its address until it is freed, which may be later; what else is freed meanwhile, such as
//! the program's own tensors by the garbage collector, is recorded. The addresses are kept by thread, so no lock is
//! needed that a fork could find taken.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static BLOCKS: RefCell<HashSet<usize>> = RefCell::new(HashSet::new());
}

/// Work of ours on this thread, until it is dropped.
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

/// A block was allocated: whether it is ours.
pub(crate) fn note_new(addr: usize) -> bool {
    // A thread that ends has neither.
    let is_ours = DEPTH.try_with(Cell::get).unwrap_or(0) > 0;
    if !is_ours {
        // Another thread may have freed a block of ours at that address.
        note_delete(addr);
        return false;
    }
    BLOCKS
        .try_with(|blocks| blocks.try_borrow_mut().map(|mut blocks| blocks.insert(addr)).is_ok())
        .unwrap_or(false)
}

/// A block is about to be freed: whether it is ours.
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
