//! From journal records to rows: addresses become allocations, totals are checked.
//!
//! The same assembler runs in the traced process and in a reader that salvages a journal, so written
//! and salvaged rows are the same.

mod device_state;
mod selection;
mod step_totals;

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::{Batch, Row, Total};
use crate::event::{AllocatedChange, AllocationId, Bytes, Device, EventKind, Micros, Subject};
use crate::journal::{
    Definition, FLAG_DEFERRED, FLAG_FAKE_TENSOR, FLAG_NAME_LEFT_OUT, FLAG_OF_WINDOW,
    FLAG_STACK_LEFT_OUT, Record, record_kind,
};
use crate::losses::LeftOut;
use crate::trace::{Allocation, Trace};

use device_state::{DeviceState, Live};

pub use selection::Selection;
pub use step_totals::StepTotals;

/// Folds records, in the order of their sequence numbers, into batches.
#[derive(Debug, Default)]
pub struct Assembler {
    devices: BTreeMap<Device, DeviceState>,
    /// Blocks that were freed while a stream still used them.
    pending: BTreeMap<(Device, u64), AllocationId>,
    /// Blocks that were freed before any event named them.
    freed_unknown: BTreeSet<(Device, u64)>,
    next_allocation: u32,
    /// The time of the journal at which this assembler's own time begins.
    origin_nanos: u64,
    now: Micros,
    disagreements: u64,
    left_out: LeftOut,
    batch: Batch,
    ended_steps: Vec<StepTotals>,
    /// Labels with a category but no name.
    nameless: BTreeSet<u32>,
}

impl Assembler {
    /// An assembler whose time begins at this time of the journal.
    pub fn beginning_at(origin_nanos: u64) -> Self {
        Self { origin_nanos, ..Self::default() }
    }

    /// Earlier labels without a name.
    pub fn set_nameless(&mut self, labels: BTreeSet<u32>) {
        self.nameless = labels;
    }

    /// Records whether a new label has a name.
    pub fn note_label(&mut self, record: &Record, payload: &[u8]) {
        if record.kind != record_kind::LABEL {
            return;
        }
        let definition = Definition::from_record(record, payload);
        let Some(Definition::Label { id, name, .. }) = definition else { return };
        if name.is_empty() {
            self.nameless.insert(id);
        } else {
            self.nameless.remove(&id);
        }
    }

    /// The live blocks and segments of the devices in `wants`, as records from before a recording that
    /// begins at `time_nanos`, each block followed by its label.
    pub fn initial_records(&self, time_nanos: u64, wants: impl Fn(Device) -> bool) -> Vec<Record> {
        let mut records = Vec::new();
        let new = |kind, device, addr, bytes| {
            Record::block(kind, device, addr, bytes).at_time(time_nanos)
        };
        for (&device, state) in self.devices.iter().filter(|(device, _)| wants(**device)) {
            for (&addr, &bytes) in &state.segments {
                records.push(new(EventKind::InitialSegment, device, addr, bytes));
            }
            for (&addr, live) in &state.live {
                let mut record = new(EventKind::InitialBlock, device, addr, live.bytes);
                record.set_requested(live.bytes.saturating_sub(live.slack));
                records.push(record);
                if live.label != 0 {
                    records.push(Record::label(device, addr, live.label).at_time(time_nanos));
                }
            }
        }
        records
    }

    /// Whether events of this device were folded.
    pub fn has_seen(&self, device: Device) -> bool {
        self.devices.contains_key(&device)
    }

    /// An assembler that continues at the end of `trace`, like the one that wrote it.
    pub(crate) fn resume(trace: &Trace) -> Self {
        let mut assembler = Self {
            next_allocation: u32::try_from(trace.allocations.len()).unwrap_or(u32::MAX),
            now: trace.last_time(),
            disagreements: trace.disagreements,
            left_out: trace.left_out,
            freed_unknown: trace.freed_unknown.clone(),
            nameless: trace.nameless_labels().collect(),
            origin_nanos: trace.header.window.map_or(0, |window| window.start_nanos),
            ..Self::default()
        };
        for (id, allocation) in (0..).map(AllocationId).zip(&trace.allocations) {
            assembler.resume_allocation(id, allocation, trace);
        }
        let checked = devices_with_known_total(trace);
        for total in &trace.totals {
            let state = assembler.devices.entry(total.device).or_default();
            state.reserved = total.reserved.0;
            if checked.contains(&total.device) {
                state.unseen = Some(total.allocated.0.saturating_sub(state.allocated));
            }
        }
        assembler.begin_batch();
        assembler
    }

    fn resume_allocation(&mut self, id: AllocationId, allocation: &Allocation, trace: &Trace) {
        if allocation.is_lost() {
            return;
        }
        let (device, addr) = (allocation.device, allocation.addr.0);
        let freed = allocation.freed_at.and_then(|at| trace.events.get(at.get() as usize));
        match freed.map(|event| event.subject) {
            None => {
                let live = Live {
                    label: allocation.label.0,
                    is_saved: trace.autograd_use(id).saved_at.is_some(),
                    ..Live::new(
                        allocation.rounded.0,
                        allocation.rounded.0.saturating_sub(allocation.requested.0),
                        id,
                    )
                };
                self.devices.entry(device).or_default().insert(addr, live);
            }
            Some(Subject::Free { deferred: true, .. }) if allocation.completed_at.is_none() => {
                self.pending.insert((device, addr), id);
            }
            Some(Subject::Free { deferred: true, .. }) => {
                self.pending.remove(&(device, addr));
            }
            Some(_) => {}
        }
    }

    fn begin_batch(&mut self) -> Batch {
        let next =
            Batch { first_allocation: self.next_allocation, start: self.now, ..Batch::default() };
        std::mem::replace(&mut self.batch, next)
    }

    /// About how much memory the blocks take that are live, pending or unknown.
    pub fn live_bytes(&self) -> usize {
        // An entry of a tree takes its own size and as much again: nodes that were split are half full.
        let live: usize = self.devices.values().map(|state| state.live.len()).sum();
        let entry = size_of::<(u64, Live)>() * 2;
        (live + self.pending.len() + self.freed_unknown.len()) * entry
    }

    /// How many events wait to be taken.
    pub fn pending_rows(&self) -> usize {
        self.batch.rows.len()
    }

    /// The rows folded since the last call.
    pub fn take_batch(&mut self) -> Batch {
        let mut batch = self.begin_batch();
        batch.totals = self
            .devices
            .iter()
            .map(|(&device, state)| Total {
                device,
                allocated: Bytes(state.total()),
                reserved: Bytes(state.reserved),
            })
            .collect();
        batch.disagreements = self.disagreements;
        batch.left_out = self.left_out;
        batch
    }

    /// The peak of allocated bytes on each device so far.
    pub fn peaks(&self) -> impl Iterator<Item = (Device, Bytes)> {
        self.devices.iter().map(|(&device, state)| (device, Bytes(state.highest)))
    }

    /// Takes the memory of a batch that was written, for the next one.
    pub fn reuse(&mut self, mut written: Batch) {
        if self.batch.rows.capacity() == 0 {
            written.rows.clear();
            self.batch.rows = written.rows;
        }
    }

    /// The steps that ended since the last call, with a row for each known device.
    pub fn take_ended_steps(&mut self) -> Vec<StepTotals> {
        std::mem::take(&mut self.ended_steps)
    }

    /// Records were damaged in the journal before they could be folded.
    pub fn note_lost(&mut self, records: u64) {
        self.left_out.records += records;
    }

    /// Folds one record. Its time must not be before that of the record before.
    pub fn push(&mut self, record: &Record, payload: &[u8]) {
        self.batch.through_nanos = record.time_nanos;
        if let Some(kind) = EventKind::from_number(record.kind) {
            self.push_event(kind, record);
        } else {
            self.note_label(record, payload);
            self.batch.define(record, payload);
        }
    }

    fn push_event(&mut self, kind: EventKind, record: &Record) {
        let device = record.device.canonical();
        let since_nanos = record.time_nanos.saturating_sub(self.origin_nanos);
        let time = self.now.max(Micros(since_nanos / 1000));
        let mut row = Row::new(kind, device, self.thread_number(record), time);
        (row.stack, row.addr, row.bytes) = record.stored_numbers();
        row.phase = u32::from(record.phase);
        row.op = u32::from(record.op);
        row.stream = record.stream;
        row.pool = record.pool;
        row.flags = self.count_left_out(kind, record.flags);
        match kind {
            EventKind::Alloc | EventKind::InitialBlock => {
                if record.requested() != 0 {
                    row.slack = record.bytes().saturating_sub(record.requested());
                }
                if kind == EventKind::Alloc || self.is_news(&row) {
                    self.allocate(row);
                }
                self.check_totals(record, row.thread);
            }
            EventKind::Free | EventKind::FreeUnknown => {
                self.free(row);
                self.check_totals(record, row.thread);
            }
            EventKind::FreeCompleted => {
                // Only a block that another stream still used is completed later than it is freed.
                if let Some(allocation) = self.pending.remove(&(device, record.addr())) {
                    row.allocation = allocation;
                    (row.addr, row.bytes, row.stack) = (0, 0, 0);
                    self.emit(row);
                }
            }
            // Label 0 means that no memory was left for the label: it is only counted.
            EventKind::Label if record.label_number() == 0 => {}
            EventKind::Label => self.label(row),
            EventKind::Saved => self.save(row),
            EventKind::Unpacked => self.unpack(row),
            EventKind::Step => {
                let ended = self.devices.iter_mut();
                self.ended_steps.extend(
                    ended.map(|(&device, state)| state.end_step(record.step_number(), device)),
                );
                self.emit(row);
            }
            EventKind::Oom
            | EventKind::Mark
            | EventKind::PhaseBegin
            | EventKind::PhaseEnd
            | EventKind::OptimizerBegin
            | EventKind::OptimizerEnd => self.emit(row),
            EventKind::SegmentAlloc | EventKind::SegmentMap | EventKind::InitialSegment => {
                self.emit(row);
                self.devices.entry(device).or_default().add_segment(row.addr, row.bytes);
                self.reserve(&row, u64::saturating_add);
            }
            EventKind::SegmentFree | EventKind::SegmentUnmap => {
                self.emit(row);
                self.devices.entry(device).or_default().remove_segment(row.addr, row.bytes);
                self.reserve(&row, u64::saturating_sub);
            }
            EventKind::Reserved => {
                self.devices.entry(device).or_default().reserved = record.bytes();
                self.emit(row);
            }
        }
        if let Some(state) = self.devices.get_mut(&device) {
            state.note_height();
        }
    }

    /// The number of the thread in the file, where all threads beyond the first 65,535 share one.
    fn thread_number(&mut self, record: &Record) -> u16 {
        u16::try_from(record.thread).ok().filter(|&thread| thread < u16::MAX).unwrap_or_else(|| {
            self.left_out.threads += 1;
            u16::MAX
        })
    }

    /// Counts what a record lacks, and returns the flags for the file.
    fn count_left_out(&mut self, kind: EventKind, flags: u8) -> u8 {
        let has_no_stack = kind == EventKind::Alloc && flags & FLAG_STACK_LEFT_OUT != 0;
        self.left_out.stacks += u64::from(has_no_stack);
        self.left_out.names += u64::from(flags & FLAG_NAME_LEFT_OUT != 0);
        flags & !(FLAG_STACK_LEFT_OUT | FLAG_NAME_LEFT_OUT | FLAG_FAKE_TENSOR | FLAG_OF_WINDOW)
    }

    /// Every row goes through here, so that `now` is the time of the last row: a reader that
    /// continues from the file has no other time.
    fn emit(&mut self, row: Row) {
        self.now = row.time;
        self.batch.rows.push(row);
    }

    /// A segment was allocated or freed: reserved bytes change now, not with the next reported
    /// block.
    fn reserve(&mut self, segment: &Row, change: fn(u64, u64) -> u64) {
        let state = self.devices.entry(segment.device).or_default();
        // After the first report the total is torch's, which includes earlier segments.
        if segment.kind == EventKind::InitialSegment && state.unseen.is_some() {
            return;
        }
        state.reserved = change(state.reserved, segment.bytes);
        let mut row = Row::new(EventKind::Reserved, segment.device, segment.thread, segment.time);
        row.bytes = state.reserved;
        self.emit(row);
    }

    /// Whether a block from before the recording is unknown: other threads may have freed it, or
    /// allocated it anew, between the beginning of the recording and the list of such blocks.
    fn is_news(&mut self, row: &Row) -> bool {
        let state = self.devices.entry(row.device).or_default();
        if state.live.contains_key(&row.addr)
            || self.freed_unknown.contains(&(row.device, row.addr))
        {
            return false;
        }
        if let Some(unseen) = &mut state.unseen {
            *unseen = unseen.saturating_sub(row.bytes);
        }
        true
    }

    fn allocate(&mut self, mut row: Row) {
        row.allocation = AllocationId(self.next_allocation);
        self.next_allocation = self.next_allocation.wrapping_add(1);
        let live = Live::new(row.bytes, row.slack, row.allocation);
        if let Some(stale) = self.devices.entry(row.device).or_default().insert(row.addr, live) {
            // The address was allocated again, so it had been freed without an event.
            let mut freed = Row::new(EventKind::Free, row.device, row.thread, row.time);
            freed.allocation = stale.allocation;
            self.emit(freed);
        }
        self.emit(row);
    }

    fn free(&mut self, mut row: Row) {
        let state = self.devices.entry(row.device).or_default();
        if let Some(live) = state.live.remove(&row.addr) {
            state.allocated = state.allocated.saturating_sub(live.bytes);
            if row.flags & FLAG_DEFERRED != 0 {
                self.pending.insert((row.device, row.addr), live.allocation);
            }
            row.allocation = live.allocation;
            row.addr = 0;
            row.bytes = 0;
        } else {
            row.kind = EventKind::FreeUnknown;
            self.freed_unknown.insert((row.device, row.addr));
            if let Some(unseen) = &mut state.unseen {
                *unseen = unseen.saturating_sub(row.bytes);
            }
        }
        row.stack = 0;
        self.emit(row);
    }

    /// A label belongs to the block that contains its address. One without a name replaces none that has one.
    fn label(&mut self, mut row: Row) {
        let Some(state) = self.devices.get_mut(&row.device) else { return };
        let Some(live) = state.around(row.addr) else { return };
        let has_name = |label: u32| label != 0 && !self.nameless.contains(&label);
        if live.label == row.stack || has_name(live.label) && !has_name(row.stack) {
            return;
        }
        live.label = row.stack;
        row.allocation = live.allocation;
        (row.addr, row.bytes) = (0, 0);
        self.emit(row);
    }

    /// Only the first time counts: a parameter is saved in every step.
    fn save(&mut self, mut row: Row) {
        let Some(live) = self.block_around(&row) else { return };
        if !std::mem::replace(&mut live.is_saved, true) {
            row.allocation = live.allocation;
            (row.addr, row.bytes, row.stack) = (0, 0, 0);
            self.emit(row);
        }
    }

    /// What was saved before the recording is also read.
    fn unpack(&mut self, mut row: Row) {
        let Some(live) = self.block_around(&row) else { return };
        row.allocation = live.allocation;
        (row.addr, row.bytes, row.stack) = (0, 0, 0);
        self.emit(row);
    }

    fn block_around(&mut self, row: &Row) -> Option<&mut Live> {
        self.devices.get_mut(&row.device)?.around(row.addr)
    }

    fn check_totals(&mut self, record: &Record, thread: u16) {
        let device = record.device.canonical();
        if device.is_cpu() || record.kind == EventKind::InitialBlock as u8 {
            return;
        }
        let state = self.devices.entry(device).or_default();
        if state.total() != record.allocated() {
            if state.unseen.is_some() {
                self.disagreements += 1;
            }
            state.unseen = Some(record.allocated().saturating_sub(state.allocated));
        } else if state.unseen.is_none() {
            state.unseen = Some(0);
        }
        if state.reserved != record.reserved() {
            state.reserved = record.reserved();
            let mut row = Row::new(EventKind::Reserved, device, thread, self.now);
            row.bytes = record.reserved();
            self.emit(row);
        }
    }
}

/// The devices with a total from torch: it reports one with every allocation and free, but never on
/// the CPU.
fn devices_with_known_total(trace: &Trace) -> BTreeSet<Device> {
    let mut devices = BTreeSet::new();
    for event in &trace.events {
        let has_total = match event.subject.allocated_change() {
            Some(AllocatedChange::Alloc(id)) => {
                trace.allocations.get(id.index()).is_some_and(|made| !made.before_recording)
            }
            Some(AllocatedChange::Free(_) | AllocatedChange::FreeUnknown(_)) => true,
            None => false,
        };
        if has_total && !event.device.is_cpu() {
            devices.insert(event.device);
        }
    }
    devices
}
