//! Recordings that are written as they should be, with values in them that cannot be true.
//!
//! The input chooses which values of a good recording are replaced, and by what; the file is written after that. So its
//! checksums, its Arrow messages and its compression are right, and the fuzzer reaches what is behind them.

#![no_main]

use libfuzzer_sys::fuzz_target;

use floodmark_testing::script::entries;
use floodmark_testing::spoil::spoil;
use floodmark_trace::{Assembler, Batch, Ending, Header, TraceWriter};

#[path = "../questions.rs"]
mod questions;

/// A few of everything.
const SCRIPT: &str = "
    initial w cuda:0 2MiB
    label w parameter layers.0.weight (4,4) float32
    segment S cuda:0 20MiB stream 7
    alloc a cuda:0 1MiB on S at train.py:1 > model.py:2:forward in layers.0 op mm stream 7
    alloc b cpu 4KiB at train.py:3 phase eval
    save a
    free a deferred
    complete a
    backward alloc g cuda:0 2MiB at model.py:2:forward in layers.1 op mm
    label g gradient layers.1.weight (4,4) float32
    optimizer begin
    optimizer end
    step
    oom cuda:0 1GiB at train.py:9 left 512MiB
    phase begin eval
    free b
    phase end
    free-segment S";

fuzz_target!(|bytes: &[u8]| {
    let mut assembler = Assembler::default();
    let mut writer = TraceWriter::new(Vec::new(), &Header::default()).expect("memory takes it");
    let mut rest = bytes.iter();
    for flush in entries(SCRIPT).chunks(12) {
        for entry in flush {
            assembler.push(&entry.record, &entry.payload);
        }
        let mut batch: Batch = assembler.take_batch();
        let count = rest.next().map_or(0, |&count| usize::from(count % 8));
        for _ in 0..count {
            spoil(&mut batch, &mut |most| rest.next().map_or(0, |&byte| usize::from(byte)) % most);
        }
        writer.write_batch(&batch).expect("memory takes it");
    }
    let file = writer.finish(&Ending::default()).expect("memory takes it");
    let trace = floodmark_trace::read_trace(&file, &[]).expect("the file is whole");
    questions::ask(&trace);
});
