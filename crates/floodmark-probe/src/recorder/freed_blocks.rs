//! Blocks that are freed while a list of live blocks is made.
//!
//! A list of live blocks is out of date as soon as it is made: another thread may free a block of it. Hooks store the
//! blocks that are freed from before the list is made until it is recorded, and these are left out.

use std::sync::atomic::{AtomicUsize, Ordering};

use floodmark_trace::Device;
use hashbrown::HashSet;
use parking_lot::{Mutex, MutexGuard};

/// The blocks that were freed while lists are open. A recorder that replaces another one takes over
/// this table.
#[derive(Debug, Default)]
pub(crate) struct FreedBlocks {
    /// The number of open lists.
    lists: AtomicUsize,
    freed: Mutex<HashSet<(Device, u64)>>,
}

impl FreedBlocks {
    /// Stores a block that is about to be freed. Called before its event is written.
    #[inline]
    pub(crate) fn add(&self, device: Device, addr: u64) {
        if self.lists.load(Ordering::SeqCst) > 0 {
            self.freed.lock().insert((device, addr));
        }
    }

    /// Starts a list: freed blocks are stored until [`Self::end_list`].
    pub(crate) fn begin_list(&self) {
        self.lists.fetch_add(1, Ordering::SeqCst);
    }

    /// The blocks that were freed since the first list started.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<(Device, u64)>> {
        self.freed.lock()
    }

    /// Ends a list. The last one empties the table.
    pub(crate) fn end_list(&self) {
        let mut freed = self.freed.lock();
        if self.lists.fetch_sub(1, Ordering::SeqCst) == 1 {
            *freed = HashSet::new();
        }
    }
}
