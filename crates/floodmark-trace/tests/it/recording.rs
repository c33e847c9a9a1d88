//! Recordings for tests: a program's actions, as the records that they write.
//!
//! A [`Program`] is a list of acts. [`record`] plays them against a toy torch that keeps the totals, and
//! gives the records; the rest of the file turns records into files and journals.

use std::collections::BTreeMap;

use floodmark_trace::journal::{
    Entry, FLAG_BACKWARD, FLAG_DEFERRED, FLAG_NAME_LEFT_OUT, FLAG_STACK_LEFT_OUT, JournalWriter,
    Record, pack_strings, record_kind,
};
use floodmark_trace::{
    Assembler, Batch, Category, CodeRow, Device, Ending, EventKind, Header, LabelRow, StackRow,
    TextKind, TextRow, Trace, TraceWriter, read_trace,
};
use proptest::prelude::*;

pub(crate) const SESSION: u64 = 0xF100D;
/// On the GPUs, before the recording began.
pub(crate) const UNSEEN: u64 = 1 << 20;

/// One action of a program. Numbers are small, so that actions use the same addresses.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Alloc {
        device: u8,
        block: u8,
        bytes: u64,
        slack: u8,
        backward: bool,
    },
    Initial {
        device: u8,
        block: u8,
        bytes: u64,
    },
    Free {
        device: u8,
        block: u8,
        deferred: bool,
    },
    FreeCompleted {
        device: u8,
        block: u8,
    },
    Label {
        device: u8,
        block: u8,
        inside: u8,
        label: u8,
    },
    /// Autograd saves a tensor, or reads one that it saved.
    Autograd {
        device: u8,
        block: u8,
        inside: u8,
        reads: bool,
    },
    Define {
        kind: u8,
        id: u8,
        text: String,
    },
    Other {
        kind: EventKind,
        device: u8,
        bytes: u64,
        number: u8,
    },
    /// torch reports another total than its events add up to.
    Lie {
        device: u8,
        block: u8,
        allocated: u64,
    },
}

/// An act, the thread that does it, and how many nanoseconds after the act before.
pub(crate) type Program = Vec<(Act, u32, u32)>;

fn act() -> impl Strategy<Value = Act> {
    let (device, block, bytes) = (0..3_u8, 0..6_u8, prop_oneof![0..5000_u64, Just(1 << 40)]);
    let other = prop::sample::select(vec![
        EventKind::SegmentAlloc,
        EventKind::SegmentFree,
        EventKind::SegmentMap,
        EventKind::SegmentUnmap,
        EventKind::InitialSegment,
        EventKind::Oom,
        EventKind::Step,
        EventKind::Mark,
        EventKind::PhaseBegin,
        EventKind::PhaseEnd,
        EventKind::OptimizerBegin,
        EventKind::OptimizerEnd,
    ]);
    let at = (device.clone(), block);
    prop_oneof![
        8 => (at.clone(), bytes.clone(), any::<u8>(), any::<bool>()).prop_map(
            |((device, block), bytes, slack, backward)| Act::Alloc { device, block, bytes, slack, backward }
        ),
        1 => (at.clone(), bytes.clone())
            .prop_map(|((device, block), bytes)| Act::Initial { device, block, bytes }),
        6 => (at.clone(), any::<bool>())
            .prop_map(|((device, block), deferred)| Act::Free { device, block, deferred }),
        3 => at.clone().prop_map(|(device, block)| Act::FreeCompleted { device, block }),
        3 => (at.clone(), 0..32_u8, 1..9_u8).prop_map(
            |((device, block), inside, label)| Act::Label { device, block, inside, label }
        ),
        4 => (at.clone(), 0..32_u8, any::<bool>()).prop_map(
            |((device, block), inside, reads)| Act::Autograd { device, block, inside, reads }
        ),
        3 => (100..106_u8, 1..9_u8, "[a-zß]{0,12}")
            .prop_map(|(kind, id, text)| Act::Define { kind, id, text }),
        3 => (other, device, bytes, 1..9_u8).prop_map(
            |(kind, device, bytes, number)| Act::Other { kind, device, bytes, number }
        ),
        1 => (at, 0..9000_u64)
            .prop_map(|((device, block), allocated)| Act::Lie { device, block, allocated }),
    ]
}

/// Any program, also with frees of unknown addresses and addresses allocated twice.
pub(crate) fn any_program() -> impl Strategy<Value = Program> {
    prop::collection::vec((act(), prop::sample::select(vec![0, 1, 70_000]), 1..9000_u32), 0..80)
}

/// A program that torch could have run: its totals are true, and a block is freed before it is reused.
pub(crate) fn possible_program() -> impl Strategy<Value = Program> {
    any_program().prop_map(|program| {
        let mut live = std::collections::BTreeSet::new();
        let is_possible = |(act, ..): &(Act, u32, u32)| match *act {
            Act::Alloc { device, block, .. } => live.insert((device, block)),
            Act::Free { device, block, .. } => live.remove(&(device, block)),
            Act::Initial { .. } | Act::Lie { .. } => false,
            Act::FreeCompleted { .. }
            | Act::Label { .. }
            | Act::Autograd { .. }
            | Act::Define { .. }
            | Act::Other { .. } => true,
        };
        program.into_iter().filter(is_possible).collect()
    })
}

fn device(number: u8) -> Device {
    if number == 0 { Device::CPU } else { Device::cuda(i8::try_from(number).unwrap() - 1) }
}

fn addr(block: u8) -> u64 {
    0x7000_0000_0000 + u64::from(block) * 0x1_0000
}

/// The toy torch: its blocks by address.
#[derive(Default)]
struct Torch(BTreeMap<(u8, u8), u64>);

impl Torch {
    fn allocated(&self, device: u8) -> u64 {
        let of_device = self.0.iter().filter(|((at, _), _)| *at == device);
        let unseen = if device == 0 { 0 } else { UNSEEN };
        of_device.map(|(_, bytes)| bytes).sum::<u64>() + unseen
    }

    /// Sets the totals of an event.
    fn report(&self, record: &mut Record, device: u8) {
        let allocated = self.allocated(device);
        let reserved = if device == 0 { 0 } else { allocated.next_multiple_of(2 << 20) };
        record.set_totals(allocated, reserved);
    }
}

/// The records of a program, in order.
pub(crate) fn record(program: &Program) -> Vec<Entry> {
    let mut torch = Torch::default();
    let mut nanos = 0_u64;
    let mut entries = Vec::new();
    for (act, thread, later) in program {
        nanos += u64::from(*later);
        let (mut record, payload) = record_of(act, &mut torch);
        (record.thread, record.time_nanos) = (*thread, nanos);
        entries.push(Entry { record, payload: payload.into() });
    }
    entries
}

fn record_of(act: &Act, torch: &mut Torch) -> (Record, Vec<u8>) {
    let block = |kind, at, addr, bytes| Record::block(kind, device(at), addr, bytes);
    let record = match *act {
        Act::Alloc { device, block: number, bytes, slack, backward } => {
            torch.0.insert((device, number), bytes);
            let mut record = block(EventKind::Alloc, device, addr(number), bytes);
            record.set_requested(bytes.saturating_sub(u64::from(slack)));
            record.flags = if backward { FLAG_BACKWARD } else { 0 };
            record.flags |= match slack {
                1..9 => FLAG_STACK_LEFT_OUT,
                9..20 => FLAG_NAME_LEFT_OUT,
                _ => 0,
            };
            record.set_stack(u32::from(slack % 9));
            (record.stream, record.pool) = (3, u16::from(number));
            (record.phase, record.op) = (u16::from(number), 7);
            torch.report(&mut record, device);
            record
        }
        Act::Initial { device, block: number, bytes } => {
            torch.0.insert((device, number), bytes);
            block(EventKind::InitialBlock, device, addr(number), bytes)
        }
        Act::Free { device, block: number, deferred } => {
            torch.0.remove(&(device, number));
            let mut record = block(EventKind::Free, device, addr(number), 0);
            record.flags = if deferred { FLAG_DEFERRED } else { 0 };
            torch.report(&mut record, device);
            record
        }
        Act::FreeCompleted { device, block: number } => {
            block(EventKind::FreeCompleted, device, addr(number), 0)
        }
        Act::Label { device: at, block: number, inside, label } => {
            Record::label(device(at), addr(number) + u64::from(inside), u32::from(label))
        }
        Act::Autograd { device, block: number, inside, reads } => {
            let kind = if reads { EventKind::Unpacked } else { EventKind::Saved };
            block(kind, device, addr(number) + u64::from(inside), 0)
        }
        Act::Define { kind, id, ref text } => {
            // A definition of any kind, with these numbers.
            let mut record = Record::block(EventKind::Alloc, Device::CPU, u64::from(id), 1);
            record.kind = kind;
            record.set_stack(u32::from(id) - 1);
            let named = (record_kind::CODE..=record_kind::TEXT).contains(&kind);
            let strings: &[&str] = if named { &[text, "second", "third"] } else { &[] };
            return (record, pack_strings(strings));
        }
        Act::Other { kind, device, bytes, number } => {
            let mut record = block(kind, device, bytes, bytes);
            record.set_stack(u32::from(number));
            record
        }
        Act::Lie { device, block: number, allocated } => {
            torch.0.remove(&(device, number));
            let mut record = block(EventKind::Free, device, addr(number), 0);
            record.set_totals(allocated, 2 << 20);
            record
        }
    };
    (record, Vec::new())
}

/// What an assembler makes of the records when it is emptied every `flush` records.
pub(crate) fn batches(entries: &[Entry], flush: usize) -> Vec<Batch> {
    let mut assembler = Assembler::default();
    let fold = |chunk: &[Entry]| {
        for entry in chunk {
            assembler.push(&entry.record, &entry.payload);
        }
        assembler.take_batch()
    };
    entries.chunks(flush).map(fold).collect()
}

pub(crate) fn header() -> Header {
    let command = vec!["train.py".to_owned()];
    Header { session: format!("{SESSION:x}"), command, ..Header::default() }
}

/// The definitions that actions refer to: every file begins with them.
pub(crate) fn definitions() -> Batch {
    let text = || "d".to_owned();
    let code = |id| CodeRow { id, first_line: 1, file: text(), name: text() };
    let stack = |id| StackRow { id, parent: id - 1, code: 1, line: 1, module: 0, flags: 0 };
    let label = |id| {
        let category = Category::Parameter;
        LabelRow { id, category, name: text(), shape: text(), dtype: text() }
    };
    Batch {
        codes: (1..9).map(code).collect(),
        stacks: (1..9).map(stack).collect(),
        labels: (1..9).map(label).collect(),
        texts: (1..9).map(|id| TextRow { id, kind: TextKind::Phase, text: text() }).collect(),
        ..Batch::default()
    }
}

/// A file without an ending, as after a kill.
pub(crate) fn unfinished_file(batches: &[Batch]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = TraceWriter::new(&mut file, &header()).unwrap();
    for batch in [&definitions()].into_iter().chain(batches) {
        writer.write_batch(batch).unwrap();
    }
    file
}

/// A whole file.
pub(crate) fn finished_file(batches: &[Batch]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    for batch in [&definitions()].into_iter().chain(batches) {
        writer.write_batch(batch).unwrap();
    }
    writer.finish(&Ending::default()).unwrap()
}

/// The journal of these records, with a segment for each thread.
pub(crate) fn journal(entries: &[Entry]) -> Vec<Vec<u8>> {
    let mut journal = JournalWriter::new(SESSION);
    for entry in entries {
        journal.push(entry.record.thread % 7, entry);
    }
    journal.files()
}

pub(crate) fn read(file: &[u8], journal: &[Vec<u8>]) -> Trace {
    let segments: Vec<&[u8]> = journal.iter().map(Vec::as_slice).collect();
    read_trace(file, &segments).unwrap()
}
