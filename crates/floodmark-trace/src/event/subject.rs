//! What an event is about, and three narrower views of it.
//!
//! A caller that needs only some events matches on the view that has them. Each view lists every
//! event once, so a new event fails to compile here until each view includes it or leaves it out.

use crate::event::{AllocationId, Bytes, EventBytes, LabelId, TextId};

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A block was allocated, or (in the beginning) was live already.
    Alloc(AllocationId),
    /// The program freed a block. When `deferred`, a stream still uses it.
    Free {
        /// Which.
        allocation: AllocationId,
        /// Whether [`Subject::FreeCompleted`] comes later.
        deferred: bool,
    },
    /// The last stream has finished using a block.
    FreeCompleted(AllocationId),
    /// A block from before the recording was freed; 0 bytes when its size is unknown.
    FreeUnknown(EventBytes),
    /// The allocator reserved memory from the driver.
    SegmentAlloc(u32),
    /// The allocator freed memory to the driver.
    SegmentFree(u32),
    /// An expandable segment grew.
    SegmentMap(u32),
    /// An expandable segment shrank.
    SegmentUnmap(u32),
    /// A segment from before the recording.
    InitialSegment(u32),
    /// An allocation failed: index into [`crate::Trace::ooms`].
    Oom(u32),
    /// Reserved bytes are now this many.
    Reserved(EventBytes),
    /// The allocation got the name of its tensor.
    Label {
        /// Which.
        allocation: AllocationId,
        /// Its name.
        label: LabelId,
    },
    /// Autograd saved the allocation for the backward pass, for the first time.
    Saved(AllocationId),
    /// The backward pass read the allocation, which autograd had saved.
    Unpacked(AllocationId),
    /// The step with this number ended.
    Step(u32),
    /// The user marked this time.
    Mark(TextId),
    /// A named phase began.
    PhaseBegin(TextId),
    /// A named phase ended.
    PhaseEnd(TextId),
    /// An optimizer's `step` began.
    OptimizerBegin,
    /// An optimizer's `step` ended.
    OptimizerEnd,
}

/// An event that changes allocated bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocatedChange {
    /// A block was allocated, or (in the beginning) was live already.
    Alloc(AllocationId),
    /// The program freed a block.
    Free(AllocationId),
    /// A block from before the recording was freed; 0 bytes when its size is unknown.
    FreeUnknown(Bytes),
}

/// An event that changes reserved bytes: each has an index into [`crate::Trace::segments`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentChange {
    /// The allocator reserved memory from the driver.
    Alloc(u32),
    /// The allocator freed memory to the driver.
    Free(u32),
    /// An expandable segment grew.
    Map(u32),
    /// An expandable segment shrank.
    Unmap(u32),
    /// A segment from before the recording.
    Initial(u32),
}

/// An event of the program itself, not of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEvent {
    /// The step with this number ended.
    Step(u32),
    /// The user marked this time.
    Mark(TextId),
    /// A named phase began.
    PhaseBegin(TextId),
    /// A named phase ended.
    PhaseEnd(TextId),
    /// An optimizer's `step` began.
    OptimizerBegin,
    /// An optimizer's `step` ended.
    OptimizerEnd,
}

impl Subject {
    /// The change of allocated bytes; `None` for other events.
    #[inline]
    pub fn allocated_change(self) -> Option<AllocatedChange> {
        match self {
            Self::Alloc(id) => Some(AllocatedChange::Alloc(id)),
            Self::Free { allocation, .. } => Some(AllocatedChange::Free(allocation)),
            Self::FreeUnknown(bytes) => Some(AllocatedChange::FreeUnknown(bytes.into())),
            Self::FreeCompleted(_)
            | Self::SegmentAlloc(_)
            | Self::SegmentFree(_)
            | Self::SegmentMap(_)
            | Self::SegmentUnmap(_)
            | Self::InitialSegment(_)
            | Self::Oom(_)
            | Self::Reserved(_)
            | Self::Label { .. }
            | Self::Saved(_)
            | Self::Unpacked(_)
            | Self::Step(_)
            | Self::Mark(_)
            | Self::PhaseBegin(_)
            | Self::PhaseEnd(_)
            | Self::OptimizerBegin
            | Self::OptimizerEnd => None,
        }
    }

    /// The change of segments; `None` for other events.
    #[inline]
    pub fn segment_change(self) -> Option<SegmentChange> {
        match self {
            Self::SegmentAlloc(index) => Some(SegmentChange::Alloc(index)),
            Self::SegmentFree(index) => Some(SegmentChange::Free(index)),
            Self::SegmentMap(index) => Some(SegmentChange::Map(index)),
            Self::SegmentUnmap(index) => Some(SegmentChange::Unmap(index)),
            Self::InitialSegment(index) => Some(SegmentChange::Initial(index)),
            Self::Alloc(_)
            | Self::Free { .. }
            | Self::FreeCompleted(_)
            | Self::FreeUnknown(_)
            | Self::Oom(_)
            | Self::Reserved(_)
            | Self::Label { .. }
            | Self::Saved(_)
            | Self::Unpacked(_)
            | Self::Step(_)
            | Self::Mark(_)
            | Self::PhaseBegin(_)
            | Self::PhaseEnd(_)
            | Self::OptimizerBegin
            | Self::OptimizerEnd => None,
        }
    }

    /// The event of the program; `None` for an event of memory.
    #[inline]
    pub fn program_event(self) -> Option<ProgramEvent> {
        match self {
            Self::Step(number) => Some(ProgramEvent::Step(number)),
            Self::Mark(text) => Some(ProgramEvent::Mark(text)),
            Self::PhaseBegin(text) => Some(ProgramEvent::PhaseBegin(text)),
            Self::PhaseEnd(text) => Some(ProgramEvent::PhaseEnd(text)),
            Self::OptimizerBegin => Some(ProgramEvent::OptimizerBegin),
            Self::OptimizerEnd => Some(ProgramEvent::OptimizerEnd),
            Self::Alloc(_)
            | Self::Free { .. }
            | Self::FreeCompleted(_)
            | Self::FreeUnknown(_)
            | Self::SegmentAlloc(_)
            | Self::SegmentFree(_)
            | Self::SegmentMap(_)
            | Self::SegmentUnmap(_)
            | Self::InitialSegment(_)
            | Self::Oom(_)
            | Self::Reserved(_)
            | Self::Label { .. }
            | Self::Saved(_)
            | Self::Unpacked(_) => None,
        }
    }

    /// The allocation that was allocated, where the event is one.
    #[inline]
    pub fn allocated(self) -> Option<AllocationId> {
        if let Self::Alloc(id) = self { Some(id) } else { None }
    }
}
