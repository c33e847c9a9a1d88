//! A recorder from its first window to its last, without torch and without Python.

use floodmark_trace::journal::Record;
use floodmark_trace::{Category, Subject, Trace, read_trace};

use super::*;
use crate::annotations::{
    LabelledTensor, begin_phase, define_label, end_phase, is_recording, label, mark,
    note_optimizer, step,
};
use crate::blocks::fake_blocks::{
    FakeBlock, FakeSegmentChange, record_fake_alloc, record_fake_free, record_fake_oom,
    record_fake_segment,
};
use crate::blocks::initial_blocks::{InitialBlock, InitialBlocks};
use crate::recorder::with_recording;
use crate::test_recorder::{Alone, alone, options, with_limit};
use crate::windows::running_recorder::remove_unused_hooks;

/// Ends the recorder of a test that is alone.
struct Armed(#[expect(dead_code, reason = "other tests wait for it")] Alone);

impl Drop for Armed {
    fn drop(&mut self) {
        remove_unused_hooks();
    }
}

fn armed() -> Armed {
    Armed(alone())
}

fn record_initial(blocks: &[InitialBlock]) {
    InitialBlocks::begin().record(blocks);
}

fn block(addr: u64) -> InitialBlock {
    InitialBlock { device: Device::CPU, addr, bytes: addr, requested: 0, is_segment: false }
}

fn closed(window: &OpenWindow) -> Trace {
    window.close();
    assert_eq!(window.written().failure, "");
    read(window)
}

/// The events of the window so far.
fn read(window: &OpenWindow) -> Trace {
    let header = window.state.header.lock().0.clone();
    window.state.memory.lock().trace(&header, None)
}

fn blocks(trace: &Trace) -> Vec<u64> {
    trace.allocations.iter().map(|block| block.rounded.0).collect()
}

fn subjects(trace: &Trace) -> Vec<Subject> {
    trace.events.iter().map(|event| event.subject).collect()
}

#[test]
fn a_window_has_what_happened_while_it_was_open() {
    let _armed = armed();
    assert_eq!((step(), is_recording()), (None, false));
    let (window, found) = open(options()).unwrap();
    assert!(!found.is_attached && is_recording());
    record_initial(&[block(64)]);
    mark("loaded");
    begin_phase("eval");
    record_initial(&[block(128)]);
    end_phase();
    note_optimizer(true);
    note_optimizer(false);
    assert_eq!(step(), Some(0));
    let trace = closed(&window);
    assert_eq!((blocks(&trace), is_recording()), (vec![64, 128], false));
    let phases: Vec<_> = trace.allocations.iter().map(|block| trace.text(block.phase)).collect();
    assert_eq!(phases, [None, Some("eval")]);
    assert_eq!((trace.events.len(), subjects(&trace).last()), (8, Some(&Subject::Step(0))));
    assert!(trace.losses.is_empty(), "{:?}", trace.losses);
}

#[test]
fn the_next_window_begins_with_what_is_live() {
    let _armed = armed();
    let (first, _) = open(options()).unwrap();
    record_initial(&[block(64)]);
    assert_eq!(blocks(&closed(&first)), [64]);
    record_initial(&[block(128)]);
    let (second, found) = open(options()).unwrap();
    assert!(found.is_attached && found.has_cpu && !found.is_renewed);
    let trace = closed(&second);
    assert_eq!(blocks(&trace), [64, 128]);
    assert!(trace.allocations.iter().all(|block| block.before_recording));
    assert_eq!(blocks(&read(&first)), [64], "the first one is over");
}

#[test]
fn windows_overlap() {
    let _armed = armed();
    let (outer, _) = open(options()).unwrap();
    record_initial(&[block(64)]);
    let (inner, _) = open(options()).unwrap();
    record_initial(&[block(128)]);
    assert_eq!((outer.step(), inner.step(), inner.step()), (0, 0, 1));
    let inner = closed(&inner);
    record_initial(&[block(192)]);
    let outer = closed(&outer);
    assert_eq!((blocks(&outer), blocks(&inner)), (vec![64, 128, 192], vec![64, 128]));
    let steps = |trace: &Trace| {
        subjects(trace).iter().filter(|one| matches!(one, Subject::Step(_))).count()
    };
    assert_eq!((steps(&outer), steps(&inner)), (1, 2), "each has its own steps");
}

/// The labels of the recorder before have other numbers in the new one.
#[test]
fn a_window_with_a_file_takes_over_what_is_live_and_its_names() {
    let _armed = armed();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("run.flood");
    let (first, _) = open(options()).unwrap();
    let weight = |name: &str| {
        define_label(Category::Parameter, name.to_owned(), String::new(), String::new())
    };
    record_initial(&[block(64)]);
    let (_, label_number) = (weight("unused"), weight("fc.weight"));
    label(&[LabelledTensor { device: Device::CPU, addr: 64, label: label_number }]);
    closed(&first);
    let (second, found) = open(WindowOptions { path: Some(path.clone()), ..options() }).unwrap();
    assert!(found.is_renewed && found.has_cpu);
    record_initial(&[block(128)]);
    second.close();
    assert_eq!(second.written().failure, "");
    let trace = read_trace(&std::fs::read(&path).unwrap(), &[]).unwrap();
    assert_eq!(blocks(&trace), [64, 128]);
    let names: Vec<_> = trace
        .allocations
        .iter()
        .map(|one| trace.label(one.label).map(|label| &*label.name))
        .collect();
    assert_eq!(names, [Some("fc.weight"), None]);
    assert!(!folder.path().join("run.flood.journal").exists());
}

#[test]
fn a_trace_can_be_read_while_its_window_is_open() {
    let _armed = armed();
    let (window, _) = open(options()).unwrap();
    for (count, addr) in [64, 128, 192].into_iter().enumerate() {
        record_initial(&[block(addr)]);
        window.catch_up();
        assert_eq!(read(&window).allocations.len(), count + 1);
    }
    assert_eq!(window.peaks(600_000), [(Device::CPU, Bytes(64 + 128 + 192))]);
    window.step();
    let ended = window.ended_steps(0, 600_000);
    assert_eq!((ended.len(), ended[0].end), (1, Bytes(64 + 128 + 192)));
    closed(&window);
}

#[test]
fn a_window_in_memory_can_be_written_when_it_is_closed() {
    let _armed = armed();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("later.flood");
    let (window, _) = open(options()).unwrap();
    record_initial(&[block(64)]);
    closed(&window);
    window.write_to(&path).unwrap();
    let trace = read_trace(&std::fs::read(path).unwrap(), &[]).unwrap();
    assert_eq!((blocks(&trace), window.file()), (vec![64], None));
}

#[test]
fn a_limit_that_is_too_small_is_refused() {
    let _armed = armed();
    let refused = open(with_limit(LEAST_MEMORY_BYTES - 1));
    assert!(matches!(refused, Err(StartError::LimitTooSmall { .. })));
    let (window, _) = open(with_limit(LEAST_MEMORY_BYTES)).unwrap();
    assert!(blocks(&closed(&window)).is_empty());
}

#[test]
fn a_file_belongs_to_one_window() {
    let _armed = armed();
    let folder = tempfile::TempDir::new().unwrap();
    let to_file =
        || open(WindowOptions { path: Some(folder.path().join("run.flood")), ..options() });
    let (window, _) = to_file().unwrap();
    assert!(matches!(to_file(), Err(StartError::InUse { pid, .. }) if pid == std::process::id()));
    window.close();
    assert_eq!(window.written().failure, "");
}

#[test]
fn blocks_of_fake_tensors_go_to_windows_on_them() {
    let _armed = armed();
    let gpu = Device::cuda(0);
    let (torch, _) = open(WindowOptions { cuda: 1, ..options() }).unwrap();
    let (fake, _) =
        open(WindowOptions { cuda: 1, source: BlockSource::Fake, ..options() }).unwrap();
    let mut fake_block = FakeBlock {
        device: gpu,
        addr: 64,
        bytes: 512,
        requested: 400,
        allocated: 512,
        reserved: 2048,
    };
    record_fake_segment(gpu, FakeSegmentChange::Alloc, 64, 2048);
    record_fake_alloc(&fake_block, "aten::mm", None);
    fake_block.addr = 1024;
    fake_block.allocated = 1024;
    record_fake_alloc(&fake_block, "aten::convolution", Some("cuDNN"));
    record_fake_oom(&FakeBlock { requested: 1 << 40, ..fake_block }, 100);
    record_fake_free(&FakeBlock { allocated: 512, ..fake_block });
    record_initial(&[InitialBlock { device: gpu, ..block(4096) }]);
    let (fake, torch) = (closed(&fake), closed(&torch));
    assert_eq!((blocks(&fake), blocks(&torch)), (vec![512, 512], vec![4096]));
    let facts: Vec<_> = fake
        .allocations
        .iter()
        .map(|block| (block.requested.0, fake.text(block.op), block.freed_at.is_some()))
        .collect();
    assert_eq!(facts, [(400, Some("aten::mm"), false), (400, Some("aten::convolution"), true)]);
    let label = fake.label(fake.allocations[1].label).unwrap();
    assert_eq!((label.category, &*label.name), (Category::Workspace, "cuDNN"));
    assert_eq!((fake.ooms.len(), fake.segments.len()), (1, 1));
}

/// `fork` has handlers in the parent and in the child.
#[test]
fn a_forked_child_records_nothing() {
    let _armed = armed();
    let (window, _) = open(options()).unwrap();
    record_initial(&[block(64)]);
    // SAFETY: the child reads flags and ends; it takes no lock and allocates nothing.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let records = is_recording() || step().is_some();
            libc::_exit(i32::from(records));
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    assert_eq!(status, 0);
    assert!(is_recording(), "the parent goes on");
    record_initial(&[block(128)]);
    assert_eq!(blocks(&closed(&window)), [64, 128]);
}

fn write_free() -> Option<()> {
    with_recording(|recording, local| {
        local.write(recording, Record::new(EventKind::Free as u8, Device::CPU), &[]);
    })
}

#[test]
fn without_a_window_hooks_rest_when_the_writer_falls_behind() {
    let _armed = armed();
    let folder = tempfile::TempDir::new().unwrap();
    let spill = folder.path().join("spill");
    let options = || WindowOptions { spill: spill.clone(), ..with_limit(LEAST_MEMORY_BYTES) };
    let (window, found) = open(options()).unwrap();
    assert!(!found.is_attached);
    assert_eq!(write_free(), Some(()));
    window.close();
    assert!(!is_disabled(), "hooks follow what is live, for the next window");
    // Faster than the writer, which takes a round of 50 ms to recycle 16 segments of 4,096 events.
    while write_free().is_some() {}
    assert!(is_disabled());

    let (window, found) = open(options()).unwrap();
    assert!(!found.has_cpu, "what is live is not known");
    assert_eq!(write_free(), Some(()));
    window.close();
}

#[test]
fn with_a_window_no_event_is_left_out_when_the_writer_falls_behind() {
    let _armed = armed();
    let folder = tempfile::TempDir::new().unwrap();
    let spill = folder.path().join("spill");
    let (window, _) = open(WindowOptions { spill, ..with_limit(LEAST_MEMORY_BYTES) }).unwrap();
    for _ in 0..200_000 {
        assert_eq!(write_free(), Some(()));
    }
    window.close();
    assert_eq!(window.written().failure, "");
}
