//! Reads one Arrow message from untrusted bytes.
//!
//! Arrow's own reader trusts a message's lengths for the memory it needs, and panics on some hostile ones. This
//! reader supports only our own layout: the metadata is a verified flatbuffer, every length is checked against
//! the bytes that follow, and decompression is limited by a budget. Nothing here can panic.

use arrow_ipc::{CompressionType, Endianness, Field, MessageHeader, RecordBatch, Schema, Type};
use zstd::bulk::Decompressor;

use super::layout::ColumnType;
use crate::limits::Budget;

/// The bytes before the metadata: a continuation mark and the length.
const PREFIX_BYTES: usize = 8;
const CONTINUATION: [u8; 4] = [0xFF; 4];
/// The length field of a buffer that is stored uncompressed.
const NOT_COMPRESSED: i64 = -1;

/// The message does not belong to this table, or is hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadMessage;

/// The contents of a message.
#[derive(Debug)]
pub(crate) enum Message {
    /// The expected layout.
    Schema,
    /// Rows.
    Rows(Columns),
}

/// The values of one column.
#[derive(Debug)]
pub(crate) enum Column {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Text(Vec<String>),
}

/// The columns of a record batch, all of the same length.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
}

macro_rules! accessors {
    ($($name:ident: $variant:ident($value:ty),)*) => {$(
        pub(crate) fn $name(&self, at: usize) -> Result<&[$value], BadMessage> {
            match self.columns.get(at) {
                Some(Column::$variant(values)) => Ok(values),
                _ => Err(BadMessage),
            }
        }
    )*};
}

impl Columns {
    accessors! {
        u8: U8(u8),
        u16: U16(u16),
        u32: U32(u32),
        u64: U64(u64),
    }

    /// The strings of a column, which is empty afterwards.
    pub(crate) fn take_texts(&mut self, at: usize) -> Result<Vec<String>, BadMessage> {
        let Some(Column::Text(texts)) = self.columns.get_mut(at) else { return Err(BadMessage) };
        Ok(std::mem::take(texts))
    }
}

/// Reads the messages of one table.
pub(crate) struct MessageReader {
    layout: &'static [(&'static str, ColumnType)],
    decompressor: Option<Decompressor<'static>>,
    /// Decompressed values, before they are columns.
    scratch: Vec<u8>,
}

impl std::fmt::Debug for MessageReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageReader").finish_non_exhaustive()
    }
}

impl MessageReader {
    pub(crate) fn new(layout: &'static [(&'static str, ColumnType)]) -> Self {
        Self { layout, decompressor: None, scratch: Vec::new() }
    }

    /// Reads one message. Its decompressed bytes are subtracted from `budget`.
    pub(crate) fn read(
        &mut self,
        message: &[u8],
        budget: &mut Budget,
    ) -> Result<Message, BadMessage> {
        let (prefix, rest) = message.split_at_checked(PREFIX_BYTES).ok_or(BadMessage)?;
        let (mark, length) = prefix.split_at(4);
        let length = u32::from_le_bytes(length.try_into().map_err(|_| BadMessage)?) as usize;
        if mark != CONTINUATION {
            return Err(BadMessage);
        }
        let (metadata, body) = rest.split_at_checked(length).ok_or(BadMessage)?;
        let metadata = arrow_ipc::root_as_message(metadata).map_err(|_| BadMessage)?;
        if usize::try_from(metadata.bodyLength()) != Ok(body.len()) {
            return Err(BadMessage);
        }
        match metadata.header_type() {
            MessageHeader::Schema => {
                let schema = metadata.header_as_schema().ok_or(BadMessage)?;
                if has_layout(&schema, self.layout) { Ok(Message::Schema) } else { Err(BadMessage) }
            }
            MessageHeader::RecordBatch => {
                let batch = metadata.header_as_record_batch().ok_or(BadMessage)?;
                self.read_columns(&batch, body, budget).map(Message::Rows)
            }
            _ => Err(BadMessage),
        }
    }

    fn read_columns(
        &mut self,
        batch: &RecordBatch<'_>,
        body: &[u8],
        budget: &mut Budget,
    ) -> Result<Columns, BadMessage> {
        let is_zstd = batch.compression().is_some_and(|c| c.codec() == CompressionType::ZSTD);
        let rows = usize::try_from(batch.length()).map_err(|_| BadMessage)?;
        let nodes = batch.nodes().ok_or(BadMessage)?;
        if !is_zstd || nodes.len() != self.layout.len() {
            return Err(BadMessage);
        }
        if nodes.iter().any(|node| node.null_count() != 0 || node.length() != batch.length()) {
            return Err(BadMessage);
        }
        let mut buffers = batch.buffers().ok_or(BadMessage)?.iter().map(|buffer| {
            let start = usize::try_from(buffer.offset()).map_err(|_| BadMessage)?;
            let length = usize::try_from(buffer.length()).map_err(|_| BadMessage)?;
            let end = start.checked_add(length).ok_or(BadMessage)?;
            body.get(start..end).ok_or(BadMessage)
        });
        let mut next = || buffers.next().ok_or(BadMessage)?;
        let mut columns = Vec::with_capacity(self.layout.len());
        for &(_, column) in self.layout {
            // The first buffer marks null values. There are none.
            next()?;
            columns.push(match column {
                ColumnType::U8 => {
                    Column::U8(self.numbers(next()?, rows, u8::from_le_bytes, budget)?)
                }
                ColumnType::U16 => {
                    Column::U16(self.numbers(next()?, rows, u16::from_le_bytes, budget)?)
                }
                ColumnType::U32 => {
                    Column::U32(self.numbers(next()?, rows, u32::from_le_bytes, budget)?)
                }
                ColumnType::U64 => {
                    Column::U64(self.numbers(next()?, rows, u64::from_le_bytes, budget)?)
                }
                ColumnType::Text => Column::Text(self.texts(next()?, next()?, rows, budget)?),
            });
        }
        Ok(Columns { columns })
    }

    fn numbers<T, const WIDTH: usize>(
        &mut self,
        buffer: &[u8],
        rows: usize,
        from_le_bytes: impl Fn([u8; WIDTH]) -> T,
        budget: &mut Budget,
    ) -> Result<Vec<T>, BadMessage> {
        let bytes = self.decompress(buffer, budget)?;
        let bytes_needed = rows.checked_mul(WIDTH).ok_or(BadMessage)?;
        let (values, _) = bytes.get(..bytes_needed).ok_or(BadMessage)?.as_chunks::<WIDTH>();
        Ok(values.iter().map(|&value| from_le_bytes(value)).collect())
    }

    fn texts(
        &mut self,
        offsets: &[u8],
        bytes: &[u8],
        rows: usize,
        budget: &mut Budget,
    ) -> Result<Vec<String>, BadMessage> {
        let ends = rows.checked_add(1).ok_or(BadMessage)?;
        let offsets = self.numbers(offsets, ends, u32::from_le_bytes, budget)?;
        let bytes = self.decompress(bytes, budget)?;
        let text = |pair: &[u32]| {
            let (&[start, end], _) = pair.split_first_chunk().ok_or(BadMessage)?;
            let text = bytes.get(start as usize..end as usize).ok_or(BadMessage)?;
            Ok(std::str::from_utf8(text).map_err(|_| BadMessage)?.to_owned())
        };
        offsets.windows(2).map(text).collect()
    }

    /// The bytes of a buffer: an eight-byte length, then zstd; or −1, then the bytes themselves.
    fn decompress<'a>(
        &'a mut self,
        buffer: &'a [u8],
        budget: &mut Budget,
    ) -> Result<&'a [u8], BadMessage> {
        if buffer.is_empty() {
            return Ok(buffer);
        }
        let (length, compressed) = buffer.split_first_chunk().ok_or(BadMessage)?;
        let length = i64::from_le_bytes(*length);
        let is_compressed = length != NOT_COMPRESSED;
        let length = if is_compressed {
            usize::try_from(length).map_err(|_| BadMessage)?
        } else {
            compressed.len()
        };
        // zstd's own length is known before anything is decompressed.
        let length_in_frame = zstd::zstd_safe::get_frame_content_size(compressed).ok().flatten();
        if is_compressed && length_in_frame.is_some_and(|found| found != length as u64) {
            return Err(BadMessage);
        }
        budget.take(length).ok_or(BadMessage)?;
        if !is_compressed {
            return Ok(compressed);
        }
        if self.decompressor.is_none() {
            self.decompressor = Some(Decompressor::new().map_err(|_| BadMessage)?);
        }
        let decompressor = self.decompressor.as_mut().ok_or(BadMessage)?;
        self.scratch.resize(length, 0);
        let written = decompressor
            .decompress_to_buffer(compressed, &mut self.scratch[..])
            .map_err(|_| BadMessage)?;
        if written == length { Ok(&self.scratch) } else { Err(BadMessage) }
    }
}

fn has_layout(schema: &Schema<'_>, layout: &[(&str, ColumnType)]) -> bool {
    let Some(fields) = schema.fields() else { return false };
    schema.endianness() == Endianness::Little
        && fields.len() == layout.len()
        && fields.iter().zip(layout).all(|(field, &(name, column))| {
            field.name() == Some(name) && !field.nullable() && column_type(&field) == Some(column)
        })
}

fn column_type(field: &Field<'_>) -> Option<ColumnType> {
    if field.dictionary().is_some() {
        return None;
    }
    match field.type_type() {
        Type::Utf8 => Some(ColumnType::Text),
        Type::Int => {
            let int = field.type_as_int()?;
            match (int.is_signed(), int.bitWidth()) {
                (false, 8) => Some(ColumnType::U8),
                (false, 16) => Some(ColumnType::U16),
                (false, 32) => Some(ColumnType::U32),
                (false, 64) => Some(ColumnType::U64),
                _ => None,
            }
        }
        _ => None,
    }
}
