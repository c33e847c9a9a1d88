//! From bytes to a [`Trace`]: checks everything, keeps the valid parts, counts what is missing.

use super::other_file::OtherFile;
use crate::assemble::{Assembler, Selection};
use crate::attachment::{GpuMemory, SourceFile, StoredAnswer};
use crate::batch::{Batch, Total};
use crate::event::{Bytes, Device, Micros};
use crate::frame::{self, FILE_MAGIC, FORMAT_VERSION, FrameKind, Piece};
use crate::header::{Ending, Header};
use crate::hint::Hint;
use crate::journal;
use crate::journal::state::read_state;
use crate::limits::{Budget, DecompressionLimit};
use crate::losses::{Loss, counted};
use crate::tables::{TABLES, TableDecoder, resolve};
use crate::trace::Trace;

/// Why a trace could not be read at all. Damage inside a trace is a [`Loss`], not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is something else.
    #[error("this is {found}, not a recording")]
    NotATrace {
        /// What it seems to be.
        found: OtherFile,
    },
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file begins as a trace but ends inside the header.
    #[error("the file ends within its header, after {}", counted(*bytes, "byte", "bytes"))]
    EndsInHeader {
        /// How long it is.
        bytes: u64,
    },
    /// What the file decompresses to is more than the limit.
    #[error("the file decompresses to more than {limit} bytes")]
    TooLarge {
        /// The limit for this file.
        limit: u64,
    },
    /// A newer floodmark wrote it.
    #[error("trace format {found} is newer than this build, which reads up to {FORMAT_VERSION}")]
    TooNew {
        /// Its version.
        found: u16,
    },
    /// Another version of floodmark wrote the journal beside it.
    #[error("the journal beside the trace has version {found}; this build reads version 2")]
    JournalVersion {
        /// Its version.
        found: char,
    },
    /// No part of it is readable.
    #[error("the trace has no readable header: {damaged_bytes} bytes are damaged")]
    NoHeader {
        /// How many bytes are not readable.
        damaged_bytes: u64,
    },
}

impl Hint for ReadError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotATrace { found } => Some(found.hint()),
            Self::Empty => Some("was the program stopped before it began? record it again"),
            Self::EndsInHeader { .. } => {
                Some("the program ended before it wrote more, or the copy is not complete")
            }
            Self::TooLarge { .. } => Some(DecompressionLimit::HINT),
            Self::TooNew { .. } => {
                Some("read it with the floodmark that recorded it, or install that version here")
            }
            Self::JournalVersion { .. } => Some(
                "the program was killed while it recorded: read the trace with the floodmark that recorded it",
            ),
            Self::NoHeader { .. } => Some("the beginning of the file is lost; record it again"),
        }
    }
}

/// Reads a file and, if present, the files of its journal: chunks and the state.
///
/// Whether the program still holds the journal's lock is not in the bytes: see [`Trace::note_running`].
pub fn read_trace(file: &[u8], journal: &[&[u8]]) -> Result<Trace, ReadError> {
    read_trace_within(DecompressionLimit::default(), file, journal)
}

/// The same with another limit.
pub fn read_trace_within(
    limit: DecompressionLimit,
    file: &[u8],
    journal: &[&[u8]],
) -> Result<Trace, ReadError> {
    check_beginning(file)?;
    let mut reader = Reader::new(limit);
    reader.set_file_bytes(file.len() as u64);
    for piece in frame::pieces(file) {
        match piece {
            Piece::Frame(frame) => reader.take_frame(frame),
            Piece::Damaged { offset, bytes } => {
                let start = usize::try_from(offset).unwrap_or(file.len());
                let is_last = offset + bytes == file.len() as u64;
                if is_last && frame::is_cut(&file[start..]) {
                    reader.is_cut = true;
                } else {
                    reader.note_damage(offset, bytes);
                }
            }
        }
    }
    reader.finish(journal)
}

/// Checks that a file begins like a trace; eight bytes are enough.
pub fn check_beginning(file: &[u8]) -> Result<(), ReadError> {
    if file.is_empty() {
        return Err(ReadError::Empty);
    }
    let magic = &file[..file.len().min(FILE_MAGIC.len())];
    if !FILE_MAGIC.starts_with(magic) {
        return Err(ReadError::NotATrace { found: OtherFile::from_beginning(file) });
    }
    if file.len() < frame::PRELUDE_BYTES {
        return Err(ReadError::EndsInHeader { bytes: file.len() as u64 });
    }
    let version = u16::from_le_bytes([file[4], file[5]]);
    if version > FORMAT_VERSION {
        return Err(ReadError::TooNew { found: version });
    }
    Ok(())
}

/// What has been read so far.
#[derive(Debug)]
pub(crate) struct Reader {
    trace: Trace,
    has_header: bool,
    decoders: [TableDecoder; TABLES.len()],
    /// How much more may be decompressed.
    budget: Budget,
    /// The rows since the last checkpoint.
    batch: Batch,
    next_number: u16,
    missing_frames: u64,
    damaged_bytes: u64,
    first_damage: u64,
    /// A flush with a lost part is not used.
    is_flush_broken: bool,
    /// The file ends inside a frame: it is still being written, or the program died.
    pub(crate) is_cut: bool,
}

impl Reader {
    pub(crate) fn new(limit: DecompressionLimit) -> Self {
        Self {
            trace: Trace::default(),
            has_header: false,
            decoders: TABLES.map(TableDecoder::new),
            budget: Budget::new(limit),
            batch: Batch::default(),
            next_number: 0,
            missing_frames: 0,
            damaged_bytes: 0,
            first_damage: 0,
            is_flush_broken: false,
            is_cut: false,
        }
    }

    /// Sets the current length of the file.
    pub(crate) fn set_file_bytes(&mut self, bytes: u64) {
        self.budget.set_file_bytes(bytes);
        self.trace.holes.set_file_bytes(bytes);
    }

    /// A copy to finish; it reads no more of the file.
    pub(crate) fn to_finish(&self) -> Self {
        Self {
            trace: self.trace.clone(),
            has_header: self.has_header,
            batch: self.batch.clone(),
            missing_frames: self.missing_frames,
            damaged_bytes: self.damaged_bytes,
            first_damage: self.first_damage,
            is_cut: self.is_cut,
            budget: self.budget,
            ..Self::new(DecompressionLimit::default())
        }
    }

    pub(crate) fn note_damage(&mut self, offset: u64, bytes: u64) {
        if self.damaged_bytes == 0 {
            self.first_damage = offset;
        }
        self.damaged_bytes += bytes;
        self.break_flush();
    }

    /// Records a gap. Events are the last frame before their checkpoint, so events before the gap have
    /// lost their checkpoint and must not be used with the next one.
    fn break_flush(&mut self) {
        self.is_flush_broken = true;
        self.batch.rows.clear();
    }

    fn note_missing(&mut self, frames: u64) {
        self.missing_frames += frames;
        self.break_flush();
    }

    pub(crate) fn take_frame(&mut self, frame: frame::Frame<'_>) {
        let missing = frame.number.wrapping_sub(self.next_number);
        if missing != 0 {
            self.note_missing(u64::from(missing));
        }
        self.next_number = frame.number.wrapping_add(1);
        let Some(kind) = frame.kind else { return };
        match kind {
            FrameKind::Header => match serde_json::from_slice::<Header>(frame.payload) {
                Ok(header) => {
                    self.trace.header = header;
                    self.has_header = true;
                }
                Err(_) => self.missing_frames += 1,
            },
            FrameKind::Ending => {
                self.trace.ending = serde_json::from_slice::<Ending>(frame.payload).ok();
            }
            FrameKind::Checkpoint => self.take_checkpoint(frame.payload),
            FrameKind::Source => match SourceFile::decode(frame.payload, &mut self.budget) {
                Some(source) => self.batch.sources.push(source),
                None => self.missing_frames += 1,
            },
            FrameKind::GpuMemory => match GpuMemory::decode(frame.payload, &mut self.budget) {
                Some(samples) => self.batch.gpu_memory.extend(samples),
                None => self.missing_frames += 1,
            },
            FrameKind::Answer => match StoredAnswer::decode(frame.payload, &mut self.budget) {
                Some(answer) => self.take_answer(answer),
                None => self.missing_frames += 1,
            },
            FrameKind::Events
            | FrameKind::Stacks
            | FrameKind::Codes
            | FrameKind::Modules
            | FrameKind::Labels
            | FrameKind::Texts => {
                let decoder = TABLES.iter().position(|&table| table == kind);
                let decoder = &mut self.decoders[decoder.expect("every table has a decoder")];
                let budget = &mut self.budget;
                if decoder.decode(frame.payload, budget, &mut self.batch).is_err() {
                    self.note_missing(1);
                }
            }
        }
    }

    fn take_answer(&mut self, answer: StoredAnswer) {
        if let Some(capacity) = answer.planned_capacity() {
            self.trace.header.set_capacity(capacity);
        }
        self.trace.answers.push(answer);
    }

    fn take_checkpoint(&mut self, payload: &[u8]) {
        let mut batch = std::mem::take(&mut self.batch);
        let was_broken = std::mem::take(&mut self.is_flush_broken);
        let rows = read_checkpoint(payload, &mut batch);
        if rows.is_none_or(|rows| rows as usize != batch.rows.len()) {
            // Definitions are valid alone; events are not when some of them are lost.
            batch.rows.clear();
            if rows.is_none() || !was_broken {
                self.missing_frames += 1;
            }
        }
        if rows.is_none() {
            self.trace.push_definitions(batch);
            return;
        }
        // Time never decreases, even if a checkpoint says so.
        batch.start = batch.start.max(self.trace.last_time());
        resolve(&mut batch);
        self.trace.push(batch);
    }

    pub(crate) fn finish(mut self, journal: &[&[u8]]) -> Result<Trace, ReadError> {
        self.check()?;
        let is_finished = self.trace.ending.is_some();
        // Definitions of an unfinished flush are still valid; its events are in the journal.
        let rest = std::mem::take(&mut self.batch);
        if !rest.rows.is_empty() {
            self.is_cut = true;
        }
        if self.is_cut && is_finished {
            self.missing_frames += 1;
        }
        self.trace.push_definitions(rest);
        let mut losses = self.losses(None);
        if !is_finished {
            self.salvage(journal, &mut losses)?;
        }
        self.trace.complete(losses);
        Ok(self.trace)
    }

    /// The trace of all complete flushes. `left` is damage at the end, where it begins and its bytes: the file may
    /// grow, and what follows shows what it was.
    pub(crate) fn complete(&mut self, left: Option<(u64, u64)>) -> Result<&Trace, ReadError> {
        self.check()?;
        let losses = self.losses(left);
        self.trace.complete(losses);
        Ok(&self.trace)
    }

    /// The last completed trace.
    pub(crate) fn completed(&self) -> &Trace {
        &self.trace
    }

    fn check(&self) -> Result<(), ReadError> {
        if let Some(limit) = self.budget.exceeded() {
            return Err(ReadError::TooLarge { limit });
        }
        if !self.has_header && self.damaged_bytes == 0 && self.missing_frames == 0 {
            return Err(ReadError::EndsInHeader { bytes: self.budget.file_bytes() });
        }
        if !self.has_header {
            return Err(ReadError::NoHeader { damaged_bytes: self.damaged_bytes });
        }
        Ok(())
    }

    fn losses(&self, left: Option<(u64, u64)>) -> Vec<Loss> {
        let mut losses = Vec::new();
        if self.missing_frames > 0 {
            losses.push(Loss::MissingFrames(self.missing_frames));
        }
        let (at, more) = left.unwrap_or_default();
        let first_offset = if self.damaged_bytes > 0 { self.first_damage } else { at };
        let bytes = self.damaged_bytes + more;
        if bytes > 0 {
            losses.push(Loss::Damaged { bytes, first_offset });
        }
        losses
    }

    /// Applies the state of the journal. Returns whether a free lock means that the program has
    /// ended.
    fn take_state(&mut self, files: &[&[u8]], session: u64) -> bool {
        let mut states = files.iter().filter_map(|file| read_state(file));
        let Some(state) = states.find(|state| state.session == session) else { return false };
        self.trace.stop = state.stop;
        state.is_locked
    }

    /// Adds the records of the journal that the file lacks.
    fn salvage(&mut self, files: &[&[u8]], losses: &mut Vec<Loss>) -> Result<(), ReadError> {
        if let Some(found) = journal::other_version(files) {
            return Err(ReadError::JournalVersion { found });
        }
        let session = u64::from_str_radix(&self.trace.header.session, 16).unwrap_or(0);
        let found = journal::read_journal(files, session);
        let has_journal = found.is_some();
        let has_ended = self.take_state(files, session);
        let mut found = found.unwrap_or_default();
        let through = self.trace.through_nanos;
        found.entries.retain(|entry| entry.record.time_nanos > through);
        found.entries.sort_by_key(|entry| (entry.record.time_nanos, entry.record.thread));
        if !has_journal || (found.entries.is_empty() && self.is_cut) {
            losses.push(Loss::Unfinished);
        }
        if found.lost > 0 {
            losses.push(Loss::LostInJournal(found.lost));
        }
        if found.is_ledger_damaged {
            losses.push(Loss::LedgerDamaged);
        }
        let is_unfinished = losses.contains(&Loss::Unfinished);
        if !is_unfinished && self.trace.stop.is_none() {
            losses.push(Loss::Salvaged { events: found.entries.len() as u64, has_ended });
        }
        if found.entries.is_empty() {
            return Ok(());
        }
        let mut assembler = Assembler::resume(&self.trace);
        let mut selection = Selection::resume(&self.trace);
        for entry in &found.entries {
            if let Some(record) = selection.select(&entry.record) {
                assembler.push(&record, &entry.payload);
            }
        }
        self.trace.push(assembler.take_batch());
        Ok(())
    }
}

/// Applies a checkpoint, and returns how many rows the flush has.
#[expect(clippy::cast_possible_wrap, reason = "the bytes of the two i8 are stored as they are")]
fn read_checkpoint(payload: &[u8], batch: &mut Batch) -> Option<u32> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(payload.get(at..at + 8)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(payload.get(at..at + 4)?.try_into().ok()?));
    batch.through_nanos = u64_at(0)?;
    batch.start = Micros(u64_at(8)?);
    batch.disagreements = u64_at(16)?;
    batch.left_out.stacks = u64_at(24)?;
    batch.first_allocation = u32_at(32)?;
    let rows = u32_at(36)?;
    let totals = u32_at(40)?;
    for at in 0..totals as usize {
        let at = 48 + at * 24;
        let device = Device { kind: *payload.get(at)? as i8, index: *payload.get(at + 1)? as i8 };
        let (allocated, reserved) = (Bytes(u64_at(at + 8)?), Bytes(u64_at(at + 16)?));
        batch.totals.push(Total { device, allocated, reserved });
    }
    // Files of the first builds end here.
    let after = 48 + totals as usize * 24;
    batch.left_out.names = u64_at(after).unwrap_or(0);
    batch.left_out.threads = u64_at(after + 8).unwrap_or(0);
    batch.left_out.records = u64_at(after + 16).unwrap_or(0);
    Some(rows)
}
