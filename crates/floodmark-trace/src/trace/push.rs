//! How a [`Trace`] grows while it is read, from batches that are not trusted.

use std::collections::BTreeMap;

use super::check_ids::Refused;
use crate::batch::{Batch, Row};
use crate::event::{
    AllocationId, Bytes, CodeId, Device, DeviceAddr, EventKind, EventNumber, HandleId, LabelId,
    ModuleId, StackId, Subject, TextId, ThreadId,
};
use crate::journal::{FLAG_BACKWARD, FLAG_DEFERRED, FLAG_OP_CALL};
use crate::losses::{Loss, Losses};
use crate::trace::{Allocation, Code, Event, LOST, Label, Oom, Segment, Stack, Trace};

/// Our writer never gives a module more names than this.
const MAX_NAMES: usize = 256;

/// Placeholder entries of dense tables, for ids of lost frames.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holes {
    count: usize,
    file_bytes: u64,
}

impl Holes {
    /// The number of rows that the smallest file may lack.
    const ALWAYS_ALLOWED: u64 = 1 << 16;
    /// More rows than any file lacks.
    const MOST: u64 = 1 << 21;

    /// Sets the length of the file: our writer never omits more rows than the file has bytes.
    pub(crate) fn set_file_bytes(&mut self, bytes: u64) {
        self.file_bytes = bytes;
    }

    /// Counts more of them; `false` when there would be too many.
    fn add(&mut self, more: usize) -> bool {
        let most = self.file_bytes.clamp(Self::ALWAYS_ALLOWED, Self::MOST);
        let count = self.count.saturating_add(more);
        let is_allowed = count as u64 <= most;
        if is_allowed {
            self.count = count;
        }
        is_allowed
    }
}

impl Trace {
    /// Appends a batch. Rows that refer to undefined ids are counted and left out.
    pub(crate) fn push(&mut self, mut batch: Batch) {
        let rows = std::mem::take(&mut batch.rows);
        if !rows.is_empty() && !self.skip_allocations(batch.first_allocation) {
            self.unknown_allocations += rows.len() as u64;
            self.push_definitions(batch);
            return;
        }
        self.events.reserve(rows.len());
        for row in &rows {
            self.push_row(row);
        }
        self.through_nanos = self.through_nanos.max(batch.through_nanos);
        self.totals = std::mem::take(&mut batch.totals);
        self.disagreements = batch.disagreements;
        self.left_out = batch.left_out;
        self.push_definitions(batch);
    }

    /// Makes `first` the next allocation; those between are lost. `false` when that is impossible.
    fn skip_allocations(&mut self, first: u32) -> bool {
        let first = first as usize;
        let Some(holes) = first.checked_sub(self.allocations.len()) else { return false };
        if !self.holes.add(holes) {
            return false;
        }
        self.allocations.resize(first, lost_allocation());
        true
    }

    /// Appends the definitions of a batch, without its events.
    pub(crate) fn push_definitions(&mut self, batch: Batch) {
        let (holes, refused) = (&mut self.holes, &mut self.refused);
        self.redefined.modules |= !batch.modules.is_empty();
        self.sources.extend(batch.sources);
        self.gpu_memory.extend(batch.gpu_memory);
        for row in batch.stacks {
            self.redefined.stacks |= (row.id as usize) < self.paths.stack_count();
            self.checked.forget_stack(row.id as usize);
            let Some(slot) = slot(&mut self.stacks, row.id, holes, refused) else { continue };
            // A caller is always defined before its callees; anything else would be a cycle.
            let parent = if row.parent < row.id { row.parent } else { 0 };
            *slot = Stack {
                parent: StackId(parent),
                code: CodeId(row.code),
                line: row.line,
                module: ModuleId(row.module),
                flags: row.flags,
            };
        }
        for row in batch.codes {
            let Some(slot) = slot(&mut self.codes, row.id, holes, refused) else { continue };
            let (file, name) = (refused.cut_name(row.file), refused.cut_name(row.name));
            *slot = Code { file, name, first_line: row.first_line };
        }
        for row in batch.modules {
            let Some(slot) = slot(&mut self.modules, row.id, holes, refused) else { continue };
            slot.class = refused.cut_name(row.class);
            let name = (ModuleId(row.root), refused.cut_name(row.name));
            if row.root != 0 && slot.names.len() < MAX_NAMES && !slot.names.contains(&name) {
                slot.names.push(name);
            }
        }
        for row in batch.labels {
            let Some(slot) = slot(&mut self.labels, row.id, holes, refused) else { continue };
            *slot = Some(Label {
                category: row.category,
                name: refused.cut_name(row.name),
                shape: refused.cut_name(row.shape),
                dtype: refused.cut_name(row.dtype),
            });
        }
        for row in batch.texts {
            let Some(slot) = slot(&mut self.texts, row.id, holes, refused) else { continue };
            *slot = Some((row.kind, refused.cut_name(row.text)));
        }
    }

    pub(crate) fn push_row(&mut self, row: &Row) {
        let here = u32::try_from(self.events.len()).ok().filter(|&here| here < EventNumber::MAX);
        let Some(here) = here else {
            self.unknown_allocations += 1;
            return;
        };
        let Some(device) = self.known_device(row.device) else {
            self.refused.rows += 1;
            // The allocations after it keep their numbers.
            if matches!(row.kind, EventKind::Alloc | EventKind::InitialBlock) {
                self.allocations.push(lost_allocation());
            }
            return;
        };
        let row = &Row { device, ..*row };
        let subject = match row.kind {
            EventKind::Alloc | EventKind::InitialBlock => {
                Subject::Alloc(self.push_allocation(row, here))
            }
            EventKind::Free
            | EventKind::FreeCompleted
            | EventKind::Label
            | EventKind::Saved
            | EventKind::Unpacked => {
                let Some(subject) = self.touch_allocation(row, here) else {
                    self.unknown_allocations += 1;
                    return;
                };
                subject
            }
            EventKind::FreeUnknown => {
                self.freed_unknown.insert((row.device, row.addr));
                Subject::FreeUnknown(Bytes(row.bytes).into())
            }
            EventKind::SegmentAlloc => Subject::SegmentAlloc(self.push_segment(row)),
            EventKind::SegmentFree => Subject::SegmentFree(self.push_segment(row)),
            EventKind::SegmentMap => Subject::SegmentMap(self.push_segment(row)),
            EventKind::SegmentUnmap => Subject::SegmentUnmap(self.push_segment(row)),
            EventKind::InitialSegment => Subject::InitialSegment(self.push_segment(row)),
            EventKind::Oom => {
                self.ooms.push(Oom {
                    requested: Bytes(row.bytes),
                    stack: StackId(row.stack),
                    backward: row.flags & FLAG_BACKWARD != 0,
                    device_free: (row.addr != 0).then_some(Bytes(row.addr)),
                });
                Subject::Oom(u32::try_from(self.ooms.len() - 1).unwrap_or(u32::MAX))
            }
            EventKind::Reserved => Subject::Reserved(Bytes(row.bytes).into()),
            EventKind::Step => Subject::Step(row.stack),
            EventKind::Mark => Subject::Mark(TextId(row.stack)),
            EventKind::PhaseBegin => Subject::PhaseBegin(TextId(row.stack)),
            EventKind::PhaseEnd => Subject::PhaseEnd(TextId(row.stack)),
            EventKind::OptimizerBegin => Subject::OptimizerBegin,
            EventKind::OptimizerEnd => Subject::OptimizerEnd,
        };
        let thread = ThreadId(row.thread);
        self.events.push(Event { time: row.time, device: row.device, thread, subject });
    }

    fn push_allocation(&mut self, row: &Row, here: u32) -> AllocationId {
        let id = AllocationId(u32::try_from(self.allocations.len()).unwrap_or(u32::MAX));
        self.allocations.push(Allocation {
            device: row.device,
            addr: DeviceAddr(row.addr),
            rounded: Bytes(row.bytes),
            requested: Bytes(row.bytes.saturating_sub(row.slack)),
            stack: StackId(row.stack),
            backward: row.flags & FLAG_BACKWARD != 0,
            before_recording: row.kind == EventKind::InitialBlock,
            begins_op_call: row.flags & FLAG_OP_CALL != 0,
            op: TextId(row.op),
            phase: TextId(row.phase),
            stream: HandleId(row.stream),
            pool: HandleId(row.pool),
            thread: ThreadId(row.thread),
            made_at: here,
            freed_at: None,
            completed_at: None,
            label: LabelId(0),
        });
        id
    }

    /// The change of an allocation by an event, or `None` when it is impossible.
    fn touch_allocation(&mut self, row: &Row, here: u32) -> Option<Subject> {
        let id = row.allocation;
        let allocation = self.allocations.get_mut(id.index())?;
        if allocation.is_lost() || allocation.device != row.device {
            return None;
        }
        let is_live = allocation.freed_at.is_none();
        match row.kind {
            EventKind::Free if is_live => {
                allocation.freed_at = Some(EventNumber::new(here));
                Some(Subject::Free { allocation: id, deferred: row.flags & FLAG_DEFERRED != 0 })
            }
            EventKind::FreeCompleted if !is_live && allocation.completed_at.is_none() => {
                allocation.completed_at = Some(EventNumber::new(here));
                Some(Subject::FreeCompleted(id))
            }
            EventKind::Label if is_live => {
                allocation.label = LabelId(row.stack);
                Some(Subject::Label { allocation: id, label: LabelId(row.stack) })
            }
            EventKind::Saved if is_live => {
                self.autograd_uses.save(id, here);
                Some(Subject::Saved(id))
            }
            EventKind::Unpacked if is_live => {
                self.autograd_uses.unpack(id, here);
                Some(Subject::Unpacked(id))
            }
            EventKind::Free
            | EventKind::FreeCompleted
            | EventKind::Label
            | EventKind::Saved
            | EventKind::Unpacked
            | EventKind::Alloc
            | EventKind::FreeUnknown
            | EventKind::SegmentAlloc
            | EventKind::SegmentFree
            | EventKind::SegmentMap
            | EventKind::SegmentUnmap
            | EventKind::Oom
            | EventKind::Reserved
            | EventKind::Step
            | EventKind::Mark
            | EventKind::PhaseBegin
            | EventKind::PhaseEnd
            | EventKind::OptimizerBegin
            | EventKind::OptimizerEnd
            | EventKind::InitialBlock
            | EventKind::InitialSegment => None,
        }
    }

    fn push_segment(&mut self, row: &Row) -> u32 {
        self.segments.push(Segment {
            addr: DeviceAddr(row.addr),
            bytes: Bytes(row.bytes),
            stream: HandleId(row.stream),
            pool: HandleId(row.pool),
            stack: StackId(row.stack),
        });
        u32::try_from(self.segments.len() - 1).unwrap_or(u32::MAX)
    }

    /// The last step of reading: derives what needs all definitions, and the losses. A trace that grew is
    /// completed again, and only new rows are processed.
    pub(crate) fn complete(&mut self, mut losses: Vec<Loss>) {
        self.check_ids();
        self.complete_paths();
        self.sum_up_devices();
        if self.disagreements > 0 {
            losses.push(Loss::TotalsDisagree(self.disagreements));
        }
        self.left_out.append_to(&mut losses);
        if self.unknown_allocations > 0 {
            losses.push(Loss::UnknownAllocations(self.unknown_allocations));
        }
        let ids = self.refused.ids + self.checked.unresolved_ids();
        Refused { ids, ..self.refused }.append_to(&mut losses);
        if let Some((reason, at)) = self.stopped_early() {
            losses.push(Loss::StoppedEarly { reason: reason.to_owned(), at });
        }
        losses.extend(self.header.not_recorded.iter().cloned().map(Loss::NotRecorded));
        self.losses = Losses(losses);
    }

    /// The devices, and the bytes on them that no event names: torch's final total, minus live
    /// blocks, plus blocks that were freed without a recorded allocation.
    pub(crate) fn sum_up_devices(&mut self) {
        if std::mem::take(&mut self.is_unsealed) {
            self.summed = SummedEvents::default();
        }
        let SummedEvents { events, sums } = &mut self.summed;
        for of_one_device in self.events[*events..].chunk_by(|a, b| a.device == b.device) {
            let mut sum = DeviceSum::default();
            let mut is_about_memory = false;
            for event in of_one_device {
                is_about_memory |= event.subject.program_event().is_none();
                if let Subject::Alloc(id) = event.subject {
                    sum.allocated += block_bytes(&self.allocations, id);
                } else if let Subject::Free { allocation: id, .. } = event.subject {
                    sum.freed += block_bytes(&self.allocations, id);
                } else if let Subject::FreeUnknown(bytes) = event.subject {
                    sum.freed_unseen += bytes.into();
                }
            }
            if is_about_memory && let Some(event) = of_one_device.first() {
                let sums = sums.entry(event.device).or_default();
                sums.allocated += sum.allocated;
                sums.freed += sum.freed;
                sums.freed_unseen += sum.freed_unseen;
            }
        }
        *events = self.events.len();
        let unseen = |(&device, sum): (&Device, &DeviceSum)| {
            let total = self.totals.iter().rfind(|total| total.device == device);
            let total = total.map_or(Bytes(0), |total| total.allocated);
            let live = sum.allocated - sum.freed;
            let live = Bytes(u64::try_from(live).unwrap_or(u64::MAX));
            let unseen = total.saturating_sub(live) + sum.freed_unseen;
            (device, if device.is_cpu() { Bytes(0) } else { unseen })
        };
        self.devices = sums.iter().map(unseen).collect();
    }
}

/// The devices of the events summed so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct SummedEvents {
    events: usize,
    sums: BTreeMap<Device, DeviceSum>,
}

#[derive(Debug, Clone, Copy, Default)]
struct DeviceSum {
    /// The bytes of all blocks, even with absurd sizes.
    allocated: u128,
    /// Those of blocks that were freed.
    freed: u128,
    freed_unseen: Bytes,
}

fn block_bytes(allocations: &[Allocation], id: AllocationId) -> u128 {
    u128::from(allocations[id.index()].rounded.0)
}

fn lost_allocation() -> Allocation {
    Allocation {
        device: Device::CPU,
        addr: DeviceAddr(0),
        rounded: Bytes(0),
        requested: Bytes(0),
        stack: StackId(0),
        backward: false,
        before_recording: false,
        begins_op_call: false,
        op: TextId(0),
        phase: TextId(0),
        stream: HandleId(0),
        pool: HandleId(0),
        thread: ThreadId(0),
        made_at: LOST,
        freed_at: Some(EventNumber::new(0)),
        completed_at: None,
        label: LabelId(0),
    }
}

/// The index of an id in a dense table, which grows for it; `None`, counted, for an absurd id.
fn slot<'a, T: Default + Clone>(
    table: &'a mut Vec<T>,
    id: u32,
    holes: &mut Holes,
    refused: &mut Refused,
) -> Option<&'a mut T> {
    let at = id as usize;
    // The table begins with an entry for 0, which is no id.
    if at == 0 || !holes.add(at.saturating_sub(table.len().max(1))) {
        refused.rows += 1;
        return None;
    }
    if at >= table.len() {
        table.resize(at + 1, T::default());
    }
    table.get_mut(at)
}
