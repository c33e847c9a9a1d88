//! What a trace of a snapshot lacks.

use floodmark_trace::Loss;

use crate::contents::snapshot::Contents;
use crate::contents::value::{IndexRange, Value};

/// One sentence for each kind of data that the snapshot does not have.
pub(super) fn losses(value: Value, segments: Option<IndexRange>, contents: &Contents) -> Vec<Loss> {
    let seen_keys = &contents.seen_keys;
    let has_history = contents.entries.len() > 0;
    let mut losses = Vec::new();
    let mut add = |loss: fn(String) -> Loss, is_lost: bool, what: &str| {
        if is_lost {
            losses.push(loss(what.to_owned()));
        }
    };
    let is_list = value != Value::Snapshot;
    add(
        Loss::NotRecorded,
        is_list || !has_history,
        "the snapshot has no history, only the memory at the time it was taken: call \
         `torch.cuda.memory._record_memory_history()` first, then `torch.cuda.memory._dump_snapshot(path)`",
    );
    add(
        Loss::NotRecorded,
        segments.is_none(),
        "the snapshot has no segments: what was live before its history is unknown",
    );
    add(
        Loss::NotRecorded,
        has_history && !seen_keys.has_frames(),
        "the snapshot has no stacks: `_record_memory_history(context=\"all\")` records them",
    );
    add(
        Loss::Derived,
        seen_keys.has_frames(),
        "categories, modules, phases and backward are derived from stack frames: a snapshot does not record them",
    );
    add(
        Loss::NotRecorded,
        has_history && !seen_keys.has_times(),
        "the snapshot has no times, which torch writes since 2.2: one microsecond stands for one event",
    );
    add(
        Loss::NotRecorded,
        contents.snapshot.has_host_memory,
        "the pinned host memory of the snapshot is left out",
    );
    if seen_keys.unknown_actions > 0 {
        let what = format!("{} events are of kinds that are not known", seen_keys.unknown_actions);
        losses.push(Loss::NotRecorded(what));
    }
    if contents.out_of_place > 0 {
        let what =
            format!("{} values of the pickle are not where torch puts them", contents.out_of_place);
        losses.push(Loss::NotRecorded(what));
    }
    losses
}
