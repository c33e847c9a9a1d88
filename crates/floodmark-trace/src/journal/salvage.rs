//! Reads a whole journal: returns the valid records, counts the lost ones.

use std::collections::BTreeMap;

use super::{
    CHUNK_BYTES, CHUNK_HEADER_BYTES, CHUNK_MAGIC, Entry, LEDGER_LINE_BYTES, LEDGER_MAGIC,
    LedgerLine, MOST_CHUNKS, SLOT_BYTES, Seed, chunk_header, ledger, ledger_header,
    ledger_line_offset, parse_record, u32_at, u64_at,
};

/// The contents of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SalvagedJournal {
    /// The valid records, unordered.
    pub entries: Vec<Entry>,
    /// Records that were completely written, are not in the trace file, and are damaged or missing.
    pub lost: u64,
    /// The ledger is damaged or missing, so it is not known how many records are lost.
    pub is_ledger_damaged: bool,
}

/// Reads the files of a journal, in any order. `None` when none of them is of this recording.
///
/// Only a record with a correct checksum counts.
pub fn read_journal(files: &[&[u8]], session: u64) -> Option<SalvagedJournal> {
    let mut chunks = BTreeMap::new();
    let mut ledger = None;
    for file in files {
        for part in file.chunks(CHUNK_BYTES) {
            let Some(header) = part.get(..CHUNK_HEADER_BYTES) else { continue };
            if header[..8] == CHUNK_MAGIC && u64_at(header, 8) == session {
                chunks.insert(u32_at(header, 16), &part[CHUNK_HEADER_BYTES..]);
            }
        }
        let is_ledger = file.len() >= LEDGER_LINE_BYTES && file.starts_with(&LEDGER_MAGIC);
        if is_ledger && u64_at(file, 8) == session {
            ledger = Some(*file);
        }
    }
    let Some(ledger) = ledger else {
        let mut journal = SalvagedJournal { is_ledger_damaged: true, ..Default::default() };
        let seed = Seed::of_session(session);
        for slots in chunks.values() {
            journal.take_all(slots, seed);
        }
        return (!chunks.is_empty()).then_some(journal);
    };
    let mut journal =
        SalvagedJournal { is_ledger_damaged: ledger::is_cut(ledger), ..Default::default() };
    let lines = ledger.len().div_ceil(LEDGER_LINE_BYTES).saturating_sub(1).min(MOST_CHUNKS);
    let lines = (0..u32::try_from(lines).unwrap_or(u32::MAX))
        .filter_map(|number| LedgerLine::read(ledger, number).map(|line| (number, line)));
    for (number, line) in lines {
        let slots = chunks.remove(&number).unwrap_or_default();
        journal.take_chunk(slots, line, Seed::of_session(session));
    }
    // Chunks without a line: the ledger was cut.
    for slots in chunks.values() {
        journal.is_ledger_damaged = true;
        journal.take_all(slots, Seed::of_session(session));
    }
    Some(journal)
}

/// The version of the journal, where it is not the one that this build reads.
pub(crate) fn other_version(files: &[&[u8]]) -> Option<char> {
    let family = LEDGER_MAGIC.len() - 1;
    let is_other = |file: &&&[u8]| {
        file.starts_with(&LEDGER_MAGIC[..family]) && !file.starts_with(&LEDGER_MAGIC)
    };
    let other = files.iter().find(is_other)?;
    other.get(family).map(|&version| char::from(version))
}

impl SalvagedJournal {
    /// Adds the records that the ledger counts, and valid ones after them.
    fn take_chunk(&mut self, slots: &[u8], line: LedgerLine, seed: Seed) {
        let mut rest = slots;
        let mut next = 0_u32;
        while next < line.records || !rest.is_empty() {
            let found = parse_record(rest, seed).map(|(ordinal, record, payload, taken)| {
                (ordinal.wrapping_sub(line.first_ordinal), record, payload, taken)
            });
            match found {
                Some((at, record, payload, taken))
                    if at == next || (at > next && at < line.records) =>
                {
                    self.lost += u64::from(at.saturating_sub(next.max(line.flushed)));
                    next = at.saturating_add(1);
                    self.entries.push(Entry { record, payload: payload.into() });
                    rest = rest.get(taken * SLOT_BYTES..).unwrap_or_default();
                }
                // A record of this recording, later than any that the line has: the line is wrong.
                Some((at, ..)) if line.records == 0 && at < u32::MAX / 2 => {
                    self.is_ledger_damaged = true;
                    self.take_all(slots, seed);
                    return;
                }
                _ if next < line.records && !rest.is_empty() => {
                    rest = rest.get(SLOT_BYTES..).unwrap_or_default();
                }
                _ => break,
            }
        }
        self.lost += u64::from(line.records.saturating_sub(next.max(line.flushed)));
    }

    /// Adds every valid record. Earlier records of the chunk were in the file before the chunk was
    /// used again.
    fn take_all(&mut self, slots: &[u8], seed: Seed) {
        let mut rest = slots;
        while !rest.is_empty() {
            let mut taken = 1;
            if let Some((_, record, payload, slots)) = parse_record(rest, seed) {
                self.entries.push(Entry { record, payload: payload.into() });
                taken = slots;
            }
            rest = rest.get(taken * SLOT_BYTES..).unwrap_or_default();
        }
    }
}

/// A journal in memory, with the bytes that a recording leaves on disk.
#[derive(Debug)]
pub struct JournalWriter {
    session: u64,
    chunks: BTreeMap<u32, (LedgerLine, Vec<u8>)>,
}

impl JournalWriter {
    /// A journal without records.
    pub fn new(session: u64) -> Self {
        Self { session, chunks: BTreeMap::new() }
    }

    /// Appends a record to a chunk.
    pub fn push(&mut self, chunk: u32, entry: &Entry) {
        let new = || (LedgerLine::default(), chunk_header(self.session, chunk).to_vec());
        let (line, bytes) = self.chunks.entry(chunk).or_insert_with(new);
        let seed = Seed::of_session(self.session);
        let made = entry.record.to_bytes(seed, line.first_ordinal + line.records, &entry.payload);
        let end = bytes.len() + made.slots * SLOT_BYTES;
        bytes.extend(made.words().iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend_from_slice(&entry.payload);
        bytes.resize(end, 0);
        line.records += 1;
        line.slots += u32::try_from(made.slots).unwrap_or(0);
    }

    /// The files: the ledger, then the chunks.
    pub fn files(&self) -> Vec<Vec<u8>> {
        let lines = self.chunks.last_key_value().map_or(0, |(&number, _)| number + 1);
        let bytes = LEDGER_LINE_BYTES * (1 + lines as usize);
        let mut ledger = ledger_header(self.session, bytes).to_vec();
        for (&number, (line, _)) in &self.chunks {
            ledger.resize(ledger_line_offset(number), 0);
            ledger.extend_from_slice(&line.to_bytes());
        }
        let chunks = self.chunks.values().map(|(_, bytes)| bytes.clone());
        std::iter::once(ledger).chain(chunks).collect()
    }
}
