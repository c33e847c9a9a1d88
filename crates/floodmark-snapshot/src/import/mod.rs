//! From the contents of a snapshot to a trace.

mod annotations;
mod initial_blocks;
mod stack_rows;
mod text_rows;

use std::collections::BTreeMap;

use floodmark_trace::journal::{FLAG_BACKWARD, FLAG_DEFERRED};
use floodmark_trace::{
    AllocationId, Batch, Bytes, Category, Device, Ending, EventKind, Header, LabelRow, Loss,
    Micros, Row, TextKind, Total, Trace, TraceBuilder,
};
use hashbrown::HashMap;

use crate::contents::snapshot::{Annotation, Block, BlockState, Segment, SnapshotContents};
use crate::contents::strings::Strings;
use crate::contents::trace_entries::{Action, EntryCursor, TraceEntries, TraceEntry};
use crate::contents::value::{IndexRange, ListOf, Value};
use crate::error::SnapshotError;
use crate::format::known_strings::{self as known};
use crate::import::annotations::Annotations;
use crate::import::initial_blocks::{FinalMemory, InitialMemory, find_initial_memory, rounded};
use crate::import::stack_rows::derive;
use crate::import::text_rows::TextRows;

/// Builds a trace from the contents of a pickle.
pub(crate) fn import(value: Value, mut contents: SnapshotContents) -> Result<Trace, SnapshotError> {
    let (segments, traces) = match value {
        Value::Snapshot => {
            let traces =
                contents.snapshot.traces.and_then(|at| contents.traces.get(at as usize)).cloned();
            (contents.snapshot.segments, traces.unwrap_or_default())
        }
        Value::List(ListOf::Segments, range) => (Some(range), Vec::new()),
        Value::Stack(0) => return Err(SnapshotError::NotASnapshot { found: "an empty list" }),
        Value::Opaque
        | Value::Int(_)
        | Value::String(_)
        | Value::Pool(_)
        | Value::Frame(_)
        | Value::Stack(_)
        | Value::Event(_)
        | Value::Block(_)
        | Value::Segment(_)
        | Value::Annotation(_)
        | Value::History(_)
        | Value::List(..)
        | Value::Settings
        | Value::OpenDict(_)
        | Value::OpenList(_) => {
            return Err(SnapshotError::NotASnapshot { found: "something else" });
        }
    };
    let losses = losses(value, segments, &contents);
    let mut devices = devices(&mut contents, segments.unwrap_or_default(), &traces);
    let derived = derive(&contents.call_tree, &contents.strings);
    let mut texts = TextRows::default();
    for device in &devices {
        device.initial.streams.iter().for_each(|&stream| texts.add_stream(stream));
    }
    texts.add_pools(&contents.pools);
    let mut builder = TraceBuilder::new(header(&contents));
    let annotations = annotations(&contents);
    let sum = |count: fn(&DeviceHistory) -> usize| devices.iter().map(count).sum::<usize>();
    let from_before = sum(|device| device.initial.blocks.len() + device.initial.segments.len() + 1);
    let allocations = sum(|device| device.initial.allocations + device.initial.blocks.len());
    builder.reserve(contents.entries.len() + annotations.len() + from_before, allocations);
    builder.define(derived.batch);
    // What follows needs no frames any more.
    let SnapshotContents { strings, entries, call_tree, blocks, seen_keys, .. } = contents;
    let has_frames = call_tree.nodes.len() > 1;
    drop(call_tree);
    let mut import = TraceImport {
        builder,
        texts,
        strings: &strings,
        is_backward: derived.is_backward,
        has_frames,
        annotations: Annotations::new(&annotations),
        labels: Vec::new(),
        clock: Clock { first: seen_keys.first_time, has_times: seen_keys.has_times(), now: 0 },
    };
    import.add_initial_blocks(&mut devices);
    import.add_history(entries, &mut devices);
    Ok(import.finish(&devices, &blocks, losses))
}

/// What is known of one device, and where its history is.
#[derive(Debug)]
struct DeviceHistory {
    device: Device,
    /// In the order of their addresses.
    segments: Vec<Segment>,
    has_pools: bool,
    cursor: Option<EntryCursor>,
    initial: InitialMemory,
    next: Option<TraceEntry>,
    live: HashMap<u64, AllocationId>,
    pending: HashMap<u64, AllocationId>,
    reserved: u64,
}

fn devices(
    contents: &mut SnapshotContents,
    segments: IndexRange,
    traces: &[IndexRange],
) -> Vec<DeviceHistory> {
    let mut by_device: BTreeMap<i8, (Vec<Segment>, IndexRange)> = BTreeMap::new();
    for segment in slice(&contents.segments, segments) {
        by_device.entry(segment.device).or_default().0.push(*segment);
    }
    for (device, &events) in (0..=i8::MAX).zip(traces) {
        if events != IndexRange::default() {
            by_device.entry(device).or_default().1 = events;
        }
    }
    let (entries, blocks) = (&mut contents.entries, &contents.blocks);
    let default_pool = contents.pools.iter().position(|&pool| pool == (0, 0));
    by_device
        .into_iter()
        .map(|(device, (mut segments, events))| {
            segments.sort_by_key(|segment| segment.addr);
            let cursor = entries.cursor(events.first..events.end);
            let initial = find_initial_memory(
                entries,
                cursor.clone(),
                FinalMemory { segments: &segments, blocks },
            );
            let is_other = |segment: &Segment| {
                segment.pool.is_some_and(|pool| Some(pool as usize) != default_pool)
            };
            DeviceHistory {
                device: Device::cuda(device),
                has_pools: segments.iter().any(is_other),
                segments,
                cursor,
                initial,
                next: None,
                live: HashMap::new(),
                pending: HashMap::new(),
                reserved: 0,
            }
        })
        .collect()
}

fn slice<T>(all: &[T], range: IndexRange) -> &[T] {
    all.get(range.first as usize..range.end as usize).unwrap_or_default()
}

fn annotations(contents: &SnapshotContents) -> Vec<Annotation> {
    slice(&contents.annotations, contents.snapshot.annotations).to_vec()
}

fn header(contents: &SnapshotContents) -> Header {
    let mut recorded = vec!["segments".to_owned()];
    if contents.call_tree.nodes.len() > 1 {
        recorded.insert(0, "stacks".to_owned());
    }
    Header {
        started_unix_micros: contents.seen_keys.first_time,
        torch: contents.seen_keys.torch(),
        allocator_backend: "native".to_owned(),
        allocator_conf: contents.strings.get(contents.allocator_conf).to_owned(),
        recorded,
        has_initial_blocks: true,
        ..Header::default()
    }
}

/// What a snapshot does not have, one sentence each.
fn losses(value: Value, segments: Option<IndexRange>, contents: &SnapshotContents) -> Vec<Loss> {
    let seen_keys = &contents.seen_keys;
    let has_history = contents.entries.len() > 0;
    let mut losses = Vec::new();
    let mut say_as = |loss: fn(String) -> Loss, is_so: bool, what: &str| {
        if is_so {
            losses.push(loss(what.to_owned()));
        }
    };
    let mut say = |is_so: bool, what: &str| say_as(Loss::NotRecorded, is_so, what);
    let is_list = value != Value::Snapshot;
    say(
        is_list || !has_history,
        "the snapshot has no history, only the memory at the time it was taken: call \
         `torch.cuda.memory._record_memory_history()` first, then `torch.cuda.memory._dump_snapshot(path)`",
    );
    say(
        segments.is_none(),
        "the snapshot has no segments: what was live initial its history is unknown",
    );
    say(
        has_history && !seen_keys.has_frames(),
        "the snapshot has no stacks: `_record_memory_history(context=\"all\")` records them",
    );
    say_as(
        Loss::Derived,
        seen_keys.has_frames(),
        "categories, modules, phases and backward are derived from stack frames: a snapshot does not record them",
    );
    let mut say = |is_so: bool, what: &str| say_as(Loss::NotRecorded, is_so, what);
    say(
        has_history && !seen_keys.has_times(),
        "the snapshot has no times, which torch writes since 2.2: one microsecond stands for one event",
    );
    say(contents.snapshot.has_host_memory, "the pinned host memory of the snapshot is left out");
    if seen_keys.unknown_actions > 0 {
        let what = format!("{} events are of kinds that are not known", seen_keys.unknown_actions);
        losses.push(Loss::NotRecorded(what));
    }
    if contents.out_of_place > 0 {
        let what =
            format!("{} values of the pickle are not where torch puts them", contents.out_of_place);
        losses.push(Loss::NotRecorded(what));
    }
    losses
}

/// Times since the first event, never backwards.
#[derive(Debug)]
struct Clock {
    first: u64,
    has_times: bool,
    now: u64,
}

impl Clock {
    fn time_of(&mut self, unix_micros: u64) -> Micros {
        self.now = if self.has_times {
            self.now.max(unix_micros.saturating_sub(self.first))
        } else {
            self.now + 1
        };
        Micros(self.now)
    }
}

/// A trace that is being made.
struct TraceImport<'a> {
    builder: TraceBuilder,
    texts: TextRows,
    strings: &'a Strings,
    /// Per stack: whether it ran in the backward pass.
    is_backward: Vec<bool>,
    /// Whether some stack has frames: without, an empty one says nothing.
    has_frames: bool,
    annotations: Annotations,
    labels: Vec<LabelRow>,
    clock: Clock,
}

impl TraceImport<'_> {
    fn add_initial_blocks(&mut self, devices: &mut [DeviceHistory]) {
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

    /// Devices and annotations are added in the order of their times.
    fn add_history(&mut self, mut entries: TraceEntries, devices: &mut [DeviceHistory]) {
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
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap => self.add_segment(history, entry, row),
            Action::Oom => {
                row.kind = EventKind::Oom;
                (row.addr, row.bytes) = (entry.addr, entry.size);
                self.builder.push(&row);
            }
            Action::Annotate => self.add_label(history, entry, row),
        }
    }

    /// Threads of autograd have no Python frames, so their events have an empty stack.
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
                self.texts.word(TextKind::Phase, entry.repeated.user_metadata, self.strings);
        }
        if !matches!(entry.repeated.compile_context, known::EMPTY | known::NOT_COMPILED) {
            row.op = self.texts.word(TextKind::Op, entry.repeated.compile_context, self.strings);
        }
        if let Some(stale) = history.live.remove(&entry.addr) {
            // The address is allocated again, so it had been freed without an event.
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

    fn add_segment(&mut self, history: &mut DeviceHistory, entry: &TraceEntry, mut row: Row) {
        let reserved = history.reserved;
        (row.kind, history.reserved) = match entry.action {
            Action::SegmentAlloc => (EventKind::SegmentAlloc, reserved.saturating_add(entry.size)),
            Action::SegmentMap => (EventKind::SegmentMap, reserved.saturating_add(entry.size)),
            Action::SegmentUnmap => (EventKind::SegmentUnmap, reserved.saturating_sub(entry.size)),
            Action::SegmentFree => (EventKind::SegmentFree, reserved.saturating_sub(entry.size)),
            // Not events of segments.
            Action::Alloc
            | Action::FreeRequested
            | Action::FreeCompleted
            | Action::Oom
            | Action::Annotate => return,
        };
        (row.addr, row.bytes) = (entry.addr, entry.size);
        row.pool = self.texts.pool(history.pool_of(entry));
        if entry.action == Action::SegmentFree {
            history.note_given_back(entry);
        }
        self.builder.push(&row);
        self.add_reserved(history, row.time);
    }

    /// `torch.cuda.memory._annotate_tensor`: a name for what is in a block.
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

    fn finish(mut self, devices: &[DeviceHistory], blocks: &[Block], losses: Vec<Loss>) -> Trace {
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

impl DeviceHistory {
    /// Takes the next event, and reads the one after it.
    fn advance(&mut self, entries: &mut TraceEntries) -> Option<TraceEntry> {
        let next = self.cursor.as_mut().and_then(|cursor| entries.next(cursor, true));
        std::mem::replace(&mut self.next, next)
    }

    /// The pool of an event. InitialMemory torch 2.12 only the segments at the end have it; those that lay at the
    /// same addresses earlier may have belonged to another.
    fn pool_of(&self, entry: &TraceEntry) -> Option<u32> {
        entry.repeated.pool.checked_sub(1).or_else(|| {
            if !self.has_pools {
                return None;
            }
            let segment = self.segment_of(entry)?;
            let is_it = !self.initial.earlier.contains_key(&segment.addr);
            segment.pool.filter(|_| is_it)
        })
    }

    /// The segment at the end that has the address of an event.
    fn segment_of(&self, entry: &TraceEntry) -> Option<&Segment> {
        FinalMemory { segments: &self.segments, blocks: &[] }.segment_of(entry.addr)
    }

    /// A segment went back: the next one at its addresses may be the last.
    fn note_given_back(&mut self, entry: &TraceEntry) {
        let Some(addr) = self.segment_of(entry).map(|segment| segment.addr) else { return };
        if let Some(left) = self.initial.earlier.get_mut(&addr) {
            *left -= 1;
            if *left == 0 {
                self.initial.earlier.remove(&addr);
            }
        }
    }

    fn total(&self, blocks: &[Block]) -> Total {
        let end = FinalMemory { segments: &self.segments, blocks };
        let all = self.segments.iter().flat_map(|segment| end.blocks_of(segment));
        let allocated = all.filter(|block| block.state == BlockState::Allocated);
        Total {
            device: self.device,
            allocated: allocated.map(|block| Bytes(block.size)).sum(),
            reserved: self.segments.iter().map(|segment| Bytes(segment.bytes)).sum(),
        }
    }
}
