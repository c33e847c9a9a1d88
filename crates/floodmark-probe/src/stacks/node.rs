//! The number of a call stack.

use std::sync::atomic::AtomicU32;

/// Incremented whenever an address may belong to another object than before: threads forget their last stack.
pub(crate) static EPOCH: AtomicU32 = AtomicU32::new(1);

/// A node of the call tree, and flags about the frames from the outermost to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Node {
    pub(crate) id: u32,
    pub(crate) flags: u8,
}

/// In the flags of a node, beside `stack_flags`: a frame of the stack was left out.
pub(crate) const FRAME_LEFT_OUT: u8 = 0x80;

impl Node {
    /// A stack that was left out: the memory limit is reached.
    pub(crate) const INCOMPLETE: Self = Self { id: 0, flags: FRAME_LEFT_OUT };

    /// Whether a frame was left out because the recorder's memory limit was reached.
    pub(crate) fn is_incomplete(self) -> bool {
        self.flags & FRAME_LEFT_OUT != 0
    }

    /// This node, used for a frame below it that was left out.
    pub(crate) fn without_frame(self) -> Self {
        Self { id: self.id, flags: self.flags | FRAME_LEFT_OUT }
    }
}
