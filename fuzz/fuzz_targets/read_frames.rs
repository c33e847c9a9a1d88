//! Frames with right checksums and right numbers, and whatever the fuzzer thinks of inside them.
//!
//! The input is a file without the right to be wrong in the boring places: its prelude is replaced, every
//! frame that it seems to have gets the checksum of what is there and the next number, and a header comes
//! first. What is left of a frame at the end becomes a segment of the journal, with the right session.

#![no_main]

use libfuzzer_sys::fuzz_target;

use floodmark_trace::frame::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FrameKind, PRELUDE_BYTES, append_frame, prelude,
};
use floodmark_trace::journal::segment_header;

#[path = "../questions.rs"]
mod questions;

const SESSION: u64 = 1;

fuzz_target!(|bytes: &[u8]| {
    let (file, rest) = mend(bytes);
    let mut segment = segment_header(SESSION, 0).to_vec();
    if let Some(committed) = segment.get_mut(32..40) {
        committed.fill(0xFF);
    }
    segment.extend_from_slice(rest);
    if let Ok(trace) = floodmark_trace::read_trace(&file, &[&segment]) {
        questions::ask(&trace);
    }
});

/// The file that `bytes` might have been, and what is left of them.
fn mend(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
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
