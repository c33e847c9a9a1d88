//! The columns of each table, for the encoder and the decoder.
//!
//! Columns are laid out for compression: a field that an event does not use is zero, times are differences, and an event
//! about an allocation has the number of allocations since it. In a training loop these numbers repeat from step to step.

use crate::event::EventKind;
use crate::frame::FrameKind;

/// The tables, in the order in which a flush writes them: definitions before their use.
pub(crate) const TABLES: [FrameKind; 6] = [
    FrameKind::Texts,
    FrameKind::Codes,
    FrameKind::Modules,
    FrameKind::Stacks,
    FrameKind::Labels,
    FrameKind::Events,
];

/// What a column holds. No column has nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
    U8,
    U16,
    U32,
    U64,
    Text,
}

/// The columns of a table, in order.
pub(crate) fn layout(table: FrameKind) -> &'static [(&'static str, ColumnType)] {
    use ColumnType::{Text, U8, U16, U32, U64};
    match table {
        FrameKind::Events => &[
            ("kind", U8),
            ("device", U16),
            ("thread", U16),
            ("micros_later", U64),
            ("addr", U64),
            ("bytes", U64),
            ("slack", U64),
            ("stack", U32),
            ("allocations_ago", U32),
            ("op", U32),
            ("phase", U32),
            ("stream", U16),
            ("pool", U16),
            ("flags", U8),
        ],
        FrameKind::Stacks => &[
            ("id", U32),
            ("parent", U32),
            ("code", U32),
            ("line", U32),
            ("module", U32),
            ("flags", U8),
        ],
        FrameKind::Codes => &[("id", U32), ("first_line", U32), ("file", Text), ("name", Text)],
        FrameKind::Modules => &[("id", U32), ("root", U32), ("class", Text), ("name", Text)],
        FrameKind::Labels => {
            &[("id", U32), ("category", U8), ("name", Text), ("shape", Text), ("dtype", Text)]
        }
        FrameKind::Texts => &[("id", U32), ("kind", U8), ("text", Text)],
        FrameKind::Header
        | FrameKind::Checkpoint
        | FrameKind::Ending
        | FrameKind::Source
        | FrameKind::Answer
        | FrameKind::GpuMemory => &[],
    }
}

/// Whether rows of this kind make a new allocation.
pub(crate) fn makes_allocation(kind: EventKind) -> bool {
    matches!(kind, EventKind::Alloc | EventKind::InitialBlock)
}

/// Whether rows of this kind are about an allocation made earlier.
pub(crate) fn is_about_allocation(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Free
            | EventKind::FreeCompleted
            | EventKind::Label
            | EventKind::Saved
            | EventKind::Unpacked
    )
}
