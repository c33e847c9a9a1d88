//! From the contents of a snapshot to a trace.

mod annotations;
mod device_history;
mod event_rows;
mod initial_blocks;
mod losses;
mod stack_rows;
mod text_rows;

use floodmark_trace::{Header, Trace, TraceBuilder};

use crate::contents::snapshot::Contents;
use crate::contents::value::{ListOf, Value};
use crate::error::SnapshotError;
use annotations::Annotations;
use device_history::{DeviceHistory, device_histories};
use event_rows::{Clock, TraceImport};
use losses::losses;
use stack_rows::stack_rows;
use text_rows::TextRows;

/// Builds a trace from the contents of a pickle.
pub(crate) fn import(value: Value, mut contents: Contents) -> Result<Trace, SnapshotError> {
    let (segments, traces) = match value {
        Value::Snapshot => {
            let traces =
                contents.snapshot.traces.and_then(|at| contents.traces.get(at as usize)).cloned();
            (contents.snapshot.segments, traces.unwrap_or_default())
        }
        Value::List(ListOf::Segments, range) => (Some(range), Vec::new()),
        Value::Stack(0) => {
            return Err(SnapshotError::NotASnapshot { found: "a list without segments" });
        }
        Value::Opaque
        | Value::Int(_)
        | Value::String(_)
        | Value::Pool(_)
        | Value::Frame(_)
        | Value::Stack(_)
        | Value::Event(_)
        | Value::Block(_)
        | Value::Segment(_)
        | Value::Annotation(_)
        | Value::History(_)
        | Value::List(..)
        | Value::Settings
        | Value::OpenDict(_)
        | Value::OpenList(_) => {
            return Err(SnapshotError::NotASnapshot { found: "something else" });
        }
    };
    let losses = losses(value, segments, &contents);
    let mut devices = device_histories(&mut contents, segments.unwrap_or_default(), &traces);
    let stacks = stack_rows(&contents.call_tree, &contents.strings);
    let mut texts = TextRows::default();
    for device in &devices {
        device.initial.streams.iter().for_each(|&stream| texts.add_stream(stream));
    }
    texts.add_pools(&contents.pools);
    let mut builder = TraceBuilder::new(header(&contents));
    let annotations = Annotations::new(contents.snapshot.annotations.slice(&contents.annotations));
    let sum = |count: fn(&DeviceHistory) -> usize| devices.iter().map(count).sum::<usize>();
    let from_before = sum(|device| device.initial.blocks.len() + device.initial.segments.len() + 1);
    let allocations = sum(|device| device.initial.allocations + device.initial.blocks.len());
    builder.reserve(contents.entries.len() + annotations.len() + from_before, allocations);
    builder.define(stacks.batch);
    // The frames are no longer needed.
    let Contents { strings, entries, call_tree, blocks, seen_keys, .. } = contents;
    let has_frames = call_tree.nodes.len() > 1;
    drop(call_tree);
    let mut import = TraceImport {
        builder,
        texts,
        strings: &strings,
        is_backward: stacks.is_backward,
        has_frames,
        annotations,
        labels: Vec::new(),
        clock: Clock::new(seen_keys.first_time, seen_keys.has_times()),
    };
    import.add_initial_blocks(&mut devices);
    import.add_history(entries, &mut devices);
    Ok(import.finish(&devices, &blocks, losses))
}

fn header(contents: &Contents) -> Header {
    let mut recorded = vec!["segments".to_owned()];
    if contents.call_tree.nodes.len() > 1 {
        recorded.insert(0, "stacks".to_owned());
    }
    Header {
        started_unix_micros: contents.seen_keys.first_time,
        torch: contents.seen_keys.torch(),
        allocator_backend: "native".to_owned(),
        allocator_conf: contents.strings.get(contents.allocator_conf).to_owned(),
        recorded,
        has_initial_blocks: true,
        ..Header::default()
    }
}
