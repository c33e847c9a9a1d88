//! Histories that have lost their beginning, compared with the whole ones.

use std::collections::BTreeMap;

use floodmark_trace::{AllocatedChange, Bytes, Subject, Trace};

use crate::recordings::trace;
use crate::sample::story;

/// Recordings, with the number of frees that were pending at the cut, whose completions are dropped.
const CUT: [(&str, usize); 4] =
    [("lstm", 0), ("default-graph", 0), ("expandable-oom", 0), ("default-streams", 2)];

/// The number of torch's events that an event of a trace stands for.
fn events_of_torch(subject: Subject, trace: &Trace) -> usize {
    match subject {
        Subject::Alloc(id) => usize::from(!trace.allocations[id.index()].before_recording),
        Subject::Free { deferred: false, .. } => 2,
        Subject::Free { deferred: true, .. }
        | Subject::FreeCompleted(_)
        | Subject::SegmentAlloc(_)
        | Subject::SegmentFree(_)
        | Subject::SegmentMap(_)
        | Subject::SegmentUnmap(_)
        | Subject::Oom(_) => 1,
        Subject::FreeUnknown(_)
        | Subject::InitialSegment(_)
        | Subject::Reserved(_)
        | Subject::Label { .. }
        | Subject::Saved(_)
        | Subject::Unpacked(_)
        | Subject::Step(_)
        | Subject::Mark(_)
        | Subject::PhaseBegin(_)
        | Subject::PhaseEnd(_)
        | Subject::OptimizerBegin
        | Subject::OptimizerEnd => 0,
    }
}

fn all_events_of_torch(trace: &Trace) -> usize {
    trace.events.iter().map(|event| events_of_torch(event.subject, trace)).sum()
}

/// The memory after a number of torch's events: the requested bytes of live blocks by address, and the reserved bytes.
fn memory_after(trace: &Trace, events: usize) -> (BTreeMap<u64, u64>, u64) {
    let (mut live, mut reserved, mut seen) = (BTreeMap::new(), 0, 0);
    for event in &trace.events {
        let count = events_of_torch(event.subject, trace);
        if seen + count > events {
            break;
        }
        seen += count;
        match event.subject.allocated_change() {
            Some(AllocatedChange::Alloc(id)) => {
                let made = &trace.allocations[id.index()];
                live.insert(made.addr.0, made.requested.0);
            }
            Some(AllocatedChange::Free(id)) => {
                live.remove(&trace.allocations[id.index()].addr.0);
            }
            Some(AllocatedChange::FreeUnknown(_)) | None => {}
        }
        if let Subject::Reserved(bytes) = event.subject {
            reserved = Bytes::from(bytes).0;
        }
    }
    (live, reserved)
}

#[test]
fn the_memory_before_the_history_is_rebuilt_from_the_end() {
    for (name, waiting) in CUT {
        let (whole, cut) = (trace(name), trace(&format!("{name}-ring")));
        let lost = all_events_of_torch(&whole) - all_events_of_torch(&cut) - waiting;
        assert!(lost > 100, "{name}");
        let (expected, reserved) = memory_after(&whole, lost);
        let (before, reserved_before) = memory_after(&cut, 0);
        assert!(!before.is_empty());
        assert_eq!(before, expected, "{name}");
        assert_eq!(reserved_before, reserved, "{name}");
        assert_eq!(cut.totals, whole.totals, "{name}");
        assert!(cut.header.has_initial_blocks);
    }
}

/// After the cut, both have the same events, block by block.
#[test]
fn the_events_after_the_cut_are_the_same() {
    for (name, _) in CUT {
        let (whole, cut) = (trace(name), trace(&format!("{name}-ring")));
        let is_memory = |line: &&String| {
            let what = line.split(' ').nth(1).unwrap_or_default();
            ["alloc", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"]
                .contains(&what)
        };
        // Times begin with 0 at the cut, and names of modules depend on the number of models.
        let block = |line: &String| line.split(' ').skip(1).take(3).collect::<Vec<_>>().join(" ");
        let tail = |trace: &Trace| -> Vec<String> {
            story(trace).iter().filter(is_memory).map(block).collect()
        };
        let (whole, cut) = (tail(&whole), tail(&cut));
        assert_eq!(whole[whole.len() - cut.len()..], cut, "{name}");
        assert!(cut.len() > 50, "{name}");
    }
}
