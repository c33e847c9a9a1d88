//! Laws that hold for every program.

use std::collections::{BTreeMap, HashMap};

use floodmark_trace::journal::{Entry, Record};
use floodmark_trace::{
    Allocation, AllocationId, AutogradUse, Batch, Bytes, Device, DeviceAddr, Event, EventKind,
    EventNumber, HandleId, LabelId, Loss, Oom, Row, Segment, StackId, Subject, TextId, ThreadId,
    read_trace,
};
use proptest::prelude::*;

use crate::recording::{
    UNSEEN, any_program, batches, definitions, finished_file, possible_program, record,
};

/// Whether the records themselves state a loss.
fn is_left_out(loss: &Loss) -> bool {
    matches!(loss, Loss::StacksLeftOut(_) | Loss::NamesLeftOut(_) | Loss::ThreadsShareNumber(_))
}

proptest! {
    /// decode ∘ encode = id: what is written is read, row by row.
    #[test]
    fn written_rows_are_read_back(program in any_program(), flush in 1..40_usize) {
        let batches = batches(&record(&program), flush);
        let trace = read_trace(&finished_file(&batches), &[]).unwrap();
        let expected = Model::from_batches(&batches);
        prop_assert_eq!(&trace.events, &expected.events);
        prop_assert_eq!(&trace.allocations, &expected.allocations);
        let ids = (0..trace.allocations.len()).map(|at| AllocationId(u32::try_from(at).unwrap()));
        let uses: Vec<_> = ids.map(|id| trace.autograd_use(id)).collect();
        prop_assert_eq!(&uses, &expected.autograd_uses);
        prop_assert_eq!(&trace.segments, &expected.segments);
        prop_assert_eq!(&trace.ooms, &expected.ooms);
        let is_complete = trace.losses.0.iter().all(
            |loss| matches!(loss, Loss::TotalsDisagree(_)) || is_left_out(loss)
        );
        prop_assert!(is_complete, "{:?}", trace.losses);
    }

    /// Every definition is found under its id; of two with the same id the last one counts.
    #[test]
    fn every_definition_is_read(program in any_program(), flush in 1..40_usize) {
        let batches = batches(&record(&program), flush);
        let trace = read_trace(&finished_file(&batches), &[]).unwrap();
        let mut codes = HashMap::new();
        let mut labels = HashMap::new();
        let mut texts = HashMap::new();
        let first = definitions();
        for batch in [&first].into_iter().chain(&batches) {
            codes.extend(batch.codes.iter().map(|row| (row.id, row)));
            labels.extend(batch.labels.iter().map(|row| (row.id, row)));
            texts.extend(batch.texts.iter().map(|row| (row.id, row)));
        }
        for id in 0..12 {
            let code = trace.code(floodmark_trace::CodeId(id)).map(|c| (&c.file, &c.name, c.first_line));
            prop_assert_eq!(code, codes.get(&id).map(|row| (&row.file, &row.name, row.first_line)));
            let label = trace.label(LabelId(id)).map(|l| (l.category, &l.name, &l.shape, &l.dtype));
            let row = labels.get(&id).map(|row| (row.category, &row.name, &row.shape, &row.dtype));
            prop_assert_eq!(label, row);
            let text = trace.text(TextId(id));
            prop_assert_eq!(text, texts.get(&id).map(|row| row.text.as_str()));
        }
    }

    /// If torch's totals are right, ours are equal and no loss is reported.
    #[test]
    fn totals_are_those_of_a_plain_map(program in possible_program(), flush in 1..40_usize) {
        let entries = record(&program);
        let batches = batches(&entries, flush);
        let trace = read_trace(&finished_file(&batches), &[]).unwrap();
        prop_assert!(trace.losses.0.iter().all(is_left_out), "{:?}", trace.losses);
        for (device, sum) in plain_totals(&entries) {
            let total = trace.totals.iter().find(|total| total.device == device).unwrap();
            let unseen = if device.is_cpu() { 0 } else { UNSEEN };
            prop_assert_eq!(total.allocated, Bytes(sum + unseen));
            prop_assert_eq!(trace.unseen_at_start(device), Bytes(unseen));
            prop_assert!(trace.devices().contains(&device));
        }
    }

    /// An allocation is saved once and read as often as the records say, only while it is live.
    #[test]
    fn saved_and_read_blocks_are_those_of_a_plain_map(program in possible_program()) {
        let entries = record(&program);
        let trace = read_trace(&finished_file(&batches(&entries, 7)), &[]).unwrap();
        let mut expected = PlainAutograd::default();
        for entry in &entries {
            expected.push(&entry.record);
        }
        let subjects = || trace.events.iter().map(|event| event.subject);
        let saved = subjects().filter(|subject| matches!(subject, Subject::Saved(_))).count();
        let read = subjects().filter(|subject| matches!(subject, Subject::Unpacked(_))).count();
        prop_assert_eq!((saved, read), (expected.saved, expected.read));
        for (id, allocation) in (0..).map(AllocationId).zip(&trace.allocations) {
            let freed = allocation.freed_at.map_or(u32::MAX, EventNumber::get);
            let AutogradUse { saved_at, unpacked_at } = trace.autograd_use(id);
            for at in [saved_at, unpacked_at].into_iter().flatten() {
                prop_assert!((allocation.made_at..freed).contains(&at.get()));
            }
        }
    }

    /// A batch is the same however often the assembler is emptied on the way.
    #[test]
    fn flushing_changes_nothing(program in any_program(), flush in 1..40_usize) {
        let entries = record(&program);
        let rows = |batches: Vec<Batch>| -> Vec<Row> {
            batches.into_iter().flat_map(|batch| batch.rows).collect()
        };
        prop_assert_eq!(rows(batches(&entries, flush)), rows(batches(&entries, usize::MAX)));
    }
}

/// The allocated bytes at the end on every device with an allocation, counted in the simplest way.
fn plain_totals(entries: &[Entry]) -> BTreeMap<Device, u64> {
    let mut live: HashMap<(Device, u64), u64> = HashMap::new();
    let mut totals: BTreeMap<Device, u64> = BTreeMap::new();
    for Entry { record, .. } in entries {
        if record.kind == EventKind::Alloc as u8 {
            live.insert((record.device, record.addr()), record.bytes());
            *totals.entry(record.device).or_default() += record.bytes();
        } else if record.kind == EventKind::Free as u8 {
            let bytes = live.remove(&(record.device, record.addr())).unwrap();
            *totals.entry(record.device).or_default() -= bytes;
        }
    }
    totals
}

/// Autograd's use of live blocks, computed in the simplest way.
#[derive(Default)]
struct PlainAutograd {
    /// Size, and whether it was saved.
    live: BTreeMap<(Device, u64), (u64, bool)>,
    saved: usize,
    read: usize,
}

impl PlainAutograd {
    fn push(&mut self, record: &Record) {
        let (device, addr) = (record.device, record.addr());
        if record.kind == EventKind::Alloc as u8 {
            self.live.insert((device, addr), (record.bytes(), false));
        } else if record.kind == EventKind::Free as u8 {
            self.live.remove(&(device, addr));
        }
        let mut before = self.live.range_mut((device, 0)..=(device, addr));
        let Some((&(_, start), (bytes, is_saved))) = before.next_back() else { return };
        if addr - start >= (*bytes).max(1) {
            return;
        }
        if record.kind == EventKind::Saved as u8 && !std::mem::replace(is_saved, true) {
            self.saved += 1;
        } else if record.kind == EventKind::Unpacked as u8 {
            self.read += 1;
        }
    }
}

/// The expected contents of a trace, made from rows in the simplest way.
#[derive(Default)]
struct Model {
    events: Vec<Event>,
    allocations: Vec<Allocation>,
    autograd_uses: Vec<AutogradUse>,
    segments: Vec<Segment>,
    ooms: Vec<Oom>,
}

impl Model {
    fn from_batches(batches: &[Batch]) -> Self {
        let mut model = Self::default();
        for row in batches.iter().flat_map(|batch| &batch.rows) {
            let subject = model.subject(row);
            let thread = ThreadId(row.thread);
            model.events.push(Event { time: row.time, device: row.device, thread, subject });
        }
        model
    }

    fn subject(&mut self, row: &Row) -> Subject {
        let here = u32::try_from(self.events.len()).unwrap();
        let at = row.allocation.index();
        let text = TextId(row.stack);
        match row.kind {
            EventKind::Alloc | EventKind::InitialBlock => {
                self.allocations.push(allocation(row, here));
                self.autograd_uses.push(AutogradUse::default());
                Subject::Alloc(AllocationId(u32::try_from(self.allocations.len() - 1).unwrap()))
            }
            EventKind::Free => {
                self.allocations[at].freed_at = Some(EventNumber::new(here));
                Subject::Free { allocation: row.allocation, deferred: row.flags & 2 != 0 }
            }
            EventKind::FreeCompleted => {
                self.allocations[at].completed_at = Some(EventNumber::new(here));
                Subject::FreeCompleted(row.allocation)
            }
            EventKind::Label => {
                self.allocations[at].label = LabelId(row.stack);
                Subject::Label { allocation: row.allocation, label: LabelId(row.stack) }
            }
            EventKind::Saved => {
                self.autograd_uses[at].saved_at.get_or_insert(EventNumber::new(here));
                Subject::Saved(row.allocation)
            }
            EventKind::Unpacked => {
                self.autograd_uses[at].unpacked_at = Some(EventNumber::new(here));
                Subject::Unpacked(row.allocation)
            }
            EventKind::FreeUnknown => Subject::FreeUnknown(Bytes(row.bytes).into()),
            EventKind::SegmentAlloc => Subject::SegmentAlloc(self.segment(row)),
            EventKind::SegmentFree => Subject::SegmentFree(self.segment(row)),
            EventKind::SegmentMap => Subject::SegmentMap(self.segment(row)),
            EventKind::SegmentUnmap => Subject::SegmentUnmap(self.segment(row)),
            EventKind::InitialSegment => Subject::InitialSegment(self.segment(row)),
            EventKind::Oom => {
                let (requested, stack) = (Bytes(row.bytes), StackId(row.stack));
                let device_free = (row.addr != 0).then_some(Bytes(row.addr));
                let backward = row.flags & 1 != 0;
                self.ooms.push(Oom { requested, stack, backward, device_free });
                Subject::Oom(u32::try_from(self.ooms.len() - 1).unwrap())
            }
            EventKind::Reserved => Subject::Reserved(Bytes(row.bytes).into()),
            EventKind::Step => Subject::Step(row.stack),
            EventKind::Mark => Subject::Mark(text),
            EventKind::PhaseBegin => Subject::PhaseBegin(text),
            EventKind::PhaseEnd => Subject::PhaseEnd(text),
            EventKind::OptimizerBegin => Subject::OptimizerBegin,
            EventKind::OptimizerEnd => Subject::OptimizerEnd,
        }
    }

    fn segment(&mut self, row: &Row) -> u32 {
        self.segments.push(Segment {
            addr: DeviceAddr(row.addr),
            bytes: Bytes(row.bytes),
            stream: HandleId(row.stream),
            pool: HandleId(row.pool),
            stack: StackId(row.stack),
        });
        u32::try_from(self.segments.len() - 1).unwrap()
    }
}

fn allocation(row: &Row, here: u32) -> Allocation {
    Allocation {
        device: row.device,
        addr: DeviceAddr(row.addr),
        rounded: Bytes(row.bytes),
        requested: Bytes(row.bytes - row.slack),
        stack: StackId(row.stack),
        backward: row.flags & 1 != 0,
        before_recording: row.kind == EventKind::InitialBlock,
        begins_op_call: row.flags & 64 != 0,
        op: TextId(row.op),
        phase: TextId(row.phase),
        stream: HandleId(row.stream),
        pool: HandleId(row.pool),
        thread: ThreadId(row.thread),
        made_at: here,
        freed_at: None,
        completed_at: None,
        label: LabelId(0),
    }
}
