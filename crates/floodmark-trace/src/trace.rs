//! A recording in memory: immutable, dense, ready for questions.

use crate::batch::{Batch, Row, Total};
use crate::event::{
    AllocationId, Bytes, Category, CodeId, Device, DeviceAddr, EventKind, LabelId, Micros, ModuleId,
    StackId, TextId, TextKind, ThreadId,
};
use crate::header::{Ending, Header};
use crate::journal::{FLAG_BACKWARD, FLAG_DEFERRED};
use crate::losses::{Loss, Losses};
use crate::modules::ModulePaths;

/// A file with more holes in its ids than this was not written by us.
const MAX_HOLES: usize = 1 << 20;

/// One stay of one storage in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Where.
    pub device: Device,
    /// At which address.
    pub addr: DeviceAddr,
    /// What the allocator handed out: `requested`, rounded up.
    pub rounded: Bytes,
    /// What the program asked for.
    pub requested: Bytes,
    /// The stack that caused it: for backward, that of the forward operator.
    pub stack: StackId,
    /// Whether the backward pass made it.
    pub backward: bool,
    /// Whether it was there before recording began.
    pub before_recording: bool,
    /// The operator, where recorded.
    pub op: TextId,
    /// The phase that the user named, where one was open.
    pub phase: TextId,
    /// The stream, where known.
    pub stream: TextId,
    /// The pool, where known.
    pub pool: TextId,
    /// Who made it.
    pub thread: ThreadId,
    /// The event that made it.
    pub made_at: u32,
    /// The event that let go of it.
    pub freed_at: Option<u32>,
    /// The event at which the last stream was done with it, where that came later.
    pub completed_at: Option<u32>,
    /// The last name it had.
    pub label: LabelId,
}

impl Allocation {
    /// Whether it was there right after event number `event`.
    pub fn is_live_after(&self, event: u32) -> bool {
        self.made_at <= event && self.freed_at.is_none_or(|freed| freed > event)
    }
}

/// A stretch of memory that the allocator took from or gave back to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub addr: DeviceAddr,
    /// How long it is.
    pub bytes: Bytes,
    /// The stream it serves, where known.
    pub stream: TextId,
    /// The pool it belongs to, where known.
    pub pool: TextId,
    /// Who caused it.
    pub stack: StackId,
}

/// A request that could not be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oom {
    /// What was asked for.
    pub requested: Bytes,
    /// Who asked.
    pub stack: StackId,
    /// Whether the backward pass asked.
    pub backward: bool,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A block was handed out, or (in the beginning) was there already.
    Alloc(AllocationId),
    /// The program let go of a block. When `deferred`, a stream still uses it.
    Free { allocation: AllocationId, deferred: bool },
    /// The last stream is done with a block.
    FreeCompleted(AllocationId),
    /// A block from before the recording was let go of; 0 bytes when nobody knows how many.
    FreeUnknown(Bytes),
    /// The allocator took memory from the driver.
    SegmentAlloc(u32),
    /// The allocator gave memory back.
    SegmentFree(u32),
    /// An expandable segment grew.
    SegmentMap(u32),
    /// An expandable segment shrank.
    SegmentUnmap(u32),
    /// A segment from before the recording.
    BaseSegment(u32),
    /// A request could not be met: index into [`Trace::ooms`].
    Oom(u32),
    /// Reserved bytes are now this many.
    Reserved(Bytes),
    /// The allocation holds a tensor with a name.
    Label { allocation: AllocationId, label: LabelId },
    /// The step with this number ended.
    Step(u32),
    /// The user marked the moment.
    Mark(TextId),
    /// A named phase began.
    PhaseBegin(TextId),
    /// A named phase ended.
    PhaseEnd(TextId),
    /// An optimizer's `step` began.
    OptimizerBegin,
    /// An optimizer's `step` ended.
    OptimizerEnd,
}

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Micros,
    /// Where.
    pub device: Device,
    /// Who did it.
    pub thread: ThreadId,
    /// What.
    pub subject: Subject,
}

/// A node of the call tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stack {
    /// The caller; `StackId(0)` at the outermost frame.
    pub parent: StackId,
    /// The function.
    pub code: CodeId,
    /// The line.
    pub line: u32,
    /// The module whose `forward` this frame is.
    pub module: ModuleId,
    /// [`crate::stack_flags`], those of the callers included.
    pub flags: u8,
}

/// A function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// Its file.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The line of its `def`.
    pub first_line: u32,
}

/// A module object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Its class.
    pub class: String,
    /// Its names, each with the root it starts from. A shared module has several.
    pub names: Vec<(ModuleId, String)>,
}

/// What a tensor is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// What it is to the program.
    pub category: Category,
    /// Its qualified name.
    pub name: String,
    /// Its shape.
    pub shape: String,
    /// Its dtype.
    pub dtype: String,
}

/// A recording.
#[derive(Debug, Default)]
pub struct Trace {
    /// Where it comes from.
    pub header: Header,
    /// How it ended; `None` while it is being written, or when the program was killed.
    pub ending: Option<Ending>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Every allocation, by id.
    pub allocations: Vec<Allocation>,
    /// Segments that events refer to.
    pub segments: Vec<Segment>,
    /// Failed requests.
    pub ooms: Vec<Oom>,
    /// torch's totals at the end.
    pub totals: Vec<Total>,
    /// What is missing.
    pub losses: Losses,
    pub(crate) stacks: Vec<Stack>,
    pub(crate) codes: Vec<Code>,
    pub(crate) modules: Vec<Module>,
    pub(crate) labels: Vec<Option<Label>>,
    pub(crate) texts: Vec<Option<(TextKind, String)>>,
    pub(crate) paths: ModulePaths,
    pub(crate) unknown_allocations: u64,
    pub(crate) through_seq: u64,
    disagreements: u64,
    stacks_left_out: u64,
}

impl Trace {
    /// A node of the call tree; the empty stack for an id that is not in the file.
    pub fn stack(&self, id: StackId) -> Stack {
        self.stacks.get(id.index()).copied().unwrap_or_default()
    }

    /// How many nodes the call tree has, the empty one included. Ids are below this.
    pub fn stack_count(&self) -> usize {
        self.stacks.len().max(1)
    }

    /// The frames of a stack, innermost first.
    pub fn frames(&self, id: StackId) -> impl Iterator<Item = (StackId, Stack)> {
        let mut next = id;
        std::iter::from_fn(move || {
            let stack = *self.stacks.get(next.index())?;
            if next.0 == 0 {
                return None;
            }
            let here = next;
            next = stack.parent;
            Some((here, stack))
        })
    }

    /// A function, where the file has it.
    pub fn code(&self, id: CodeId) -> Option<&Code> {
        self.codes.get(id.index()).filter(|code| !code.file.is_empty() || !code.name.is_empty())
    }

    /// A module object, where the file has it.
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.index()).filter(|module| !module.class.is_empty())
    }

    /// The qualified name of the innermost module on a stack.
    pub fn module_path(&self, id: StackId) -> Option<&str> {
        self.paths.of_stack(id)
    }

    /// The class of the innermost module on a stack.
    pub fn module_class(&self, id: StackId) -> Option<&str> {
        let (_, stack) = self.frames(id).find(|(_, stack)| stack.module.0 != 0)?;
        self.module(stack.module).map(|module| module.class.as_str())
    }

    /// A tensor's name, where it has one.
    pub fn label(&self, id: LabelId) -> Option<&Label> {
        self.labels.get(id.index())?.as_ref()
    }

    /// A text, where the file has it.
    pub fn text(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.index())?.as_ref().map(|(_, text)| text.as_str())
    }

    /// Every device on which something happened, CPU first.
    pub fn devices(&self) -> Vec<Device> {
        let mut devices: Vec<Device> = Vec::new();
        for allocation in &self.allocations {
            if !devices.contains(&allocation.device) {
                devices.push(allocation.device);
            }
        }
        devices.sort();
        devices
    }

    /// When the last event happened.
    pub fn end(&self) -> Micros {
        let ended = self.ending.as_ref().map_or(0, |ending| ending.at_micros);
        self.events.last().map_or(Micros(0), |event| event.time).max(Micros(ended))
    }

    /// Bytes that were allocated when recording began and that nothing else tells of: torch's total
    /// less what the events add up to.
    pub fn unseen_at_start(&self, device: Device) -> Bytes {
        let Some(total) = self.totals.iter().find(|total| total.device == device) else {
            return Bytes(0);
        };
        if device.is_cpu() {
            return Bytes(0);
        }
        let mut live = 0_u64;
        for allocation in &self.allocations {
            if allocation.device == device && allocation.freed_at.is_none() {
                live = live.saturating_add(allocation.rounded.0);
            }
        }
        let freed: Bytes = self
            .events
            .iter()
            .filter(|event| event.device == device)
            .filter_map(|event| match event.subject {
                Subject::FreeUnknown(bytes) => Some(bytes),
                _ => None,
            })
            .sum();
        total.allocated.saturating_sub(Bytes(live)) + freed
    }

    /// Appends a batch. Rows that refer to nothing are counted, not trusted.
    pub(crate) fn push(&mut self, batch: Batch) {
        self.push_definitions(&batch);
        let first = batch.first_allocation as usize;
        let holes = first.checked_sub(self.allocations.len());
        if !batch.rows.is_empty() && holes.is_none_or(|holes| holes > MAX_HOLES) {
            self.unknown_allocations += batch.rows.len() as u64;
            return;
        }
        if !batch.rows.is_empty() {
            self.allocations.resize(first, lost_allocation());
        }
        for row in &batch.rows {
            self.push_row(row);
        }
        self.through_seq = self.through_seq.max(batch.through_seq);
        self.totals = batch.totals;
        self.disagreements = batch.disagreements;
        self.stacks_left_out = batch.stacks_left_out;
    }

    /// Appends the definitions of a batch, without its events.
    pub(crate) fn push_definitions(&mut self, batch: &Batch) {
        for row in &batch.stacks {
            if let Some(slot) = slot(&mut self.stacks, row.id) {
                // A caller is always defined before whom it calls; anything else would be a circle.
                let parent = if row.parent < row.id { row.parent } else { 0 };
                *slot = Stack {
                    parent: StackId(parent),
                    code: CodeId(row.code),
                    line: row.line,
                    module: ModuleId(row.module),
                    flags: row.flags,
                };
            }
        }
        for row in &batch.codes {
            if let Some(slot) = slot(&mut self.codes, row.id) {
                *slot = Code {
                    file: row.file.clone(),
                    name: row.name.clone(),
                    first_line: row.first_line,
                };
            }
        }
        for row in &batch.modules {
            if let Some(slot) = slot(&mut self.modules, row.id) {
                slot.class.clone_from(&row.class);
                if row.root != 0 {
                    let name = (ModuleId(row.root), row.name.clone());
                    if !slot.names.contains(&name) {
                        slot.names.push(name);
                    }
                }
            }
        }
        for row in &batch.labels {
            if let Some(slot) = slot(&mut self.labels, row.id) {
                *slot = Some(Label {
                    category: row.category,
                    name: row.name.clone(),
                    shape: row.shape.clone(),
                    dtype: row.dtype.clone(),
                });
            }
        }
        for row in &batch.texts {
            if let Some(slot) = slot(&mut self.texts, row.id) {
                *slot = Some((row.kind, row.text.clone()));
            }
        }
    }

    fn push_row(&mut self, row: &Row) {
        let Ok(here) = u32::try_from(self.events.len()) else {
            self.unknown_allocations += 1;
            return;
        };
        let subject = match row.kind {
            EventKind::Alloc | EventKind::Base => Subject::Alloc(self.push_allocation(row, here)),
            EventKind::Free | EventKind::FreeCompleted | EventKind::Label => {
                let Some(subject) = self.touch_allocation(row, here) else {
                    self.unknown_allocations += 1;
                    return;
                };
                subject
            }
            EventKind::FreeUnknown => Subject::FreeUnknown(Bytes(row.bytes)),
            EventKind::SegmentAlloc => Subject::SegmentAlloc(self.push_segment(row)),
            EventKind::SegmentFree => Subject::SegmentFree(self.push_segment(row)),
            EventKind::SegmentMap => Subject::SegmentMap(self.push_segment(row)),
            EventKind::SegmentUnmap => Subject::SegmentUnmap(self.push_segment(row)),
            EventKind::BaseSegment => Subject::BaseSegment(self.push_segment(row)),
            EventKind::Oom => {
                self.ooms.push(Oom {
                    requested: Bytes(row.bytes),
                    stack: StackId(row.stack),
                    backward: row.flags & FLAG_BACKWARD != 0,
                });
                Subject::Oom(u32::try_from(self.ooms.len() - 1).unwrap_or(u32::MAX))
            }
            EventKind::Reserved => Subject::Reserved(Bytes(row.bytes)),
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
            before_recording: row.kind == EventKind::Base,
            op: TextId(row.op),
            phase: TextId(row.phase),
            stream: TextId(u32::from(row.stream)),
            pool: TextId(u32::from(row.pool)),
            thread: ThreadId(row.thread),
            made_at: here,
            freed_at: None,
            completed_at: None,
            label: LabelId(0),
        });
        id
    }

    fn touch_allocation(&mut self, row: &Row, here: u32) -> Option<Subject> {
        let id = row.allocation;
        let allocation = self.allocations.get_mut(id.index())?;
        if allocation.made_at == LOST {
            return None;
        }
        Some(match row.kind {
            EventKind::Free => {
                if allocation.freed_at.is_some() {
                    return None;
                }
                allocation.freed_at = Some(here);
                Subject::Free { allocation: id, deferred: row.flags & FLAG_DEFERRED != 0 }
            }
            EventKind::FreeCompleted => {
                allocation.completed_at = Some(here);
                Subject::FreeCompleted(id)
            }
            _ => {
                allocation.label = LabelId(row.stack);
                Subject::Label { allocation: id, label: LabelId(row.stack) }
            }
        })
    }

    fn push_segment(&mut self, row: &Row) -> u32 {
        self.segments.push(Segment {
            addr: DeviceAddr(row.addr),
            bytes: Bytes(row.bytes),
            stream: TextId(u32::from(row.stream)),
            pool: TextId(u32::from(row.pool)),
            stack: StackId(row.stack),
        });
        u32::try_from(self.segments.len() - 1).unwrap_or(u32::MAX)
    }

    /// The last step of reading: what needs all definitions, and what is missing.
    pub(crate) fn complete(&mut self, mut losses: Vec<Loss>) {
        self.paths = ModulePaths::new(&self.stacks, &self.modules);
        if self.disagreements > 0 {
            losses.push(Loss::TotalsDisagree(self.disagreements));
        }
        if self.stacks_left_out > 0 {
            losses.push(Loss::StacksLeftOut(self.stacks_left_out));
        }
        if self.unknown_allocations > 0 {
            losses.push(Loss::UnknownAllocations(self.unknown_allocations));
        }
        if let Some(ending) = &self.ending
            && !ending.reason.is_empty()
        {
            losses.push(Loss::StoppedEarly { reason: ending.reason.clone() });
        }
        losses.extend(self.header.not_recorded.iter().cloned().map(Loss::NotRecorded));
        self.losses = Losses(losses);
    }
}

/// `made_at` of an allocation whose frame is lost: it was never there.
const LOST: u32 = u32::MAX;

fn lost_allocation() -> Allocation {
    Allocation {
        device: Device::CPU,
        addr: DeviceAddr(0),
        rounded: Bytes(0),
        requested: Bytes(0),
        stack: StackId(0),
        backward: false,
        before_recording: false,
        op: TextId(0),
        phase: TextId(0),
        stream: TextId(0),
        pool: TextId(0),
        thread: ThreadId(0),
        made_at: LOST,
        freed_at: Some(0),
        completed_at: None,
        label: LabelId(0),
    }
}

/// The place of an id in a dense table, which grows to hold it; `None` when that is absurd.
fn slot<T: Default + Clone>(table: &mut Vec<T>, id: u32) -> Option<&mut T> {
    let at = id as usize;
    if at == 0 || at > table.len() + MAX_HOLES {
        return None;
    }
    if at >= table.len() {
        table.resize(at + 1, T::default());
    }
    table.get_mut(at)
}
