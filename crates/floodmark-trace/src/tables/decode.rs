//! From the Arrow messages of a table back to rows.
//!
//! The other half of `encode.rs`.

use super::layout::{is_about_allocation, layout, makes_allocation};
use super::message::{BadMessage, Columns, Message, MessageReader};
use crate::batch::{Batch, CodeRow, LabelRow, ModuleRow, Row, StackRow, TextRow};
use crate::event::{AllocationId, Category, Device, EventKind, Micros, TextKind};
use crate::frame::FrameKind;
use crate::limits::Budget;

/// Turns the Arrow messages of one table back into rows.
#[derive(Debug)]
pub(crate) struct TableDecoder {
    table: FrameKind,
    messages: MessageReader,
    /// A schema that is not ours: the rows after it would be misread.
    is_foreign: bool,
}

impl TableDecoder {
    pub(crate) fn new(table: FrameKind) -> Self {
        Self { table, messages: MessageReader::new(layout(table)), is_foreign: false }
    }

    /// Adds the rows of one message to `batch`; a schema has none.
    ///
    /// The schema may be missing: this build has it. If another schema came first, no row is read.
    pub(crate) fn decode(
        &mut self,
        message: &[u8],
        budget: &mut Budget,
        batch: &mut Batch,
    ) -> Result<(), BadMessage> {
        match self.messages.read(message, budget) {
            Ok(Message::Schema) => {
                self.is_foreign = false;
                Ok(())
            }
            Ok(Message::Rows(columns)) if !self.is_foreign => {
                append_rows(self.table, columns, batch)
            }
            Ok(Message::Rows(_)) => Err(BadMessage),
            Err(bad) => {
                self.is_foreign |= is_schema(message);
                Err(bad)
            }
        }
    }
}

/// Whether an encapsulated message is a schema: it has no body, so it is metadata only.
fn is_schema(message: &[u8]) -> bool {
    let Some(length) = message.get(4..8).and_then(|b| b.try_into().ok()) else { return false };
    8 + u32::from_le_bytes(length) as usize == message.len()
}

#[expect(clippy::cast_possible_wrap, reason = "the bytes of the two i8 are stored as they are")]
fn device_from_number(number: u16) -> Device {
    let [kind, index] = number.to_le_bytes();
    Device { kind: kind as i8, index: index as i8 }
}

fn append_rows(
    table: FrameKind,
    mut columns: Columns,
    batch: &mut Batch,
) -> Result<(), BadMessage> {
    match table {
        FrameKind::Events => return append_events(&columns, batch),
        FrameKind::Stacks => append_stacks(&columns, batch)?,
        FrameKind::Codes => {
            let (files, names) = (columns.take_texts(2)?, columns.take_texts(3)?);
            let numbers = columns.u32(0)?.iter().zip(columns.u32(1)?);
            for ((&id, &first_line), (file, name)) in numbers.zip(files.into_iter().zip(names)) {
                batch.codes.push(CodeRow { id, first_line, file, name });
            }
        }
        FrameKind::Modules => {
            let (classes, names) = (columns.take_texts(2)?, columns.take_texts(3)?);
            let numbers = columns.u32(0)?.iter().zip(columns.u32(1)?);
            for ((&id, &root), (class, name)) in numbers.zip(classes.into_iter().zip(names)) {
                batch.modules.push(ModuleRow { id, root, class, name });
            }
        }
        FrameKind::Labels => {
            let (names, shapes) = (columns.take_texts(2)?, columns.take_texts(3)?);
            let texts = names.into_iter().zip(shapes).zip(columns.take_texts(4)?);
            let numbers = columns.u32(0)?.iter().zip(columns.u8(1)?);
            for ((&id, &category), ((name, shape), dtype)) in numbers.zip(texts) {
                let category = Category::from_number(category).ok_or(BadMessage)?;
                batch.labels.push(LabelRow { id, category, name, shape, dtype });
            }
        }
        FrameKind::Texts => {
            let texts = columns.take_texts(2)?;
            let numbers = columns.u32(0)?.iter().zip(columns.u8(1)?);
            for ((&id, &kind), text) in numbers.zip(texts) {
                let kind = TextKind::from_number(kind).ok_or(BadMessage)?;
                batch.texts.push(TextRow { id, kind, text });
            }
        }
        FrameKind::Header
        | FrameKind::Checkpoint
        | FrameKind::Ending
        | FrameKind::Source
        | FrameKind::Answer
        | FrameKind::GpuMemory => {}
    }
    Ok(())
}

fn append_stacks(columns: &Columns, batch: &mut Batch) -> Result<(), BadMessage> {
    let (id, parent, code) = (columns.u32(0)?, columns.u32(1)?, columns.u32(2)?);
    let (line, module, flags) = (columns.u32(3)?, columns.u32(4)?, columns.u8(5)?);
    batch.stacks.extend((0..id.len()).map(|i| StackRow {
        id: id[i],
        parent: parent[i],
        code: code[i],
        line: line[i],
        module: module[i],
        flags: flags[i],
    }));
    Ok(())
}

/// Rows with times and allocations still relative; [`resolve`] makes them absolute.
fn append_events(columns: &Columns, batch: &mut Batch) -> Result<(), BadMessage> {
    let kind = columns.u8(0)?;
    let rows = kind.len();
    let (device, thread) = (&columns.u16(1)?[..rows], &columns.u16(2)?[..rows]);
    let (later, addr) = (&columns.u64(3)?[..rows], &columns.u64(4)?[..rows]);
    let (bytes, slack) = (&columns.u64(5)?[..rows], &columns.u64(6)?[..rows]);
    let (stacks, ago) = (&columns.u32(7)?[..rows], &columns.u32(8)?[..rows]);
    let (op, phase) = (&columns.u32(9)?[..rows], &columns.u32(10)?[..rows]);
    let (stream, pool) = (&columns.u16(11)?[..rows], &columns.u16(12)?[..rows]);
    let flags = &columns.u8(13)?[..rows];
    batch.rows.reserve(rows);
    for i in 0..rows {
        batch.rows.push(Row {
            kind: EventKind::from_number(kind[i]).ok_or(BadMessage)?,
            device: device_from_number(device[i]),
            thread: thread[i],
            time: Micros(later[i]),
            addr: addr[i],
            bytes: bytes[i],
            slack: slack[i],
            stack: stacks[i],
            allocation: AllocationId(ago[i]),
            op: op[i],
            phase: phase[i],
            stream: stream[i],
            pool: pool[i],
            flags: flags[i],
        });
    }
    Ok(())
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
