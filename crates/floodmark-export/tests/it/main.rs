//! Whole outputs of small recordings, and what is true of every one.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "the helpers of tests are tests too"
)]

mod csv;
mod event_tracks;
mod laws;
mod pictures;
mod png;
mod speedscope;
mod stacks;
mod tables;
mod timeline;

use floodmark_export::{ExportError, Options};
use floodmark_trace::Trace;

/// The recording that a script makes.
fn trace(script: &str) -> Trace {
    floodmark_trace::read_trace(&floodmark_testing::script::file(script), &[]).unwrap()
}

/// Two steps of a model with one layer.
const STEPS: &str = "initial w cuda:0 4MiB
    label w parameter fc.weight (1024,1024) float32
    alloc x cuda:0 1MiB at train.py:3:main
    alloc h cuda:0 8MiB at train.py:5:main > model.py:12:forward in fc
    backward alloc g cuda:0 4MiB at train.py:5:main > model.py:12:forward in fc
    free h
    optimizer begin
    alloc m cuda:0 2MiB at train.py:9:main > torch/optim/adam.py:40:step
    optimizer end
    alloc c cpu 64KiB at train.py:10:main
    alloc h cuda:0 8MiB at train.py:5:main > model.py:12:forward in fc
    free h
    free x";

type Write = fn(&Trace, &Options, &mut Vec<u8>) -> Result<(), ExportError>;

fn written(write: Write, trace: &Trace, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    write(trace, options, &mut out).unwrap();
    out
}

fn text(write: Write, trace: &Trace, options: &Options) -> String {
    String::from_utf8(written(write, trace, options)).unwrap()
}

fn on(device: &str) -> Options {
    Options { device: Some(device.parse().unwrap()), ..Options::default() }
}
