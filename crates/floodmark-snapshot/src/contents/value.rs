//! A value on the unpickler's stack: 16 bytes, never a tree of objects.

use crate::format::known_strings::StringId;

/// A range of indexes into one of the lists in [`crate::contents::snapshot::Contents`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IndexRange {
    pub(crate) first: u32,
    pub(crate) end: u32,
}

impl IndexRange {
    /// The part of a list; empty if the list has no such part.
    pub(crate) fn slice<T>(self, all: &[T]) -> &[T] {
        all.get(self.first as usize..self.end as usize).unwrap_or_default()
    }
}

/// The kind of a list's items.
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
    /// A value that the reader does not need, or a container that refers to itself.
    Opaque,
    Int(i64),
    String(StringId),
    /// A pair of integers: the id of a memory pool.
    Pool(u32),
    /// A frame of a call stack.
    Frame(u32),
    /// A list of frames, as a node of the call tree. 0 is the empty list, of any kind.
    Stack(u32),
    /// The number of an event.
    Event(u32),
    Block(u32),
    Segment(u32),
    Annotation(u32),
    History(u32),
    /// A list of values of one kind.
    List(ListOf, IndexRange),
    /// The `allocator_settings`.
    Settings,
    /// The outermost dict.
    Snapshot,
    /// A dict to which items may be added.
    OpenDict(u32),
    /// A list to which items may be added.
    OpenList(u32),
}

const _: () = assert!(size_of::<Value>() == 16);

impl Value {
    /// Whether the reader does not need the value.
    #[inline]
    pub(crate) fn is_opaque(self) -> bool {
        matches!(self, Self::Opaque)
    }
}
