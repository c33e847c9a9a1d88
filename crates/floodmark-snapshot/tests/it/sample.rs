//! A small snapshot with one event of each kind, and the expected trace.

use floodmark_trace::{Device, EventKind, Subject, Trace};

use crate::python::{Py, dict, text};

pub(crate) const BASE: i64 = 0x7f00_0000_0000;
const START: i64 = 1_700_000_000_000_000;
const MIB: i64 = 1 << 20;

pub(crate) fn frame(file: &str, name: &str, line: i64) -> Py {
    dict([("name", text(name)), ("filename", text(file)), ("line", Py::Int(line))])
}

/// A stack through a module's `forward`.
fn forward() -> Py {
    let call = "/lib/site-packages/torch/nn/modules/module.py";
    Py::List(vec![
        frame("/lib/site-packages/torch/nn/modules/linear.py", "forward", 134),
        frame(call, "_call_impl", 1790),
        frame(call, "_wrapped_call_impl", 1780),
        frame("/me/net.py", "forward", 12),
        frame(call, "_call_impl", 1790),
        frame(call, "_wrapped_call_impl", 1780),
        frame("/me/train.py", "<module>", 3),
    ])
}

pub(crate) fn event(action: &str, addr: i64, size: i64, micros: i64) -> Py {
    dict([
        ("action", text(action)),
        (if action == "oom" { "device_free" } else { "addr" }, Py::Int(addr)),
        ("size", Py::Int(size)),
        ("stream", Py::Int(0)),
        ("time_us", Py::Int(START + micros)),
        ("compile_context", text("N/A")),
        ("user_metadata", text("")),
    ])
}

fn block(addr: i64, size: i64, requested: i64, state: &str) -> Py {
    dict([
        ("address", Py::Int(addr)),
        ("size", Py::Int(size)),
        ("requested_size", Py::Int(requested)),
        ("state", text(state)),
        ("frames", Py::List(vec![])),
    ])
}

pub(crate) fn segment(addr: i64, size: i64, pool: i64, blocks: Vec<Py>) -> Py {
    dict([
        ("device", Py::Int(0)),
        ("address", Py::Int(addr)),
        ("total_size", Py::Int(size)),
        ("allocated_size", Py::Int(0)),
        ("active_size", Py::Int(0)),
        ("requested_size", Py::Int(0)),
        ("stream", Py::Int(0)),
        ("segment_type", text("small")),
        ("segment_pool_id", Py::Tuple(vec![Py::Int(pool), Py::Int(0)])),
        ("is_expandable", Py::Bool(false)),
        ("frames", Py::List(vec![])),
        ("blocks", Py::List(blocks)),
    ])
}

fn annotation(stage: &str, name: &str, micros: i64) -> Py {
    dict([
        ("stage", text(stage)),
        ("name", text(name)),
        ("device", Py::Int(0)),
        ("time_us", Py::Int(START + micros)),
    ])
}

pub(crate) fn segments() -> Py {
    Py::List(vec![
        segment(
            BASE,
            2 * MIB,
            0,
            vec![
                block(BASE, 1024, 1000, "active_allocated"),
                block(BASE + 1024, 1536, 1400, "active_allocated"),
                block(BASE + 2560, 512, 10, "active_pending_free"),
                block(BASE + 3072, 2 * MIB - 3072, 0, "inactive"),
            ],
        ),
        segment(
            BASE + 20 * MIB,
            20 * MIB,
            1,
            vec![block(BASE + 20 * MIB, 20 * MIB, 15_000_000, "active_allocated")],
        ),
    ])
}

fn events() -> Py {
    Py::List(vec![
        // A block from before the history.
        event("free_requested", BASE + 4096, 700, 0).with("frames", Py::List(vec![])),
        event("free_completed", BASE + 4096, 700, 0).with("frames", Py::List(vec![])),
        event("segment_alloc", BASE + 20 * MIB, 20 * MIB, 10).with("frames", forward()),
        event("alloc", BASE + 20 * MIB, 15_000_000, 11).with("frames", forward()),
        event("alloc", BASE + 1024, 1400, 20).with("frames", Py::List(vec![])),
        event("alloc", BASE + 2560, 10, 25).with("frames", forward()),
        event("free_requested", BASE + 2560, 10, 30).with("frames", forward()),
        event("alloc", BASE + 8192, 100, 32).with("frames", forward()),
        event("free_requested", BASE + 8192, 100, 33).with("frames", forward()),
        event("segment_free", BASE + 60 * MIB, 2 * MIB, 34).with("frames", Py::List(vec![])),
        event("free_completed", BASE + 8192, 100, 36).with("frames", forward()),
        event("oom", 123_456_789, 1 << 40, 40).with("frames", forward()),
        event("snapshot", 0, 5, 41),
    ])
}

/// The snapshot, as torch 2.11 writes it.
pub(crate) fn snapshot() -> Py {
    dict([
        ("segments", segments()),
        ("device_traces", Py::List(vec![events(), Py::List(vec![])])),
        (
            "allocator_settings",
            dict([
                ("PYTORCH_CUDA_ALLOC_CONF", text("max_split_size_mb:64")),
                ("max_split_size", Py::Int(-1)),
                ("garbage_collection_threshold", Py::Float(0.5)),
                ("graph_capture_record_stream_reuse", Py::Bool(false)),
                ("roundup_power2_divisions", dict([("1", Py::Int(0)), ("2", Py::Int(0))])),
            ]),
        ),
        (
            "external_annotations",
            Py::List(vec![
                annotation("START", "warm up", 5),
                annotation("START", "Optimizer.step#SGD.step", 20),
                annotation("END", "Optimizer.step#SGD.step", 20),
                annotation("END", "warm up", 20),
                annotation("END", "ProfilerStep#7", 31),
                annotation("END", "never begun", 31),
            ]),
        ),
    ])
}

/// The events as lines with action, location and bytes.
pub(crate) fn story(trace: &Trace) -> Vec<String> {
    let mut lines = Vec::new();
    for event in &trace.events {
        let made = |id: floodmark_trace::AllocationId| {
            let made = &trace.allocations[id.index()];
            let addr = made.addr.0.wrapping_sub(u64::try_from(BASE).unwrap());
            format!("{addr} {}/{}", made.requested.0, made.rounded.0)
        };
        let segment = |at: u32| {
            let segment = &trace.segments[at as usize];
            format!(
                "{} {}",
                segment.addr.0.wrapping_sub(u64::try_from(BASE).unwrap()),
                segment.bytes.0
            )
        };
        let bytes = |bytes| floodmark_trace::Bytes::from(bytes).0;
        let what = match event.subject {
            Subject::Alloc(id) if trace.allocations[id.index()].before_recording => {
                format!("initial {}", made(id))
            }
            Subject::Alloc(id) => {
                let made_here = &trace.allocations[id.index()];
                let backward = if made_here.backward { " backward" } else { "" };
                let module = trace.module_path(made_here.stack).unwrap_or("-");
                let phase = trace.text(made_here.phase).unwrap_or("-");
                format!("alloc {} {module} {phase}{backward}", made(id))
            }
            Subject::Free { allocation, deferred } => {
                format!("free {}{}", made(allocation), if deferred { " deferred" } else { "" })
            }
            Subject::FreeCompleted(id) => format!("completed {}", made(id)),
            Subject::FreeUnknown(size) => format!("free_unknown {}", bytes(size)),
            Subject::SegmentAlloc(at) => format!("segment_alloc {}", segment(at)),
            Subject::SegmentFree(at) => format!("segment_free {}", segment(at)),
            Subject::SegmentMap(at) => format!("segment_map {}", segment(at)),
            Subject::SegmentUnmap(at) => format!("segment_unmap {}", segment(at)),
            Subject::InitialSegment(at) => format!("initial_segment {}", segment(at)),
            Subject::Oom(at) => {
                let oom = &trace.ooms[at as usize];
                format!("oom {} {:?}", oom.requested.0, oom.device_free.map(|free| free.0))
            }
            Subject::Reserved(size) => format!("reserved {}", bytes(size)),
            Subject::Label { allocation, label } => {
                format!("label {} {}", made(allocation), trace.label(label).unwrap().name)
            }
            Subject::Saved(id) => format!("saved {}", made(id)),
            Subject::Unpacked(id) => format!("unpacked {}", made(id)),
            Subject::Step(number) => format!("step {number}"),
            Subject::Mark(text) => format!("mark {}", trace.text(text).unwrap()),
            Subject::PhaseBegin(text) => format!("phase_begin {}", trace.text(text).unwrap()),
            Subject::PhaseEnd(text) => format!("phase_end {}", trace.text(text).unwrap()),
            Subject::OptimizerBegin => EventKind::OptimizerBegin.name().to_owned(),
            Subject::OptimizerEnd => EventKind::OptimizerEnd.name().to_owned(),
        };
        lines.push(format!("{} {what}", event.time.0));
    }
    lines
}

/// The events of [`snapshot`].
pub(crate) const STORY: &[&str] = &[
    "0 initial_segment 0 2097152",
    "0 initial_segment 62914560 2097152",
    "0 reserved 4194304",
    "0 initial 0 1000/1024",
    "0 initial 4096 700/1024",
    "0 free 4096 700/1024",
    "5 phase_begin warm up",
    "10 segment_alloc 20971520 20971520",
    "10 reserved 25165824",
    "11 alloc 20971520 15000000/20971520 linear (net:12) warm up",
    "20 optimizer_begin",
    "20 alloc 1024 1400/1536 - warm up backward",
    "20 optimizer_end",
    "20 phase_end warm up",
    "25 alloc 2560 10/512 linear (net:12) -",
    "30 free 2560 10/512 deferred",
    "31 step 7",
    "32 alloc 8192 100/512 linear (net:12) -",
    "33 free 8192 100/512 deferred",
    "34 segment_free 62914560 2097152",
    "34 reserved 23068672",
    "36 completed 8192 100/512",
    "40 oom 1099511627776 Some(123456789)",
];

/// Asserts that a trace is the one of [`snapshot`].
pub(crate) fn assert_is_sample(trace: &Trace) {
    assert_eq!(story(trace), STORY);
    let total = trace.totals.iter().find(|total| total.device == Device::cuda(0)).unwrap();
    assert_eq!((total.allocated.0, total.reserved.0), (20_974_080, 23_068_672));
    assert_eq!(trace.unseen_at_start(Device::cuda(0)).0, 0);
    assert_eq!(trace.header.torch, "2.10 to 2.11");
    assert_eq!(trace.header.allocator_conf, "max_split_size_mb:64");
    assert_eq!(trace.header.started_unix_micros, u64::try_from(START).unwrap());
    let large = trace.allocations.iter().find(|made| made.requested.0 == 15_000_000).unwrap();
    assert_eq!(trace.text(large.stream.into()), Some("0x0"));
    assert_eq!(trace.text(large.pool.into()), Some("(1, 0)"));
    assert_eq!(trace.frames(large.stack).count(), 7);
}
