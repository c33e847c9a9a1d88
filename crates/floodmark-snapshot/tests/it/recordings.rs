//! Recordings of real programs, compared with torch's own figures at their end.

use std::io::Read;
use std::path::Path;

use floodmark_snapshot::read_snapshot;
use floodmark_trace::{Bytes, Device, Subject, Trace, stack_flags};
use serde_json::Value;

pub(crate) const ALL: [&str; 7] = [
    "lstm",
    "neumf",
    "resnet18_fp32",
    "default-graph",
    "default-oom",
    "default-streams",
    "expandable-oom",
];

/// A file in one of the folders of `fixtures/recordings`.
pub(crate) fn file(name: &str) -> Vec<u8> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    let mut paths = ["allocator", "ring", "zoo"].iter().map(|folder| all.join(folder).join(name));
    let path = paths.find(|path| path.exists()).expect(name);
    std::fs::read(path).unwrap()
}

/// A decompressed recording.
pub(crate) fn pickle(name: &str) -> Vec<u8> {
    let mut pickle = Vec::new();
    let file = file(&format!("{name}.pickle.gz"));
    flate2::read::GzDecoder::new(file.as_slice()).read_to_end(&mut pickle).unwrap();
    pickle
}

pub(crate) fn trace(name: &str) -> Trace {
    read_snapshot(&file(&format!("{name}.pickle.gz"))).unwrap()
}

fn truth(name: &str) -> Value {
    serde_json::from_slice(&file(&format!("{name}.json"))).unwrap()
}

fn count(trace: &Trace, is_one: fn(Subject) -> bool) -> u64 {
    trace.events.iter().filter(|event| is_one(event.subject)).count() as u64
}

/// Reserved bytes after the last event that has them.
fn last_reserved(trace: &Trace) -> u64 {
    let reserved_of = |event: &floodmark_trace::Event| {
        if let Subject::Reserved(bytes) = event.subject { Some(Bytes::from(bytes).0) } else { None }
    };
    trace.events.iter().rev().find_map(reserved_of).unwrap_or(0)
}

#[test]
fn totals_at_the_end_are_those_of_torch() {
    for name in ALL {
        let (trace, truth) = (trace(name), truth(name));
        let stats = &truth["stats"];
        let figure =
            |model: &str, stat: &str| truth[model].as_u64().or(stats[stat].as_u64()).unwrap();
        let [total] = trace.totals.as_slice() else { panic!("{name} has one device") };
        let allocated = figure("allocated", "allocated_bytes.all.current");
        assert_eq!(total.allocated.0, allocated, "{name}");
        assert_eq!(total.reserved.0, figure("reserved", "reserved_bytes.all.current"), "{name}");
        assert_eq!(last_reserved(&trace), total.reserved.0, "{name}");
        let live: u64 = trace
            .allocations
            .iter()
            .filter(|made| made.freed_at.is_none())
            .map(|made| made.rounded.0)
            .sum();
        assert_eq!(live, allocated, "{name}");
        assert_eq!(trace.unseen_at_start(Device::cuda(0)).0, 0, "{name}");
    }
}

#[test]
fn every_event_of_torch_is_in_the_trace() {
    for name in ["default-graph", "default-oom", "default-streams", "expandable-oom"] {
        let (trace, truth) = (trace(name), truth(name));
        let stat = |name: &str| truth["stats"][name].as_u64().unwrap();
        assert_eq!(trace.allocations.len() as u64, stat("allocation.all.allocated"), "{name}");
        let freed = trace.allocations.iter().filter(|made| made.freed_at.is_some()).count();
        assert_eq!(freed as u64, stat("allocation.all.freed"), "{name}");
        let requested: u64 = trace.allocations.iter().map(|made| made.requested.0).sum();
        assert_eq!(requested, stat("requested_bytes.all.allocated"), "{name}");
        let taken = |subject| matches!(subject, Subject::SegmentAlloc(_) | Subject::SegmentMap(_));
        assert_eq!(count(&trace, taken), stat("num_device_alloc"), "{name}");
        let given = |subject| matches!(subject, Subject::SegmentFree(_) | Subject::SegmentUnmap(_));
        assert_eq!(count(&trace, given), stat("num_device_free"), "{name}");
        assert_eq!(trace.ooms.len() as u64, stat("num_ooms"), "{name}");
        let initial = |subject| matches!(subject, Subject::InitialSegment(_));
        assert_eq!(count(&trace, initial), 0, "{name} was recorded from the beginning");
    }
}

#[test]
fn an_oom_has_the_free_bytes_of_the_device() {
    let oom = trace("default-oom").ooms[0];
    assert_eq!(oom.requested, Bytes(262_144_000));
    assert!(oom.device_free.unwrap() > Bytes(100 << 30));
}

/// Frees of this program are pending until its side stream is done.
#[test]
fn streams_and_pools_have_names() {
    let streams = trace("default-streams");
    let deferred = |subject| matches!(subject, Subject::Free { deferred: true, .. });
    let completed = |subject| matches!(subject, Subject::FreeCompleted(_));
    assert!(count(&streams, deferred) > 0);
    // Four frees were pending when the recording ended: their blocks are `active_pending_free`.
    assert_eq!(count(&streams, deferred), count(&streams, completed) + 4);
    let graph = trace("default-graph");
    let names = |of: fn(&floodmark_trace::Allocation) -> floodmark_trace::HandleId| {
        let ids: std::collections::BTreeSet<_> = graph.allocations.iter().map(of).collect();
        let names = ids.into_iter().map(|id| graph.text(id.into()).unwrap_or("-").to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(|made| made.stream), ["0x0", "0x260a0720", "0x26a44340"]);
    assert_eq!(names(|made| made.pool), ["-", "(1, 0)"]);
}

#[test]
fn modules_optimizers_and_backward_are_derived() {
    let trace = trace("resnet18_fp32");
    let paths: std::collections::BTreeSet<&str> =
        trace.allocations.iter().filter_map(|made| trace.module_path(made.stack)).collect();
    assert!(paths.iter().any(|path| path.contains("conv (resnet:")), "{paths:?}");
    let backward = trace.allocations.iter().filter(|made| made.backward).count();
    assert!(backward > trace.allocations.len() / 10, "{backward}");
    assert_eq!(trace.header.torch, "2.10 to 2.11");
    assert_eq!(count(&trace, |subject| subject == Subject::OptimizerEnd), 3);
    let trace = self::trace("lstm");
    let in_optimizer = |made: &&floodmark_trace::Allocation| {
        trace.stack(made.stack).flags & stack_flags::OPTIMIZER != 0
    };
    assert!(trace.allocations.iter().filter(in_optimizer).count() > 10);
}
