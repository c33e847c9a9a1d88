//! What lies on the stack of the pickle machine: never a tree, always one small thing.

use crate::format::known_strings::StringId;

/// A stretch of one of the lists in [`crate::contents::snapshot::SnapshotContents`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IndexRange {
    pub(crate) first: u32,
    pub(crate) end: u32,
}

/// What a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ListOf {
    #[default]
    Nothing,
    Frames,
    Events,
    Blocks,
    Segments,
    Annotations,
    Histories,
    /// Lists of events.
    Traces,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// Something that no question is asked of, or that is referred to while it is being made.
    Opaque,
    Int(i64),
    String(StringId),
    /// A pair of numbers.
    Pool(u32),
    /// A frame of a call stack.
    Frame(u32),
    /// A list of frames, as a node of the call tree. 0 is the empty list, of whatever.
    Stack(u32),
    /// An event that is on the tape.
    Event(u32),
    Block(u32),
    Segment(u32),
    Annotation(u32),
    History(u32),
    /// A list of one of these.
    List(ListOf, IndexRange),
    /// The `allocator_settings`.
    Settings,
    /// The whole.
    Snapshot,
    /// A dict that may still get items.
    OpenDict(u32),
    /// A list that may still get items.
    OpenList(u32),
}

const _: () = assert!(size_of::<Value>() == 16);

impl Value {
    /// Whether it is something that no question is asked of.
    #[inline]
    pub(crate) fn is_opaque(self) -> bool {
        matches!(self, Self::Opaque)
    }
}
