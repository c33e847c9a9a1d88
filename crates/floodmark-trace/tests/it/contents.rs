//! Files with valid checksums and impossible contents: the rest of the contents is valid.

use floodmark_testing::spoil::spoil;
use floodmark_trace::{
    Batch, CodeRow, Device, Ending, EventKind, Header, LabelId, LabelRow, Losses, Micros, Row,
    StackId, StackRow, Trace, TraceWriter, read_trace,
};
use proptest::prelude::*;

use crate::recording::{any_program, batches, definitions, record};

#[path = "../../../../fuzz/questions.rs"]
#[expect(
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "a file of the fuzzer, which has other lints"
)]
mod questions;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the values of its rows are, every id of a trace is 0 or defined, and what differs is counted.
    #[test]
    fn any_contents_give_a_valid_trace(
        program in any_program(),
        flush in 1..40_usize,
        flushes in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        choices in prop::collection::vec(any::<u32>(), 64),
    ) {
        let mut batches = batches(&record(&program), flush);
        batches.insert(0, definitions());
        let mut choices = choices.into_iter().cycle();
        let mut choose = |most: usize| choices.next().unwrap_or_default() as usize % most;
        for flush in flushes {
            let at = flush.index(batches.len());
            spoil(&mut batches[at], &mut choose);
        }
        let trace = read(&batches);
        questions::ask(&trace);
    }
}

fn alloc(stack: u32, device: Device) -> Row {
    Row { bytes: 1, stack, ..Row::new(EventKind::Alloc, device, 0, Micros(0)) }
}

fn code(id: u32, name: &str) -> CodeRow {
    CodeRow { id, first_line: 1, file: "f.py".to_owned(), name: name.to_owned() }
}

fn stack(id: u32, parent: u32, code: u32) -> StackRow {
    StackRow { id, parent, code, line: 1, module: 0, flags: 0 }
}

fn read(batches: &[Batch]) -> Trace {
    let mut writer = TraceWriter::new(Vec::new(), &Header::default()).unwrap();
    for batch in batches {
        writer.write_batch(batch).unwrap();
    }
    read_trace(&writer.finish(&Ending::default()).unwrap(), &[]).unwrap()
}

fn loss_texts(losses: &Losses) -> Vec<String> {
    losses.0.iter().map(ToString::to_string).collect()
}

#[test]
fn an_id_that_the_file_does_not_define_is_none_and_is_counted() {
    let label = Row { stack: 9, ..Row::new(EventKind::Label, Device::CPU, 0, Micros(0)) };
    let mark = Row { stack: 9, ..Row::new(EventKind::Mark, Device::CPU, 0, Micros(0)) };
    let mut named = alloc(1, Device::CPU);
    (named.op, named.phase, named.stream, named.pool) = (7, u32::MAX, 8, u16::MAX);
    let trace = read(&[Batch {
        codes: vec![code(1, "main")],
        stacks: vec![stack(1, 0, 1), stack(2, 1, u32::MAX)],
        rows: vec![named, alloc(u32::MAX, Device::CPU), label, mark],
        ..Batch::default()
    }]);
    // One function, one stack, four names of the first allocation, one label, one mark.
    assert_eq!(
        loss_texts(&trace.losses),
        ["8 references to a stack, function, module or name that is not in the file"]
    );
    let [first, second] = trace.allocations[..] else { panic!("two allocations") };
    assert_eq!((first.stack, second.stack), (StackId(1), StackId(0)));
    assert_eq!((first.op.0, first.phase.0, first.stream.0, first.pool.0), (0, 0, 0, 0));
    assert_eq!(first.label, LabelId(0));
    assert_eq!(trace.stack(StackId(2)).code.0, 0);
}

#[test]
fn a_stack_without_an_end_keeps_its_innermost_frames() {
    let depth = 10_000;
    let trace = read(&[Batch {
        codes: vec![code(1, "recurse")],
        stacks: (1..=depth).map(|id| stack(id, id - 1, 1)).collect(),
        rows: vec![alloc(depth, Device::CPU), alloc(100, Device::CPU)],
        ..Batch::default()
    }]);
    assert_eq!(
        loss_texts(&trace.losses),
        ["2 stacks have more than 4096 frames: outer frames are left out"]
    );
    assert_eq!(trace.frames(StackId(100)).count(), 100);
    let innermost: Vec<StackId> = trace.frames(StackId(depth)).map(|(id, _)| id).take(3).collect();
    assert_eq!(innermost, [depth, depth - 1, depth - 2].map(StackId));
    assert!((1..=depth).all(|id| trace.frames(StackId(id)).take(5000).count() <= 4096));
}

/// Each is a stack of its own: all together they would have five thousand million frames.
#[test]
fn many_deep_stacks_are_cut_shorter() {
    let depth = 100_000;
    let trace = read(&[Batch {
        codes: vec![code(1, "recurse")],
        stacks: (1..=depth).map(|id| stack(id, id - 1, 1)).collect(),
        ..Batch::default()
    }]);
    let frames: usize = (1..=depth).map(|id| trace.frames(StackId(id)).count()).sum();
    assert!(frames < 64_000_000, "{frames}");
    let texts = loss_texts(&trace.losses);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].ends_with("stacks have more than 4096 frames: outer frames are left out"));
    assert!(texts[1].ends_with("stacks have more than 256 frames: outer frames are left out"));
}

#[test]
fn there_are_no_more_devices_than_torch_can_number() {
    let device = |number: u16| {
        let [kind, index] = number.to_le_bytes();
        Device { kind: kind.cast_signed(), index: index.cast_signed() }
    };
    let mut rows: Vec<Row> = (0..=u16::MAX).map(|number| alloc(0, device(number))).collect();
    rows.push(alloc(0, Device::CPU));
    let trace = read(&[Batch { rows, ..Batch::default() }]);
    assert_eq!(trace.devices().len(), 129);
    // Rows that are left out keep their numbers: those that follow are not taken for others.
    assert_eq!(trace.allocations.len(), 65_537);
    assert_eq!(trace.allocations.last().map(|last| last.device), Some(Device::CPU));
    let [refused] = &loss_texts(&trace.losses)[..] else { panic!("one loss") };
    assert!(
        refused.ends_with("rows of the file are left out: their numbers or devices cannot be true")
    );
}

#[test]
fn a_small_file_has_no_millions_of_lost_rows() {
    let trace = read(&[Batch {
        stacks: vec![stack(2_000_000, 0, 0)],
        codes: vec![code(2_000_000, "f")],
        rows: vec![alloc(0, Device::CPU)],
        first_allocation: 2_000_000,
        ..Batch::default()
    }]);
    assert!(trace.allocations.is_empty() && trace.stack_count() == 1);
    assert_eq!(
        loss_texts(&trace.losses),
        [
            "1 event refers to allocations that are not in the file",
            "2 rows of the file are left out: their numbers or devices cannot be true"
        ]
    );
}

#[test]
fn a_name_that_no_screen_can_show_is_cut() {
    let long = "ß".repeat(40_000);
    let label = LabelRow {
        id: 1,
        category: floodmark_trace::Category::Parameter,
        name: long.clone(),
        shape: String::new(),
        dtype: String::new(),
    };
    let trace =
        read(&[Batch { codes: vec![code(1, &long)], labels: vec![label], ..Batch::default() }]);
    assert_eq!(
        loss_texts(&trace.losses),
        ["2 names are longer than 4096 bytes: the rest is left out"]
    );
    assert_eq!(trace.label(LabelId(1)).map(|label| label.name.clone()), Some("ß".repeat(2048)));
}
