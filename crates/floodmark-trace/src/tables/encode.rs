//! Rows to Arrow messages: one stream per table, one record batch per flush.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::batch::{Batch, Row};
use crate::event::{Device, Micros};
use crate::frame::FrameKind;

use super::layout::{ColumnType, is_about_allocation, layout, makes_allocation};

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
    if is_empty(table, batch) {
        return Vec::new();
    }
    match table {
        FrameKind::Events => event_columns(batch),
        FrameKind::Stacks => {
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
        FrameKind::Codes => {
            let rows = || batch.codes.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt32Type>(rows().map(|r| r.first_line)),
                strings(rows().map(|r| r.file.as_str())),
                strings(rows().map(|r| r.name.as_str())),
            ]
        }
        FrameKind::Modules => {
            let rows = || batch.modules.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt32Type>(rows().map(|r| r.root)),
                strings(rows().map(|r| r.class.as_str())),
                strings(rows().map(|r| r.name.as_str())),
            ]
        }
        FrameKind::Labels => {
            let rows = || batch.labels.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt8Type>(rows().map(|r| r.category as u8)),
                strings(rows().map(|r| r.name.as_str())),
                strings(rows().map(|r| r.shape.as_str())),
                strings(rows().map(|r| r.dtype.as_str())),
            ]
        }
        FrameKind::Texts => {
            let rows = || batch.texts.iter();
            vec![
                numbers::<UInt32Type>(rows().map(|r| r.id)),
                numbers::<UInt8Type>(rows().map(|r| r.kind as u8)),
                strings(rows().map(|r| r.text.as_str())),
            ]
        }
        FrameKind::Header
        | FrameKind::Checkpoint
        | FrameKind::Ending
        | FrameKind::Source
        | FrameKind::Answer
        | FrameKind::GpuMemory => Vec::new(),
    }
}

/// Whether a batch has no row for a table.
fn is_empty(table: FrameKind, batch: &Batch) -> bool {
    match table {
        FrameKind::Events => batch.rows.is_empty(),
        FrameKind::Stacks => batch.stacks.is_empty(),
        FrameKind::Codes => batch.codes.is_empty(),
        FrameKind::Modules => batch.modules.is_empty(),
        FrameKind::Labels => batch.labels.is_empty(),
        FrameKind::Texts => batch.texts.is_empty(),
        FrameKind::Header
        | FrameKind::Checkpoint
        | FrameKind::Ending
        | FrameKind::Source
        | FrameKind::Answer
        | FrameKind::GpuMemory => true,
    }
}

/// How many rows are taken at a time: as many as the processor's first cache holds.
const ROWS_AT_A_TIME: usize = 256;

/// The columns of the events table. Each is filled from a few rows at a time, so that the rows, which are larger
/// than any cache, are read once and not once for each column.
#[derive(Default)]
struct EventColumns {
    kind: Vec<u8>,
    device: Vec<u16>,
    thread: Vec<u16>,
    micros_later: Vec<u64>,
    addr: Vec<u64>,
    bytes: Vec<u64>,
    slack: Vec<u64>,
    stack: Vec<u32>,
    allocations_ago: Vec<u32>,
    op: Vec<u32>,
    phase: Vec<u32>,
    stream: Vec<u16>,
    pool: Vec<u16>,
    flags: Vec<u8>,
}

impl EventColumns {
    fn fill(&mut self, rows: &[Row], before: &mut Micros, made: &mut u32) {
        self.kind.extend(rows.iter().map(|row| row.kind as u8));
        self.device.extend(rows.iter().map(|row| device_number(row.device)));
        self.thread.extend(rows.iter().map(|row| row.thread));
        self.micros_later.extend(rows.iter().map(|row| {
            let later = row.time.0.saturating_sub(before.0);
            *before = row.time.max(*before);
            later
        }));
        self.addr.extend(rows.iter().map(|row| row.addr));
        self.bytes.extend(rows.iter().map(|row| row.bytes));
        self.slack.extend(rows.iter().map(|row| row.slack));
        self.stack.extend(rows.iter().map(|row| row.stack));
        self.allocations_ago.extend(rows.iter().map(|row| {
            if makes_allocation(row.kind) {
                *made = made.wrapping_add(1);
                0
            } else if is_about_allocation(row.kind) {
                made.wrapping_sub(row.allocation.0)
            } else {
                0
            }
        }));
        self.op.extend(rows.iter().map(|row| row.op));
        self.phase.extend(rows.iter().map(|row| row.phase));
        self.stream.extend(rows.iter().map(|row| row.stream));
        self.pool.extend(rows.iter().map(|row| row.pool));
        self.flags.extend(rows.iter().map(|row| row.flags));
    }

    fn into_arrays(self) -> Vec<ArrayRef> {
        vec![
            Arc::new(PrimitiveArray::<UInt8Type>::from(self.kind)),
            Arc::new(PrimitiveArray::<UInt16Type>::from(self.device)),
            Arc::new(PrimitiveArray::<UInt16Type>::from(self.thread)),
            Arc::new(PrimitiveArray::<UInt64Type>::from(self.micros_later)),
            Arc::new(PrimitiveArray::<UInt64Type>::from(self.addr)),
            Arc::new(PrimitiveArray::<UInt64Type>::from(self.bytes)),
            Arc::new(PrimitiveArray::<UInt64Type>::from(self.slack)),
            Arc::new(PrimitiveArray::<UInt32Type>::from(self.stack)),
            Arc::new(PrimitiveArray::<UInt32Type>::from(self.allocations_ago)),
            Arc::new(PrimitiveArray::<UInt32Type>::from(self.op)),
            Arc::new(PrimitiveArray::<UInt32Type>::from(self.phase)),
            Arc::new(PrimitiveArray::<UInt16Type>::from(self.stream)),
            Arc::new(PrimitiveArray::<UInt16Type>::from(self.pool)),
            Arc::new(PrimitiveArray::<UInt8Type>::from(self.flags)),
        ]
    }
}

fn event_columns(batch: &Batch) -> Vec<ArrayRef> {
    let mut columns = EventColumns::default();
    let (mut before, mut made) = (batch.start, batch.first_allocation);
    for rows in batch.rows.chunks(ROWS_AT_A_TIME) {
        columns.fill(rows, &mut before, &mut made);
    }
    columns.into_arrays()
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

/// The fastest of zstd's usual levels: a recording shares its processor with the program.
const FASTEST: i32 = 1;

fn new_stream(table: FrameKind) -> StreamWriter<Vec<u8>> {
    // Eight is the least that Arrow allows. Its usual 64 is for readers that map a file, and would cost a
    // small flush more than its rows.
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
        .and_then(|options| options.try_with_compression(Some(CompressionType::ZSTD)))
        .and_then(|options| options.try_with_compression_level(Some(FASTEST)))
        .expect("zstd is compiled in");
    StreamWriter::try_new_with_options(Vec::new(), &schema(table), options)
        .expect("a write to memory does not fail")
}
