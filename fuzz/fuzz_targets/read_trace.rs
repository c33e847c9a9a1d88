//! Any bytes as a file, and as its journal.
//!
//! The input is the file; what follows the eight bytes `--JRNL--` in it is a segment of the journal, and
//! so on. Checksums are as the fuzzer left them, so this looks at frames, headers and journals;
//! `read_frames` looks behind the checksums.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../questions.rs"]
mod questions;

const BOUNDARY: &[u8] = b"--JRNL--";

/// The parts between boundaries; there is always a first one.
fn parts(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = bytes.windows(BOUNDARY.len()).position(|window| window == BOUNDARY) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + BOUNDARY.len()..];
    }
    parts.push(bytes);
    parts
}

fuzz_target!(|bytes: &[u8]| {
    let parts = parts(bytes);
    if let Ok(trace) = floodmark_trace::read_trace(parts[0], &parts[1..]) {
        questions::ask(&trace);
    }
});
