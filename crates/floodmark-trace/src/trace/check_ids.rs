//! Checks every id of a trace against what the file defines, once, when the trace is completed.
//!
//! A checksum proves that a file is as it was written, not that its contents are valid. After this, an id in a
//! [`Trace`] is 0 or one that the file defines, no stack is deeper than [`MAX_STACK_DEPTH`], no name is longer than
//! [`MAX_NAME_BYTES`], and there are at most [`MAX_DEVICES`] devices: callers rely on it. [`Refused`] counts what
//! was changed or left out, which becomes a [`Loss`].

use std::collections::BTreeMap;

use crate::event::{
    CodeId, Device, HandleId, LabelId, ModuleId, StackId, Subject, TextId, TextKind,
};
use crate::journal::cut_at_char;
use crate::limits::{MAX_DEVICES, MAX_NAME_BYTES, MAX_STACK_DEPTH};
use crate::losses::Loss;
use crate::trace::{Allocation, Code, Label, Module, Stack, Trace};

/// How many frames all stacks may have together, or this many each on average: beyond it they are cut shorter.
const MOST_FRAMES: u64 = 1 << 25;
const MOST_FRAMES_EACH: u16 = 256;

/// The impossible values of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Rows with an impossible number or device.
    pub(crate) rows: u64,
    /// Ids that the file does not define.
    pub(crate) ids: u64,
    /// Stacks that were cut.
    pub(crate) stacks: u64,
    /// Stacks that were cut to fewer frames, because all stacks together have too many.
    pub(crate) stacks_of_many: u64,
    /// Names that were cut.
    pub(crate) names: u64,
}

impl Refused {
    pub(crate) fn append_to(self, losses: &mut Vec<Loss>) {
        let cut_stacks = |stacks, most_frames| Loss::CutStacks { stacks, most_frames };
        let found = [
            (self.rows, Loss::RefusedRows(self.rows)),
            (self.ids, Loss::UnknownIds(self.ids)),
            (self.stacks, cut_stacks(self.stacks, MAX_STACK_DEPTH)),
            (self.stacks_of_many, cut_stacks(self.stacks_of_many, MOST_FRAMES_EACH)),
            (self.names, Loss::CutNames(self.names)),
        ];
        losses.extend(found.into_iter().filter(|(count, _)| *count > 0).map(|(_, loss)| loss));
    }

    /// A name of a length that can be shown.
    pub(crate) fn cut_name(&mut self, name: String) -> String {
        if name.len() <= MAX_NAME_BYTES {
            return name;
        }
        self.names += 1;
        cut_at_char(&name, MAX_NAME_BYTES).to_owned()
    }
}

/// How far a trace was checked: a growing trace is checked from there on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checked {
    /// Per stack: how many frames it has.
    depths: Vec<u16>,
    /// The sum of them.
    frames: u64,
    allocations: usize,
    segments: usize,
    ooms: usize,
    events: usize,
    /// Unchanged stacks that refer to undefined ids: in a growing trace, a definition may come late.
    unresolved_stacks: BTreeMap<usize, Unresolved<Stack>>,
    /// The ids of such allocations.
    unresolved_allocations: BTreeMap<usize, Unresolved<AllocationIds>>,
}

/// A row as the file has it, and how many of its ids are not defined.
#[derive(Debug, Clone, Copy)]
struct Unresolved<T> {
    row: T,
    ids: u64,
}

/// The ids of an allocation.
#[derive(Debug, Clone, Copy)]
struct AllocationIds {
    stack: StackId,
    op: TextId,
    phase: TextId,
    stream: HandleId,
    pool: HandleId,
}

impl Checked {
    /// A stack is defined again: what it lacked before does not matter.
    pub(crate) fn forget_stack(&mut self, at: usize) {
        self.unresolved_stacks.remove(&at);
    }

    /// How many ids are not defined so far.
    pub(crate) fn unresolved_ids(&self) -> u64 {
        let stacks = self.unresolved_stacks.values().map(|row| row.ids);
        stacks.chain(self.unresolved_allocations.values().map(|row| row.ids)).sum()
    }
}

/// The tables that ids point into.
struct Defined<'a> {
    stacks: &'a [Stack],
    labels: &'a [Option<Label>],
    texts: &'a [Option<(TextKind, String)>],
    /// Ids that are in none of them.
    unknown: u64,
}

impl Defined<'_> {
    fn check_stack(&mut self, id: &mut StackId) {
        if !has_stack(self.stacks, *id) {
            *id = StackId(0);
            self.unknown += 1;
        }
    }

    fn check_label(&mut self, id: &mut LabelId) {
        if id.0 != 0 && !matches!(self.labels.get(id.index()), Some(Some(_))) {
            *id = LabelId(0);
            self.unknown += 1;
        }
    }

    fn check_text(&mut self, id: &mut TextId) {
        if id.0 != 0 && !matches!(self.texts.get(id.index()), Some(Some(_))) {
            *id = TextId(0);
            self.unknown += 1;
        }
    }

    fn check_handle(&mut self, id: &mut HandleId) {
        if id.0 != 0 && !matches!(self.texts.get(id.index()), Some(Some(_))) {
            *id = HandleId(0);
            self.unknown += 1;
        }
    }

    /// Sets an allocation's ids, except undefined ones.
    fn check_allocation(
        &mut self,
        allocation: &mut Allocation,
        row: AllocationIds,
    ) -> Option<Unresolved<AllocationIds>> {
        let counted = std::mem::take(&mut self.unknown);
        let mut ids = row;
        self.check_stack(&mut ids.stack);
        self.check_text(&mut ids.op);
        self.check_text(&mut ids.phase);
        self.check_handle(&mut ids.stream);
        self.check_handle(&mut ids.pool);
        (allocation.stack, allocation.op, allocation.phase) = (ids.stack, ids.op, ids.phase);
        (allocation.stream, allocation.pool) = (ids.stream, ids.pool);
        let ids = std::mem::replace(&mut self.unknown, counted);
        (ids > 0).then_some(Unresolved { row, ids })
    }

    fn check_subject(&mut self, subject: &mut Subject) {
        if let Subject::Label { label, .. } = subject {
            self.check_label(label);
        } else if let Subject::Mark(text) | Subject::PhaseBegin(text) | Subject::PhaseEnd(text) =
            subject
        {
            self.check_text(text);
        }
    }
}

/// Whether the file defines a stack; 0 is the empty one. A lost stack has an empty entry.
fn has_stack(stacks: &[Stack], id: StackId) -> bool {
    id.0 == 0 || stacks.get(id.index()).is_some_and(|stack| *stack != Stack::default())
}

fn has_code(codes: &[Code], id: CodeId) -> bool {
    let is_defined = |code: &Code| !code.file.is_empty() || !code.name.is_empty();
    id.0 == 0 || codes.get(id.index()).is_some_and(is_defined)
}

fn has_module(modules: &[Module], id: ModuleId) -> bool {
    id.0 == 0 || modules.get(id.index()).is_some_and(|module| !module.class.is_empty())
}

impl Trace {
    /// Checks what is new since the last time; all stacks where one of them was defined again.
    pub(crate) fn check_ids(&mut self) {
        self.retry_stacks();
        if self.redefined.stacks {
            self.checked.depths.clear();
            self.checked.frames = 0;
        }
        self.check_stacks();
        let mut defined =
            Defined { stacks: &self.stacks, labels: &self.labels, texts: &self.texts, unknown: 0 };
        let checked = &mut self.checked;
        for (at, before) in std::mem::take(&mut checked.unresolved_allocations) {
            let left = defined.check_allocation(&mut self.allocations[at], before.row);
            // The state of stacks depends on the stacks of allocations.
            self.redefined.stacks |= left.is_none_or(|left| left.ids < before.ids);
            checked.unresolved_allocations.extend(left.map(|left| (at, left)));
        }
        for at in checked.allocations..self.allocations.len() {
            let allocation = &mut self.allocations[at];
            let Allocation { stack, op, phase, stream, pool, .. } = *allocation;
            let ids = AllocationIds { stack, op, phase, stream, pool };
            let left = defined.check_allocation(allocation, ids);
            checked.unresolved_allocations.extend(left.map(|left| (at, left)));
        }
        for segment in &mut self.segments[checked.segments..] {
            defined.check_stack(&mut segment.stack);
            defined.check_handle(&mut segment.stream);
            defined.check_handle(&mut segment.pool);
        }
        for oom in &mut self.ooms[checked.ooms..] {
            defined.check_stack(&mut oom.stack);
        }
        for event in &mut self.events[checked.events..] {
            defined.check_subject(&mut event.subject);
            // The last label of an allocation is also in the allocation.
            if let Subject::Label { allocation, label: LabelId(0) } = event.subject {
                self.allocations[allocation.index()].label = LabelId(0);
            }
        }
        self.refused.ids += defined.unknown;
        checked.allocations = self.allocations.len();
        checked.segments = self.segments.len();
        checked.ooms = self.ooms.len();
        checked.events = self.events.len();
    }

    /// Where something that a stack refers to is defined by now, all stacks are checked again.
    fn retry_stacks(&mut self) {
        let is_late = self
            .checked
            .unresolved_stacks
            .values()
            .any(|stack| self.defined_part(stack.row).1 < stack.ids);
        if is_late || self.redefined.stacks {
            for (at, stack) in std::mem::take(&mut self.checked.unresolved_stacks) {
                self.stacks[at] = stack.row;
            }
            self.redefined.stacks = true;
        }
    }

    /// A stack without the ids that are not defined, and how many these are.
    fn defined_part(&self, mut stack: Stack) -> (Stack, u64) {
        let mut unknown = 0;
        if !has_stack(&self.stacks, stack.parent) {
            stack.parent = StackId(0);
            unknown += 1;
        }
        if !has_code(&self.codes, stack.code) {
            stack.code = CodeId(0);
            unknown += 1;
        }
        if !has_module(&self.modules, stack.module) {
            stack.module = ModuleId(0);
            unknown += 1;
        }
        (stack, unknown)
    }

    fn check_stacks(&mut self) {
        let most_frames = MOST_FRAMES.max(u64::from(MOST_FRAMES_EACH) * self.stacks.len() as u64);
        for at in self.checked.depths.len()..self.stacks.len() {
            let row = self.stacks[at];
            let (mut stack, ids) = self.defined_part(row);
            let Checked { depths, frames, unresolved_stacks, .. } = &mut self.checked;
            if ids > 0 {
                unresolved_stacks.insert(at, Unresolved { row, ids });
            }
            // A caller has a lower number than what it calls.
            let mut depth = depths.get(stack.parent.index()).copied().unwrap_or(0) + 1;
            *frames += u64::from(depth);
            let is_too_much = *frames > most_frames;
            let most = if is_too_much { MOST_FRAMES_EACH } else { MAX_STACK_DEPTH };
            if depth > most {
                (stack.parent, depth) = (StackId(0), 1);
                let refused = &mut self.refused;
                *(if is_too_much { &mut refused.stacks_of_many } else { &mut refused.stacks }) += 1;
            }
            depths.push(if at == 0 { 0 } else { depth });
            self.stacks[at] = stack;
        }
    }

    /// The stored device of a row; `None` for an impossible one.
    #[inline]
    pub(crate) fn known_device(&mut self, device: Device) -> Option<Device> {
        let device = device.canonical();
        if self.seen_devices.last() == Some(&device) {
            return Some(device);
        }
        if let Some(at) = self.seen_devices.iter().position(|&seen| seen == device) {
            // The last one is checked first: consecutive rows often have the same device.
            let last = self.seen_devices.len() - 1;
            self.seen_devices.swap(at, last);
            return Some(device);
        }
        if device.kind < 0 || device.index < -1 || self.seen_devices.len() == MAX_DEVICES {
            return None;
        }
        self.seen_devices.push(device);
        Some(device)
    }
}
