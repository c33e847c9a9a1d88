//! Attaching the recorder to torch, once torch is loaded.

use super::patch::{self, HookedFunctions};
use super::{operators, saved_tensors, tracker};
use crate::recorder::with_recording;
use crate::stacks::autograd_nodes;

/// What the recorder is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// Slots that were found.
    pub found: HookedFunctions,
    /// Backward allocations can be tied to forward.
    pub backward: bool,
}

/// Stores the hooks, once torch is loaded. Frames of files in `folder`, torch's own, are not the user's.
pub fn attach_torch(folder: String) -> Option<Attached> {
    let backward = autograd_nodes::attach();
    saved_tensors::attach();
    with_recording(|recording, _| {
        recording.tree.lock().folders.torch = Some(folder);
    })?;
    Some(Attached { found: patch::install(), backward })
}

/// Attaches to operators, once torch is loaded. Returns whether it is attached.
pub fn attach_ops() -> bool {
    operators::attach()
}

/// Attaches to the events of the native allocator, once CUDA is initialised. Returns whether it is attached.
pub fn attach_tracker(has_pools: bool) -> bool {
    tracker::attach(has_pools)
}
