//! Tables as Arrow messages: one layout per table, one record batch per flush.
//!
//! Every table is a stream of its own: its frames, without their headers, are a plain Arrow IPC stream.
//! Columns are laid out for compression: what is zero for most events is zero, times are differences,
//! and an event about an allocation says how many allocations ago that was made. In a loop these
//! numbers repeat from step to step.
//!
//! This file writes; [`crate::decode`] reads.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::batch::Batch;
use crate::event::{Device, EventKind};
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
        FrameKind::Header | FrameKind::Checkpoint | FrameKind::Ending => &[],
    }
}

fn schema(table: FrameKind) -> SchemaRef {
    let field = |&(name, column): &(&str, ColumnType)| {
        let kind = match column {
            ColumnType::U8 => DataType::UInt8,
            ColumnType::U16 => DataType::UInt16,
            ColumnType::U32 => DataType::UInt32,
            ColumnType::U64 => DataType::UInt64,
            ColumnType::Text => DataType::Utf8,
        };
        Field::new(name, kind, false)
    };
    Arc::new(Schema::new(layout(table).iter().map(field).collect::<Vec<_>>()))
}

fn numbers<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

#[expect(clippy::cast_sign_loss, reason = "the bytes of the two i8 are stored as they are")]
fn device_number(device: Device) -> u16 {
    u16::from_le_bytes([device.kind as u8, device.index as u8])
}

/// The columns of one table of a batch, or nothing when the batch has no row for it.
fn columns(table: FrameKind, batch: &Batch) -> Vec<ArrayRef> {
    match table {
        FrameKind::Events if !batch.rows.is_empty() => event_columns(batch),
        FrameKind::Stacks if !batch.stacks.is_empty() => {
            let rows = || batch.stacks.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt32Type>(rows().map(|r| r.parent)),
                numbers::<UInt32Type>(rows().map(|r| r.code)),
                numbers::<UInt32Type>(rows().map(|r| r.line)),
                numbers::<UInt32Type>(rows().map(|r| r.module)),
                numbers::<UInt8Type>(rows().map(|r| r.flags)),
            ]
        }
        FrameKind::Codes if !batch.codes.is_empty() => {
            let rows = || batch.codes.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt32Type>(rows().map(|r| r.first_line)),
                strings(rows().map(|r| r.file.as_str())),
                strings(rows().map(|r| r.name.as_str())),
            ]
        }
        FrameKind::Modules if !batch.modules.is_empty() => {
            let rows = || batch.modules.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt32Type>(rows().map(|r| r.root)),
                strings(rows().map(|r| r.class.as_str())),
                strings(rows().map(|r| r.name.as_str())),
            ]
        }
        FrameKind::Labels if !batch.labels.is_empty() => {
            let rows = || batch.labels.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt8Type>(rows().map(|r| r.category as u8)),
                strings(rows().map(|r| r.name.as_str())),
                strings(rows().map(|r| r.shape.as_str())),
                strings(rows().map(|r| r.dtype.as_str())),
            ]
        }
        FrameKind::Texts if !batch.texts.is_empty() => {
            let rows = || batch.texts.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt8Type>(rows().map(|r| r.kind as u8)),
                strings(rows().map(|r| r.text.as_str())),
            ]
        }
        _ => Vec::new(),
    }
}

/// Whether rows of this kind make a new allocation.
pub(crate) fn makes_allocation(kind: EventKind) -> bool {
    matches!(kind, EventKind::Alloc | EventKind::Base)
}

/// Whether rows of this kind are about an allocation made earlier.
pub(crate) fn is_about_allocation(kind: EventKind) -> bool {
    matches!(kind, EventKind::Free | EventKind::FreeCompleted | EventKind::Label)
}

fn event_columns(batch: &Batch) -> Vec<ArrayRef> {
    let rows = || batch.rows.iter();
    let mut before = batch.start;
    let mut made = batch.first_allocation;
    vec![
        numbers::<UInt8Type>(rows().map(|r| r.kind as u8)),
        numbers::<UInt16Type>(rows().map(|r| device_number(r.device))),
        numbers::<UInt16Type>(rows().map(|r| r.thread)),
        numbers::<UInt64Type>(rows().map(|r| {
            let later = r.time.0.saturating_sub(before.0);
            before = before.max(r.time);
            later
        })),
        numbers::<UInt64Type>(rows().map(|r| r.addr)),
        numbers::<UInt64Type>(rows().map(|r| r.bytes)),
        numbers::<UInt64Type>(rows().map(|r| r.slack)),
        numbers::<UInt32Type>(rows().map(|r| r.stack)),
        numbers::<UInt32Type>(rows().map(|r| {
            if makes_allocation(r.kind) {
                made = made.wrapping_add(1);
                0
            } else if is_about_allocation(r.kind) {
                made.wrapping_sub(r.allocation.0)
            } else {
                0
            }
        })),
        numbers::<UInt32Type>(rows().map(|r| r.op)),
        numbers::<UInt32Type>(rows().map(|r| r.phase)),
        numbers::<UInt16Type>(rows().map(|r| r.stream)),
        numbers::<UInt16Type>(rows().map(|r| r.pool)),
        numbers::<UInt8Type>(rows().map(|r| r.flags)),
    ]
}

/// Turns batches into the Arrow messages of one table.
pub(crate) struct TableEncoder {
    table: FrameKind,
    stream: Option<StreamWriter<Vec<u8>>>,
}

impl std::fmt::Debug for TableEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableEncoder").field("table", &self.table).finish_non_exhaustive()
    }
}

impl TableEncoder {
    pub(crate) fn new(table: FrameKind) -> Self {
        Self { table, stream: None }
    }

    /// The messages for `batch`: the schema before the first one, nothing where there are no rows.
    pub(crate) fn encode(&mut self, batch: &Batch) -> Vec<Vec<u8>> {
        let columns = columns(self.table, batch);
        if columns.is_empty() {
            return Vec::new();
        }
        let mut messages = Vec::new();
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = none.insert(new_stream(self.table));
                messages.push(std::mem::take(stream.get_mut()));
                stream
            }
        };
        let batch = RecordBatch::try_new(schema(self.table), columns)
            .expect("the columns follow the schema");
        stream.write(&batch).expect("a write to memory does not fail");
        messages.push(std::mem::take(stream.get_mut()));
        messages
    }
}

fn new_stream(table: FrameKind) -> StreamWriter<Vec<u8>> {
    // Eight is the least that Arrow allows. Its usual 64 is for readers that map a file, and would cost a
    // small flush more than its rows.
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
        .and_then(|options| options.try_with_compression(Some(CompressionType::ZSTD)))
        .expect("zstd is compiled in");
    StreamWriter::try_new_with_options(Vec::new(), &schema(table), options)
        .expect("a write to memory does not fail")
}
