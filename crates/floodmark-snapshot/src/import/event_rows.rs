//! Adds the events of a snapshot to a trace, in the order of their times.

use floodmark_trace::journal::{FLAG_BACKWARD, FLAG_DEFERRED};
use floodmark_trace::{
    Batch, Bytes, Category, Ending, EventKind, LabelRow, Loss, Micros, Row, TextKind, Trace,
    TraceBuilder,
};

use super::annotations::Annotations;
use super::device_history::DeviceHistory;
use super::initial_blocks::{FinalMemory, rounded};
use super::text_rows::TextRows;
use crate::contents::snapshot::{Block, BlockState};
use crate::contents::strings::Strings;
use crate::contents::trace_entries::{Action, TraceEntries, TraceEntry};
use crate::format::known_strings as known;

/// Times since the first event. A time never decreases.
#[derive(Debug)]
pub(super) struct Clock {
    first: u64,
    has_times: bool,
    now: u64,
}

impl Clock {
    pub(super) fn new(first: u64, has_times: bool) -> Self {
        Self { first, has_times, now: 0 }
    }

    fn time_of(&mut self, unix_micros: u64) -> Micros {
        self.now = if self.has_times {
            self.now.max(unix_micros.saturating_sub(self.first))
        } else {
            self.now + 1
        };
        Micros(self.now)
    }
}

/// Builds the trace.
pub(super) struct TraceImport<'a> {
    pub(super) builder: TraceBuilder,
    pub(super) texts: TextRows,
    pub(super) strings: &'a Strings,
    /// For each stack: whether it ran in the backward pass.
    pub(super) is_backward: Vec<bool>,
    /// Whether any stack has frames. Without frames, an empty stack does not mean the backward pass.
    pub(super) has_frames: bool,
    pub(super) annotations: Annotations,
    pub(super) labels: Vec<LabelRow>,
    pub(super) clock: Clock,
}

impl TraceImport<'_> {
    /// Adds the segments and blocks from before the history.
    pub(super) fn add_initial_blocks(&mut self, devices: &mut [DeviceHistory]) {
        for history in devices.iter_mut() {
            for (addr, bytes, segment) in history.initial.segments.iter() {
                let mut row = Row::new(EventKind::InitialSegment, history.device, 0, Micros(0));
                (row.addr, row.bytes, row.stack) = (addr, bytes, segment.stack);
                row.stream = self.texts.stream(segment.stream);
                row.pool = self.texts.pool(segment.pool);
                self.builder.push(&row);
                history.reserved = history.reserved.saturating_add(bytes);
            }
            if history.reserved > 0 {
                self.add_reserved(history, Micros(0));
            }
            for block in std::mem::take(&mut history.initial.blocks) {
                let mut row = Row::new(EventKind::InitialBlock, history.device, 0, Micros(0));
                (row.addr, row.bytes, row.stack) = (block.addr, block.bytes, block.stack);
                row.slack = block.bytes.saturating_sub(block.requested);
                row.stream = self.texts.stream(block.stream);
                row.pool = self.texts.pool(block.pool);
                if let Some(id) = self.builder.push(&row) {
                    history.live.insert(block.addr, id);
                }
            }
        }
    }

    fn add_reserved(&mut self, history: &DeviceHistory, time: Micros) {
        let mut row = Row::new(EventKind::Reserved, history.device, 0, time);
        row.bytes = history.reserved;
        self.builder.push(&row);
    }

    /// Adds the events of all devices and the annotations, in the order of their times.
    pub(super) fn add_history(&mut self, mut entries: TraceEntries, devices: &mut [DeviceHistory]) {
        for history in devices.iter_mut() {
            history.advance(&mut entries);
        }
        loop {
            let next = devices
                .iter_mut()
                .filter_map(|history| history.next.map(|entry| (entry.time, history)))
                .min_by_key(|&(time, _)| time);
            let due = next.as_ref().map(|&(time, _)| time);
            while let Some((time, mut row)) =
                self.annotations.next_before(due, self.strings, &mut self.texts)
            {
                row.time = self.clock.time_of(time);
                self.builder.push(&row);
            }
            let Some((_, history)) = next else { return };
            let Some(entry) = history.advance(&mut entries) else { return };
            self.add_entry(history, &entry);
        }
    }

    fn add_entry(&mut self, history: &mut DeviceHistory, entry: &TraceEntry) {
        let time = self.clock.time_of(entry.time);
        let mut row = Row::new(EventKind::Alloc, history.device, 0, time);
        row.stream = self.texts.stream(entry.repeated.stream);
        row.stack = entry.stack.saturating_sub(1);
        row.flags = if self.is_backward(entry.stack) { FLAG_BACKWARD } else { 0 };
        match entry.action {
            Action::Alloc => self.add_alloc(history, entry, row),
            Action::FreeRequested => self.add_free(history, entry, row),
            Action::FreeCompleted => {
                if let Some(allocation) = history.pending.remove(&entry.addr) {
                    row.kind = EventKind::FreeCompleted;
                    (row.allocation, row.stack, row.flags) = (allocation, 0, 0);
                    self.builder.push(&row);
                }
            }
            Action::SegmentAlloc => self.add_segment(history, entry, row, EventKind::SegmentAlloc),
            Action::SegmentFree => self.add_segment(history, entry, row, EventKind::SegmentFree),
            Action::SegmentMap => self.add_segment(history, entry, row, EventKind::SegmentMap),
            Action::SegmentUnmap => self.add_segment(history, entry, row, EventKind::SegmentUnmap),
            Action::Oom => {
                row.kind = EventKind::Oom;
                (row.addr, row.bytes) = (entry.addr, entry.size);
                self.builder.push(&row);
            }
            Action::Annotate => self.add_label(history, entry, row),
        }
    }

    /// Whether a stack ran in the backward pass. Events of autograd's threads have an empty stack: they have no Python frames.
    fn is_backward(&self, stack: u32) -> bool {
        match stack {
            0 => false,
            1 => self.has_frames,
            node => self.is_backward.get(node as usize - 1).copied().unwrap_or(false),
        }
    }

    fn add_alloc(&mut self, history: &mut DeviceHistory, entry: &TraceEntry, mut row: Row) {
        (row.addr, row.bytes) = (entry.addr, rounded(entry.size));
        row.slack = row.bytes - entry.size;
        row.pool = self.texts.pool(history.pool_of(entry));
        row.phase = self.annotations.phase;
        if row.phase == 0 && entry.repeated.user_metadata != known::EMPTY {
            row.phase =
                self.texts.string(TextKind::Phase, entry.repeated.user_metadata, self.strings);
        }
        if !matches!(entry.repeated.compile_context, known::EMPTY | known::NOT_COMPILED) {
            row.op = self.texts.string(TextKind::Op, entry.repeated.compile_context, self.strings);
        }
        if let Some(stale) = history.live.remove(&entry.addr) {
            // The address is allocated again: the free of the block before has no event.
            let mut free = Row::new(EventKind::Free, history.device, 0, row.time);
            free.allocation = stale;
            self.builder.push(&free);
        }
        if let Some(id) = self.builder.push(&row) {
            history.live.insert(entry.addr, id);
        }
    }

    fn add_free(&mut self, history: &mut DeviceHistory, entry: &TraceEntry, mut row: Row) {
        (row.stack, row.flags) = (0, if entry.is_completed { 0 } else { FLAG_DEFERRED });
        if let Some(allocation) = history.live.remove(&entry.addr) {
            (row.kind, row.allocation) = (EventKind::Free, allocation);
            if !entry.is_completed {
                history.pending.insert(entry.addr, allocation);
            }
        } else {
            row.kind = EventKind::FreeUnknown;
            (row.addr, row.bytes) = (entry.addr, rounded(entry.size));
        }
        self.builder.push(&row);
    }

    fn add_segment(
        &mut self,
        history: &mut DeviceHistory,
        entry: &TraceEntry,
        mut row: Row,
        kind: EventKind,
    ) {
        row.kind = kind;
        history.reserved = if matches!(kind, EventKind::SegmentAlloc | EventKind::SegmentMap) {
            history.reserved.saturating_add(entry.size)
        } else {
            history.reserved.saturating_sub(entry.size)
        };
        (row.addr, row.bytes) = (entry.addr, entry.size);
        row.pool = self.texts.pool(history.pool_of(entry));
        if entry.action == Action::SegmentFree {
            history.count_freed_segment(entry);
        }
        self.builder.push(&row);
        self.add_reserved(history, row.time);
    }

    /// Adds a label of `torch.cuda.memory._annotate_tensor` to the allocation in a block.
    fn add_label(&mut self, history: &DeviceHistory, entry: &TraceEntry, mut row: Row) {
        let Some(&allocation) = history.live.get(&entry.addr) else { return };
        if entry.repeated.user_metadata == known::EMPTY {
            return;
        }
        let id = u32::try_from(self.labels.len() + 1).unwrap_or(0);
        self.labels.push(LabelRow {
            id,
            category: Category::Unknown,
            name: self.strings.get(entry.repeated.user_metadata).to_owned(),
            shape: String::new(),
            dtype: String::new(),
        });
        row.kind = EventKind::Label;
        (row.stack, row.allocation, row.flags, row.stream) = (id, allocation, 0, 0);
        self.builder.push(&row);
    }

    /// Adds the texts, the labels and the totals.
    pub(super) fn finish(
        mut self,
        devices: &[DeviceHistory],
        blocks: &[Block],
        losses: Vec<Loss>,
    ) -> Trace {
        let (texts, labels) = (self.texts.rows, self.labels);
        self.builder.define(Batch { texts, labels, ..Batch::default() });
        let totals = devices.iter().map(|history| history.total(blocks)).collect();
        let ending = Ending { reason: String::new(), at_micros: self.clock.now };
        for history in devices {
            let end = FinalMemory { segments: &history.segments, blocks };
            for block in history.segments.iter().flat_map(|segment| end.blocks_of(segment)) {
                let owner = match block.state {
                    BlockState::Allocated => history.live.get(&block.addr),
                    BlockState::PendingFree => history.pending.get(&block.addr),
                    BlockState::Inactive => None,
                };
                if let Some(&owner) = owner {
                    self.builder.set_block_bytes(owner, Bytes(block.size));
                }
            }
        }
        self.builder.finish(totals, ending, losses)
    }
}
