//! Any bytes as a snapshot, and what was read written and read again.
//!
//! The first two bytes say that it is a pickle, so that the fuzzer need not find that out. A snapshot that
//! was read must be writable, and what was written must be readable, with the same blocks.

#![no_main]

use libfuzzer_sys::fuzz_target;

use floodmark_snapshot::{is_snapshot, read_snapshot, write_snapshot};

#[path = "../questions.rs"]
mod questions;

fuzz_target!(|bytes: &[u8]| {
    let _ = is_snapshot(bytes);
    let pickle = [b"\x80\x04", bytes].concat();
    let Ok(trace) = read_snapshot(&pickle) else { return };
    questions::ask(&trace);
    let mut written = Vec::new();
    write_snapshot(&trace, None, &mut written).expect("memory takes all that is written");
    let again = read_snapshot(&written).expect("what we write, we read");
    questions::ask(&again);
});
