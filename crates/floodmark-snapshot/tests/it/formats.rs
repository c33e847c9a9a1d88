//! Files of older versions of torch, files of its C++ pickler, and files that are no snapshots.

use std::io::Write;

use floodmark_snapshot::{SnapshotError, is_snapshot, read_snapshot, read_snapshot_from};
use floodmark_trace::{DecompressionLimit, Device, Hint, Trace};

use crate::python::{Py, dict, text};
use crate::sample::{BASE, assert_is_sample, event, frame, segment, segments, snapshot, story};

fn losses(trace: &Trace) -> String {
    let losses: Vec<String> = trace.losses.0.iter().map(ToString::to_string).collect();
    losses.join("\n")
}

#[test]
fn every_pickler_gives_the_same_trace() {
    let snapshot = snapshot();
    for pickle in [snapshot.protocol_4(), snapshot.cpp(), snapshot.protocol_0()] {
        assert!(is_snapshot(&pickle));
        assert_is_sample(&read_snapshot(&pickle).unwrap());
    }
}

#[test]
fn compressed_files_are_read_without_decompressing_them_first() {
    let pickle = snapshot().protocol_4();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&pickle).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::stream::encode_all(pickle.as_slice(), 3).unwrap();
    for compressed in [&gzip, &zstd] {
        assert!(is_snapshot(compressed));
        assert_is_sample(&read_snapshot(compressed).unwrap());
        assert!(read_snapshot(&compressed[..compressed.len() - 20]).is_err());
    }
    let mut other = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    other.write_all(b"a letter").unwrap();
    let other = other.finish().unwrap();
    assert!(matches!(read_snapshot(&other), Err(SnapshotError::NotAPickle { .. })));
}

/// A gzip file ends with a checksum and a length. Both are verified, and neither may be missing.
#[test]
fn gzip_is_read_to_its_trailer() {
    let gzip = crate::recordings::file("lstm.pickle.gz");
    let trailer = gzip.len() - 8;
    for at in trailer..gzip.len() {
        let mut damaged = gzip.clone();
        damaged[at] ^= 1;
        for error in [read_snapshot(&damaged), read_trickle(&damaged, 4096)].map(Result::unwrap_err)
        {
            assert!(matches!(error, SnapshotError::Compression(_)), "{at}: {error}");
            assert_eq!(error.hint(), Some("the file is damaged: copy it again"));
        }
        let error = read_snapshot(&gzip[..at]).unwrap_err();
        assert!(matches!(error, SnapshotError::Compression(_)), "{at}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("not complete")), "{at}");
    }
    let mut two = gzip.clone();
    two.extend_from_slice(b"more");
    assert!(matches!(read_snapshot(&two), Err(SnapshotError::Compression(_))));
    let pickle = snapshot().protocol_4();
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(&pickle).unwrap();
    let mut zstd = encoder.finish().unwrap();
    assert_is_sample(&read_snapshot(&zstd).unwrap());
    *zstd.last_mut().unwrap() ^= 1;
    assert!(matches!(read_snapshot(&zstd), Err(SnapshotError::Compression(_))));
}

#[test]
fn a_short_or_foreign_compressed_file_says_what_it_is() {
    let error_of = |bytes: &[u8]| read_snapshot(bytes).unwrap_err().to_string();
    assert_eq!(error_of(&[0x1f]), "the file cannot be decompressed");
    assert_eq!(error_of(&[0x28, 0xb5, 0x2f]), "the file cannot be decompressed");
    assert_eq!(error_of(&[0x80]), "the pickle ends at byte 1, before it is complete");
    let packed = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    assert_eq!(error_of(&packed(b"")), "this is an empty file, not a memory snapshot");
    let flood = packed(&floodmark_trace::frame::prelude());
    assert_eq!(error_of(&flood), "this is a compressed floodmark trace, not a memory snapshot");
    assert!(read_snapshot(&flood).unwrap_err().hint().unwrap().contains("decompress it first"));
}

#[test]
fn the_limit_on_decompressed_bytes_can_be_raised() {
    let gzip = crate::recordings::file("lstm.pickle.gz");
    let read = |limit| read_snapshot_from(&gzip[..], gzip.len() as u64, limit);
    let error = read(DecompressionLimit::Bytes(1000)).unwrap_err();
    assert!(matches!(error, SnapshotError::TooLarge { limit: 1000 }), "{error}");
    assert!(error.hint().unwrap().contains(DecompressionLimit::VARIABLE));
    assert!(read(DecompressionLimit::Bytes(1 << 30)).is_ok());
    // The limit does not apply to a pickle that is not compressed.
    let unpacked = crate::recordings::pickle("lstm");
    let limit = DecompressionLimit::Bytes(1000);
    assert!(read_snapshot_from(&unpacked[..], unpacked.len() as u64, limit).is_ok());
}

/// `_record_memory_history(stacks="all")`, torch's default: C++ frames lie between the Python frames.
#[test]
fn cpp_frames_do_not_change_what_is_derived() {
    let call = "/lib/site-packages/torch/nn/modules/module.py";
    let python = [
        frame("/lib/site-packages/torch/nn/modules/linear.py", "forward", 134),
        frame(call, "_call_impl", 1790),
        frame("/me/net.py", "forward", 12),
        frame(call, "_call_impl", 1790),
        frame("/me/train.py", "<module>", 3),
    ];
    let between = [
        frame("/build/Python-3.12.3/Objects/typeobject.c", "slot_tp_call", 7623),
        frame("", "torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)", 0),
        frame("??", "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)", 0),
    ];
    let mixed = python.iter().flat_map(|frame| between.iter().chain([frame])).cloned();
    let read = |frames: Vec<Py>| {
        let alloc = event("alloc", BASE, 1024, 1).with("frames", Py::List(frames));
        let events = Py::List(vec![Py::List(vec![alloc])]);
        let snapshot = dict([("segments", Py::List(vec![])), ("device_traces", events)]);
        read_snapshot(&snapshot.protocol_4()).unwrap()
    };
    let described = |trace: &Trace| {
        let made = trace.allocations[0].stack;
        let functions = trace.python_frames(made).map(|(_, frame)| {
            let code = trace.code(frame.code).unwrap();
            format!("{}:{} {}", code.file, frame.line, code.name)
        });
        let module = trace.module_path(made).map(str::to_owned);
        (functions.collect::<Vec<_>>(), module)
    };
    let (python_only, mixed) = (read(python.to_vec()), read(mixed.collect()));
    assert_eq!(described(&mixed), described(&python_only));
    assert_eq!(described(&mixed).1.as_deref(), Some("linear (net:12)"));
    assert_eq!(mixed.frames(mixed.allocations[0].stack).count(), 20);
    assert!(mixed.has_native_frames() && !python_only.has_native_frames());
}

#[test]
fn losses_of_old_versions_are_reported() {
    let old = snapshot().without(&[
        "time_us",
        "compile_context",
        "user_metadata",
        "allocator_settings",
        "external_annotations",
    ]);
    let trace = read_snapshot(&old.protocol_4()).unwrap();
    assert_eq!(trace.header.torch, "2.1");
    assert!(losses(&trace).contains("the snapshot has no times"));
    assert!(losses(&trace).contains("derived from stack frames"));
    let times: Vec<u64> =
        trace.events.iter().map(|event| event.time.0).filter(|&time| time > 0).collect();
    assert!(times.is_sorted() && times.last() > Some(&5), "{times:?}");
    let without_stacks = read_snapshot(&old.without(&["frames"]).protocol_4()).unwrap();
    assert!(losses(&without_stacks).contains("the snapshot has no stacks"));
    assert!(without_stacks.allocations.iter().all(|made| !made.backward && made.stack.0 == 0));
}

/// In torch 2.0 blocks have no address, and a history with the newest allocation first.
#[test]
fn blocks_of_torch_2_0_are_adjacent() {
    let history = |size, line| {
        let frames = Py::List(vec![frame("train.py", "main", line)]);
        dict([("addr", Py::Int(0)), ("real_size", Py::Int(size)), ("frames", frames)])
    };
    let block = |size, state, history| {
        let block = dict([("size", Py::Int(size)), ("state", text(state))]);
        if let Some(history) = history { block.with("history", Py::List(history)) } else { block }
    };
    let blocks = vec![
        block(512, "active_allocated", Some(vec![history(300, 1), history(500, 2)])),
        block(1024, "inactive", Some(vec![history(900, 3)])),
        block(2048, "active_allocated", None),
    ];
    let segment = segment(BASE, 3584, 0, blocks).without(&["segment_pool_id", "is_expandable"]);
    let events = Py::List(vec![event("free_requested", BASE + 512, 900, 0).without(&[
        "time_us",
        "compile_context",
        "user_metadata",
    ])]);
    let old =
        dict([("segments", Py::List(vec![segment])), ("device_traces", Py::List(vec![events]))]);
    let trace = read_snapshot(&old.cpp()).unwrap();
    assert_eq!(
        story(&trace),
        [
            "0 initial_segment 0 3584",
            "0 reserved 3584",
            "0 initial 0 300/512",
            "0 initial 512 900/1024",
            "0 initial 1536 2048/2048",
            "1 free 512 900/1024 deferred",
        ]
    );
    assert_eq!(trace.header.torch, "2.0");
    let (_, frame) = trace.frames(trace.allocations[0].stack).next().unwrap();
    assert_eq!(frame.line, 1);
}

#[test]
fn a_list_of_segments_has_no_history() {
    for pickle in [segments().protocol_4(), segments().protocol_0(), segments().cpp()] {
        let trace = read_snapshot(&pickle).unwrap();
        assert_eq!(
            story(&trace),
            [
                "0 initial_segment 0 2097152",
                "0 initial_segment 20971520 20971520",
                "0 reserved 23068672",
                "0 initial 0 1000/1024",
                "0 initial 1024 1400/1536",
                "0 initial 20971520 15000000/20971520",
            ]
        );
        assert!(losses(&trace).contains("_record_memory_history"), "{}", losses(&trace));
    }
}

#[test]
fn newer_keys_are_read() {
    let pool = || Py::Tuple(vec![Py::Int(3), Py::Int(1)]);
    let alloc = event("alloc", BASE, 100, 0).with("pool_id", pool());
    let mut named = event("annotate", BASE, 100, 1).without(&["user_metadata"]);
    named = named.with("user_metadata", text("kv cache")).with("pool_id", pool());
    let mut tagged =
        event("alloc", BASE + 512, 100, 2).without(&["user_metadata", "compile_context"]);
    tagged = tagged.with("user_metadata", text("prefill")).with("pool_id", pool());
    tagged = tagged.with("compile_context", text("Torch-Compiled Region: 0/1"));
    tagged = tagged.with("forward_frames", Py::List(vec![text("a"), text("b")]));
    let odd = event("teleport", BASE, 1, 3).with("pool_id", pool());
    let new = snapshot().without(&["device_traces", "segments", "external_annotations"]);
    let new = new.with("segments", Py::List(vec![]));
    let new = new.with(
        "device_traces",
        Py::List(vec![Py::List(vec![]), Py::List(vec![alloc, named, tagged, odd])]),
    );
    let new = new.with("host_segments", segments()).with("host_traces", Py::List(vec![]));
    let trace = read_snapshot(&new.protocol_4()).unwrap();
    assert_eq!(
        story(&trace),
        ["0 alloc 0 100/512 - -", "1 label 0 100/512 kv cache", "2 alloc 512 100/512 - prefill",]
    );
    assert_eq!(trace.devices(), [Device::cuda(1)]);
    let tagged = &trace.allocations[1];
    assert_eq!(trace.text(tagged.pool.into()), Some("(3, 1)"));
    assert_eq!(trace.text(tagged.op), Some("Torch-Compiled Region: 0/1"));
    assert!(losses(&trace).contains("1 events are of kinds that are not known"));
    assert!(losses(&trace).contains("pinned host memory"));
}

#[test]
fn events_of_two_devices_are_in_the_order_of_time() {
    let first = vec![event("alloc", BASE, 1, 0), event("alloc", BASE + 512, 2, 10)];
    let second = vec![event("alloc", BASE, 3, 5), event("alloc", BASE + 512, 4, 15)];
    let both = dict([
        ("segments", Py::List(vec![])),
        ("device_traces", Py::List(vec![Py::List(first), Py::List(second)])),
    ]);
    let trace = read_snapshot(&both.protocol_4()).unwrap();
    let sizes: Vec<_> =
        trace.allocations.iter().map(|made| (made.device.index, made.requested.0)).collect();
    assert_eq!(sizes, [(0, 1), (1, 3), (0, 2), (1, 4)]);
}

#[test]
fn an_address_that_is_allocated_twice_was_freed_between() {
    let events = vec![
        event("alloc", BASE, 1, 0),
        event("alloc", BASE, 2, 1),
        event("free_requested", BASE, 2, 2),
        event("free_completed", BASE, 2, 2),
        event("free_requested", BASE, 9, 3),
    ];
    let twice =
        dict([("segments", Py::List(vec![])), ("device_traces", Py::List(vec![Py::List(events)]))]);
    let trace = read_snapshot(&twice.protocol_4()).unwrap();
    assert_eq!(
        story(&trace)[..5],
        [
            "0 initial 0 9/512",
            "0 free 0 9/512",
            "0 alloc 0 1/512 - -",
            "1 free 0 1/512",
            "1 alloc 0 2/512 - -",
        ]
    );
}

#[test]
fn other_files_are_refused_with_a_hint() {
    let other = dict([("model", text("weights")), ("step", Py::Int(3))]);
    let cases: [(&[u8], &str); 7] = [
        (&other.protocol_4(), "this is a pickle of something else, not of a memory snapshot"),
        (
            &Py::List(vec![]).protocol_4(),
            "this is a pickle of a list without segments, not of a memory snapshot",
        ),
        (&Py::None.protocol_4(), "this is a pickle of something else, not of a memory snapshot"),
        (b"PK\x03\x04...", "this is a zip file, as `torch.save` writes, not a memory snapshot"),
        (b"FLOD\x01\0\0\0", "this is a floodmark trace, not a memory snapshot"),
        (b"", "this is an empty file, not a memory snapshot"),
        (b"hello", "this is something else, not a memory snapshot"),
    ];
    for (bytes, message) in cases {
        let error = read_snapshot(bytes).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.hint().is_some());
    }
}

/// Reads a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl std::io::Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn read_trickle(bytes: &[u8], step: usize) -> Result<Trace, SnapshotError> {
    read_snapshot_from(Trickle(bytes, step), bytes.len() as u64, DecompressionLimit::default())
}

#[test]
fn a_reader_gives_the_same_trace_as_the_bytes() {
    for name in ["lstm.pickle.gz", "default-oom.pickle.gz"] {
        let packed = crate::recordings::file(name);
        let unpacked = crate::recordings::pickle(name.trim_end_matches(".pickle.gz"));
        let expected = story(&read_snapshot(&unpacked).unwrap());
        for (bytes, step) in [(&packed, 1), (&packed, 4096), (&unpacked, 13), (&unpacked, 1 << 20)]
        {
            let trace = read_trickle(bytes, step).unwrap();
            assert_eq!(story(&trace), expected, "{name}, {step} bytes at a time");
        }
        let truncated = &unpacked[..unpacked.len() / 2];
        let error = read_trickle(truncated, 999).unwrap_err();
        assert_eq!(error.to_string(), read_snapshot(truncated).unwrap_err().to_string());
    }
}
