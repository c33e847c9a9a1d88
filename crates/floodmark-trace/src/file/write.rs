//! Appends a recording to a file, one flush at a time.

use std::io::{self, Write};

use crate::attachment::GpuMemory;
use crate::batch::Batch;
use crate::event::Device;
use crate::frame::{FrameKind, append_frame, prelude};
use crate::header::{Ending, Header};
use crate::losses::LeftOut;
use crate::tables::{TABLES, TableEncoder};

/// Writes frames to an [`std::io::Write`].
///
/// Each call is one `write_all`, so a file that grows is read in whole flushes.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    tables: [TableEncoder; TABLES.len()],
    number: u16,
    bytes_written: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a file.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let tables = TABLES.map(TableEncoder::new);
        let mut writer = Self { out, tables, number: 0, bytes_written: 0 };
        let mut bytes = prelude().to_vec();
        writer.append_json(&mut bytes, FrameKind::Header, header);
        writer.write(&bytes)?;
        Ok(writer)
    }

    /// Writes the header again.
    pub fn write_header(&mut self, header: &Header) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.append_json(&mut bytes, FrameKind::Header, header);
        self.write(&bytes)
    }

    /// Appends a flush and its checkpoint.
    pub fn write_batch(&mut self, batch: &Batch) -> io::Result<()> {
        let mut bytes = Vec::new();
        for source in &batch.sources {
            self.append(&mut bytes, FrameKind::Source, &source.encode()?);
        }
        if !batch.gpu_memory.is_empty() {
            let samples = GpuMemory::encode(&batch.gpu_memory)?;
            self.append(&mut bytes, FrameKind::GpuMemory, &samples);
        }
        for (at, table) in TABLES.into_iter().enumerate() {
            for message in self.tables[at].encode(batch) {
                self.append(&mut bytes, table, &message);
            }
        }
        self.append(&mut bytes, FrameKind::Checkpoint, &checkpoint(batch));
        self.write(&bytes)
    }

    /// Ends the file.
    pub fn finish(mut self, ending: &Ending) -> io::Result<W> {
        let mut bytes = Vec::new();
        self.append_json(&mut bytes, FrameKind::Ending, ending);
        self.write(&bytes)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// The output.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// The output, mutable.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Bytes written so far.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    fn append_json(&mut self, bytes: &mut Vec<u8>, kind: FrameKind, value: &impl serde::Serialize) {
        let json = serde_json::to_vec(value).expect("plain structs become JSON");
        self.append(bytes, kind, &json);
    }

    fn append(&mut self, bytes: &mut Vec<u8>, kind: FrameKind, payload: &[u8]) {
        append_frame(bytes, kind, self.number, payload);
        self.number = self.number.wrapping_add(1);
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.bytes_written += bytes.len() as u64;
        Ok(())
    }
}

#[expect(clippy::cast_sign_loss, reason = "the bytes of the two i8 are stored as they are")]
fn device_bytes(device: Device) -> [u8; 2] {
    [device.kind as u8, device.index as u8]
}

fn checkpoint(batch: &Batch) -> Vec<u8> {
    let rows = u32::try_from(batch.rows.len()).expect("a flush has far fewer than 2^32 rows");
    let totals = u32::try_from(batch.totals.len()).expect("a machine has few devices");
    let mut bytes = Vec::with_capacity(72 + batch.totals.len() * 24);
    bytes.extend_from_slice(&batch.through_nanos.to_le_bytes());
    bytes.extend_from_slice(&batch.start.0.to_le_bytes());
    bytes.extend_from_slice(&batch.disagreements.to_le_bytes());
    bytes.extend_from_slice(&batch.left_out.stacks.to_le_bytes());
    bytes.extend_from_slice(&batch.first_allocation.to_le_bytes());
    bytes.extend_from_slice(&rows.to_le_bytes());
    bytes.extend_from_slice(&totals.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for total in &batch.totals {
        bytes.extend_from_slice(&device_bytes(total.device));
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&total.allocated.0.to_le_bytes());
        bytes.extend_from_slice(&total.reserved.0.to_le_bytes());
    }
    let LeftOut { stacks: _, names, threads, records } = batch.left_out;
    for count in [names, threads, records] {
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    bytes
}
