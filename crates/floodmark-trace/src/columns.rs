//! Tables as Arrow messages: one schema per table, one record batch per flush.
//!
//! Every table is a stream of its own: its frames, without their headers, are a plain Arrow IPC stream.
//! Columns are laid out for compression: what is zero for most events is zero, times are differences,
//! and an event about an allocation says how many allocations ago that was made. In a loop these
//! numbers repeat from step to step.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::batch::{Batch, CodeRow, LabelRow, ModuleRow, Row, StackRow, TextRow};
use crate::event::{AllocationId, Category, Device, EventKind, Micros, TextKind};
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

fn schema(table: FrameKind) -> SchemaRef {
    use DataType::{UInt8, UInt16, UInt32, UInt64, Utf8};
    let columns: &[(&str, DataType)] = match table {
        FrameKind::Events => &[
            ("kind", UInt8),
            ("device", UInt16),
            ("thread", UInt16),
            ("micros_later", UInt64),
            ("addr", UInt64),
            ("bytes", UInt64),
            ("slack", UInt64),
            ("stack", UInt32),
            ("allocations_ago", UInt32),
            ("op", UInt32),
            ("phase", UInt32),
            ("stream", UInt16),
            ("pool", UInt16),
            ("flags", UInt8),
        ],
        FrameKind::Stacks => &[
            ("id", UInt32),
            ("parent", UInt32),
            ("code", UInt32),
            ("line", UInt32),
            ("module", UInt32),
            ("flags", UInt8),
        ],
        FrameKind::Codes => &[("id", UInt32), ("first_line", UInt32), ("file", Utf8), ("name", Utf8)],
        FrameKind::Modules => &[("id", UInt32), ("root", UInt32), ("class", Utf8), ("name", Utf8)],
        FrameKind::Labels => &[
            ("id", UInt32),
            ("category", UInt8),
            ("name", Utf8),
            ("shape", Utf8),
            ("dtype", Utf8),
        ],
        FrameKind::Texts => &[("id", UInt32), ("kind", UInt8), ("text", Utf8)],
        FrameKind::Header | FrameKind::Checkpoint | FrameKind::Ending => &[],
    };
    let fields = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
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

#[expect(clippy::cast_possible_wrap, reason = "the bytes of the two i8 are stored as they are")]
fn device_from_number(number: u16) -> Device {
    let [kind, index] = number.to_le_bytes();
    Device { kind: kind as i8, index: index as i8 }
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
fn makes_allocation(kind: EventKind) -> bool {
    matches!(kind, EventKind::Alloc | EventKind::Base)
}

/// Whether rows of this kind are about an allocation made earlier.
fn is_about_allocation(kind: EventKind) -> bool {
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
                made += 1;
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
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::ZSTD))
        .expect("zstd is compiled in");
    StreamWriter::try_new_with_options(Vec::new(), &schema(table), options)
        .expect("a write to memory does not fail")
}

/// Turns the Arrow messages of one table back into rows.
pub(crate) struct TableDecoder {
    table: FrameKind,
    decoder: StreamDecoder,
    has_schema: bool,
}

impl std::fmt::Debug for TableDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableDecoder").field("table", &self.table).finish_non_exhaustive()
    }
}

/// The message is none of this table, or a hostile one.
#[derive(Debug)]
pub(crate) struct BadMessage;

impl TableDecoder {
    pub(crate) fn new(table: FrameKind) -> Self {
        Self { table, decoder: StreamDecoder::new(), has_schema: false }
    }

    /// Adds the rows of one message to `batch`; a schema has none.
    pub(crate) fn decode(&mut self, message: &[u8], batch: &mut Batch) -> Result<(), BadMessage> {
        let mut decoder = std::mem::take(&mut self.decoder);
        let has_schema = self.has_schema;
        let table = self.table;
        // Arrow checks what it reads, but not all of it: a message that was made to break it must cost
        // no more than itself.
        let decoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if !has_schema && !is_schema(message) {
                // The frame with the schema is lost; this build knows it.
                let mut own = Buffer::from_vec(std::mem::take(new_stream(table).get_mut()));
                decoder.decode(&mut own).map_err(|_| BadMessage)?;
            }
            let mut bytes = Buffer::from(message);
            let mut batches = Vec::new();
            while !bytes.is_empty() {
                match decoder.decode(&mut bytes) {
                    Ok(Some(batch)) => batches.push(batch),
                    Ok(None) => {}
                    Err(_) => return Err(BadMessage),
                }
            }
            Ok((decoder, batches))
        }));
        let Ok(Ok((decoder, batches))) = decoded else {
            self.has_schema = false;
            return Err(BadMessage);
        };
        self.decoder = decoder;
        self.has_schema = true;
        for columns in batches {
            if *columns.schema() != *schema(self.table) {
                return Err(BadMessage);
            }
            append_rows(self.table, &columns, batch).ok_or(BadMessage)?;
        }
        Ok(())
    }
}

/// Whether an encapsulated message is a schema: it has no body, so the metadata is all of it.
fn is_schema(message: &[u8]) -> bool {
    let Some(length) = message.get(4..8).and_then(|b| b.try_into().ok()) else { return false };
    8 + u32::from_le_bytes(length) as usize == message.len()
}

fn column<T: ArrowPrimitiveType>(columns: &RecordBatch, at: usize) -> &[T::Native] {
    columns.column(at).as_primitive::<T>().values()
}

fn append_rows(table: FrameKind, columns: &RecordBatch, batch: &mut Batch) -> Option<()> {
    let rows = 0..columns.num_rows();
    let ids = || column::<UInt32Type>(columns, 0);
    match table {
        FrameKind::Events => return append_events(columns, batch),
        FrameKind::Stacks => {
            let (parent, code) = (column::<UInt32Type>(columns, 1), column::<UInt32Type>(columns, 2));
            let (line, module) = (column::<UInt32Type>(columns, 3), column::<UInt32Type>(columns, 4));
            let flags = column::<UInt8Type>(columns, 5);
            batch.stacks.extend(rows.map(|i| StackRow {
                id: ids()[i],
                parent: parent[i],
                code: code[i],
                line: line[i],
                module: module[i],
                flags: flags[i],
            }));
        }
        FrameKind::Codes => {
            let first_line = column::<UInt32Type>(columns, 1);
            let (file, name) =
                (columns.column(2).as_string::<i32>(), columns.column(3).as_string::<i32>());
            batch.codes.extend(rows.map(|i| CodeRow {
                id: ids()[i],
                first_line: first_line[i],
                file: file.value(i).to_owned(),
                name: name.value(i).to_owned(),
            }));
        }
        FrameKind::Modules => {
            let root = column::<UInt32Type>(columns, 1);
            let (class, name) =
                (columns.column(2).as_string::<i32>(), columns.column(3).as_string::<i32>());
            batch.modules.extend(rows.map(|i| ModuleRow {
                id: ids()[i],
                root: root[i],
                class: class.value(i).to_owned(),
                name: name.value(i).to_owned(),
            }));
        }
        FrameKind::Labels => {
            let category = column::<UInt8Type>(columns, 1);
            let text = |at: usize, i: usize| columns.column(at).as_string::<i32>().value(i).to_owned();
            for i in rows {
                batch.labels.push(LabelRow {
                    id: ids()[i],
                    category: Category::from_number(category[i])?,
                    name: text(2, i),
                    shape: text(3, i),
                    dtype: text(4, i),
                });
            }
        }
        FrameKind::Texts => {
            let kind = column::<UInt8Type>(columns, 1);
            let text = columns.column(2).as_string::<i32>();
            for i in rows {
                batch.texts.push(TextRow {
                    id: ids()[i],
                    kind: TextKind::from_number(kind[i])?,
                    text: text.value(i).to_owned(),
                });
            }
        }
        FrameKind::Header | FrameKind::Checkpoint | FrameKind::Ending => {}
    }
    Some(())
}

/// Rows with times and allocations still relative; [`resolve`] makes them absolute.
fn append_events(columns: &RecordBatch, batch: &mut Batch) -> Option<()> {
    let kind = column::<UInt8Type>(columns, 0);
    let device = column::<UInt16Type>(columns, 1);
    let thread = column::<UInt16Type>(columns, 2);
    let later = column::<UInt64Type>(columns, 3);
    let addr = column::<UInt64Type>(columns, 4);
    let bytes = column::<UInt64Type>(columns, 5);
    let slack = column::<UInt64Type>(columns, 6);
    let stack = column::<UInt32Type>(columns, 7);
    let ago = column::<UInt32Type>(columns, 8);
    let op = column::<UInt32Type>(columns, 9);
    let phase = column::<UInt32Type>(columns, 10);
    let stream = column::<UInt16Type>(columns, 11);
    let pool = column::<UInt16Type>(columns, 12);
    let flags = column::<UInt8Type>(columns, 13);
    batch.rows.reserve(columns.num_rows());
    for i in 0..columns.num_rows() {
        batch.rows.push(Row {
            kind: EventKind::from_number(kind[i])?,
            device: device_from_number(device[i]),
            thread: thread[i],
            time: Micros(later[i]),
            addr: addr[i],
            bytes: bytes[i],
            slack: slack[i],
            stack: stack[i],
            allocation: AllocationId(ago[i]),
            op: op[i],
            phase: phase[i],
            stream: stream[i],
            pool: pool[i],
            flags: flags[i],
        });
    }
    Some(())
}

/// Makes the times and allocations of a decoded batch absolute, once its checkpoint is known.
pub(crate) fn resolve(batch: &mut Batch) {
    let mut now = batch.start;
    let mut made = batch.first_allocation;
    for row in &mut batch.rows {
        now = Micros(now.0.saturating_add(row.time.0));
        row.time = now;
        if makes_allocation(row.kind) {
            row.allocation = AllocationId(made);
            made = made.wrapping_add(1);
        } else if is_about_allocation(row.kind) {
            row.allocation = AllocationId(made.wrapping_sub(row.allocation.0));
        }
    }
}
