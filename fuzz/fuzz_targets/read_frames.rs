//! Frames with valid checksums and numbers, and contents that the fuzzer chooses.
//!
//! The target repairs the input before it reads it: it replaces the prelude, adds a header, and gives every frame a valid
//! checksum and the next number. The rest of the input becomes records of the journal with valid checksums.

#![no_main]

use libfuzzer_sys::fuzz_target;

use floodmark_trace::frame::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FrameKind, PRELUDE_BYTES, append_frame, prelude,
};
use floodmark_trace::{Device, EventKind};
use floodmark_trace::journal::{Entry, JournalWriter, Record};

#[path = "../questions.rs"]
mod questions;

const SESSION: u64 = 1;

fuzz_target!(|bytes: &[u8]| {
    let (file, rest) = repair(bytes);
    let mut journal = JournalWriter::new(SESSION);
    for bytes in rest.chunks(RECORD_BYTES) {
        journal.push(0, &entry(bytes));
    }
    let files = journal.files();
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    if let Ok(trace) = floodmark_trace::read_trace(&file, &files) {
        questions::ask(&trace);
    }
});

/// How much of the input becomes one record.
const RECORD_BYTES: usize = 64;

/// A record with fields from the input, and the rest of it as the payload.
fn entry(bytes: &[u8]) -> Entry {
    let mut fields = [0; RECORD_BYTES];
    fields[..bytes.len()].copy_from_slice(bytes);
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| fields[at * 8 + byte]));
    let [kind, flags, device_kind, device_index, ..] = fields;
    let device = Device { kind: device_kind.cast_signed(), index: device_index.cast_signed() };
    let mut record =
        Record::block(EventKind::Alloc, device, word(2), word(3)).at_time(word(1));
    (record.kind, record.flags) = (kind, flags & 0x7F);
    record.set_requested(word(4));
    record.set_totals(word(5), word(6));
    record.set_stack(u32::from_le_bytes([fields[4], fields[5], fields[6], fields[7]]));
    record.thread = u32::from(fields[56]);
    Entry { record, payload: fields[56..].into() }
}

/// Repairs the frames in `bytes`; returns the file, and the bytes after its last frame.
fn repair(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut file = prelude().to_vec();
    append_frame(&mut file, FrameKind::Header, 0, br#"{"session":"1"}"#);
    let mut rest = bytes.get(PRELUDE_BYTES..).unwrap_or_default();
    let mut number = 1_u16;
    while let Some((header, after)) = rest.split_at_checked(FRAME_HEADER_BYTES) {
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let Some((payload, after)) = after.split_at_checked(length) else { break };
        let mut body = vec![header[12], 0];
        body.extend_from_slice(&number.to_le_bytes());
        body.extend_from_slice(payload);
        file.extend_from_slice(&FRAME_MAGIC);
        file.extend_from_slice(&header[4..8]);
        file.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
        file.extend_from_slice(&body);
        number = number.wrapping_add(1);
        rest = after;
    }
    (file, rest)
}
