//! From the parts of a snapshot to a trace.

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

use crate::contents::snapshot::{Annotation, Block, Parts, Segment, State};
use crate::contents::trace_entries::{Action, Entry, Reel, Tape};
use crate::contents::value::{ListOf, Range, Value};
use crate::error::SnapshotError;
use crate::format::strings::{self, Words};
use crate::import::annotations::Annotations;
use crate::import::initial_blocks::{AtEnd, Before, look_back, rounded};
use crate::import::stack_rows::derive;
use crate::import::text_rows::Texts;

/// Builds a trace from the contents of a pickle.
pub(crate) fn import(value: Value, mut parts: Parts) -> Result<Trace, SnapshotError> {
    let (segments, traces) = match value {
        Value::Snapshot => {
            let traces = parts.top.traces.and_then(|at| parts.traces.get(at as usize)).cloned();
            (parts.top.segments, traces.unwrap_or_default())
        }
        Value::List(ListOf::Segments, range) => (Some(range), Vec::new()),
        Value::Stack(0) => return Err(SnapshotError::NotASnapshot { found: "an empty list" }),
        Value::Opaque
        | Value::Int(_)
        | Value::Word(_)
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
    let losses = losses(value, segments, &parts);
    let mut devices = devices(&mut parts, segments.unwrap_or_default(), &traces);
    let derived = derive(&parts.tree, &parts.words);
    let mut texts = Texts::default();
    for device in &devices {
        device.before.streams.iter().for_each(|&stream| texts.add_stream(stream));
    }
    texts.add_pools(&parts.pools);
    let mut builder = TraceBuilder::new(header(&parts));
    let annotations = annotations(&parts);
    let sum = |count: fn(&DeviceHistory) -> usize| devices.iter().map(count).sum::<usize>();
    let from_before = sum(|device| device.before.blocks.len() + device.before.segments.len() + 1);
    let allocations = sum(|device| device.before.allocations + device.before.blocks.len());
    builder.reserve(parts.tape.len() + annotations.len() + from_before, allocations);
    builder.define(derived.batch);
    // What follows needs no frames any more.
    let Parts { words, tape, tree, blocks, facts, .. } = parts;
    let has_frames = tree.nodes.len() > 1;
    drop(tree);
    let mut import = Import {
        builder,
        texts,
        words: &words,
        is_backward: derived.is_backward,
        has_frames,
        annotations: Annotations::new(&annotations),
        labels: Vec::new(),
        clock: Clock { first: facts.first_time, has_times: facts.has_times(), now: 0 },
    };
    import.add_initial_blocks(&mut devices);
    import.add_history(tape, &mut devices);
    Ok(import.finish(&devices, &blocks, losses))
}

/// What is known of one device, and where its history is.
#[derive(Debug)]
struct DeviceHistory {
    device: Device,
    /// In the order of their addresses.
    segments: Vec<Segment>,
    has_pools: bool,
    reel: Option<Reel>,
    before: Before,
    next: Option<Entry>,
    live: HashMap<u64, AllocationId>,
    pending: HashMap<u64, AllocationId>,
    reserved: u64,
}

fn devices(parts: &mut Parts, segments: Range, traces: &[Range]) -> Vec<DeviceHistory> {
    let mut by_device: BTreeMap<i8, (Vec<Segment>, Range)> = BTreeMap::new();
    for segment in slice(&parts.segments, segments) {
        by_device.entry(segment.device).or_default().0.push(*segment);
    }
    for (device, &events) in (0..=i8::MAX).zip(traces) {
        if events != Range::default() {
            by_device.entry(device).or_default().1 = events;
        }
    }
    let (tape, blocks) = (&mut parts.tape, &parts.blocks);
    let default_pool = parts.pools.iter().position(|&pool| pool == (0, 0));
    by_device
        .into_iter()
        .map(|(device, (mut segments, events))| {
            segments.sort_by_key(|segment| segment.addr);
            let reel = tape.reel(events.first..events.end);
            let before = look_back(tape, reel.clone(), AtEnd { segments: &segments, blocks });
            let is_other = |segment: &Segment| {
                segment.pool.is_some_and(|pool| Some(pool as usize) != default_pool)
            };
            DeviceHistory {
                device: Device::cuda(device),
                has_pools: segments.iter().any(is_other),
                segments,
                reel,
                before,
                next: None,
                live: HashMap::new(),
                pending: HashMap::new(),
                reserved: 0,
            }
        })
        .collect()
}

fn slice<T>(all: &[T], range: Range) -> &[T] {
    all.get(range.first as usize..range.end as usize).unwrap_or_default()
}

fn annotations(parts: &Parts) -> Vec<Annotation> {
    slice(&parts.annotations, parts.top.annotations).to_vec()
}

fn header(parts: &Parts) -> Header {
    let mut recorded = vec!["segments".to_owned()];
    if parts.tree.nodes.len() > 1 {
        recorded.insert(0, "stacks".to_owned());
    }
    Header {
        started_unix_micros: parts.facts.first_time,
        torch: parts.facts.torch(),
        allocator_backend: "native".to_owned(),
        allocator_conf: parts.words.get(parts.allocator_conf).to_owned(),
        recorded,
        has_initial_blocks: true,
        ..Header::default()
    }
}

/// What a snapshot does not have, one sentence each.
fn losses(value: Value, segments: Option<Range>, parts: &Parts) -> Vec<Loss> {
    let facts = &parts.facts;
    let has_history = parts.tape.len() > 0;
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
        "the snapshot has no segments: what was live before its history is unknown",
    );
    say(
        has_history && !facts.has_frames(),
        "the snapshot has no stacks: `_record_memory_history(context=\"all\")` records them",
    );
    say_as(
        Loss::Derived,
        facts.has_frames(),
        "categories, modules, phases and backward are derived from stack frames: a snapshot does not record them",
    );
    let mut say = |is_so: bool, what: &str| say_as(Loss::NotRecorded, is_so, what);
    say(
        has_history && !facts.has_times(),
        "the snapshot has no times, which torch writes since 2.2: one microsecond stands for one event",
    );
    say(parts.top.has_host_memory, "the pinned host memory of the snapshot is left out");
    if facts.unknown_actions > 0 {
        let what = format!("{} events are of kinds that are not known", facts.unknown_actions);
        losses.push(Loss::NotRecorded(what));
    }
    if parts.out_of_place > 0 {
        let what =
            format!("{} values of the pickle are not where torch puts them", parts.out_of_place);
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
struct Import<'a> {
    builder: TraceBuilder,
    texts: Texts,
    words: &'a Words,
    /// Per stack: whether it ran in the backward pass.
    is_backward: Vec<bool>,
    /// Whether some stack has frames: without, an empty one says nothing.
    has_frames: bool,
    annotations: Annotations,
    labels: Vec<LabelRow>,
    clock: Clock,
}

impl Import<'_> {
    fn add_initial_blocks(&mut self, devices: &mut [DeviceHistory]) {
        for history in devices.iter_mut() {
            for (addr, bytes, segment) in history.before.segments.iter() {
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
            for block in std::mem::take(&mut history.before.blocks) {
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
    fn add_history(&mut self, mut tape: Tape, devices: &mut [DeviceHistory]) {
        for history in devices.iter_mut() {
            history.advance(&mut tape);
        }
        loop {
            let next = devices
                .iter_mut()
                .filter_map(|history| history.next.map(|entry| (entry.time, history)))
                .min_by_key(|&(time, _)| time);
            let due = next.as_ref().map(|&(time, _)| time);
            while let Some((time, mut row)) =
                self.annotations.next_before(due, self.words, &mut self.texts)
            {
                row.time = self.clock.time_of(time);
                self.builder.push(&row);
            }
            let Some((_, history)) = next else { return };
            let Some(entry) = history.advance(&mut tape) else { return };
            self.add_entry(history, &entry);
        }
    }

    fn add_entry(&mut self, history: &mut DeviceHistory, entry: &Entry) {
        let time = self.clock.time_of(entry.time);
        let mut row = Row::new(EventKind::Alloc, history.device, 0, time);
        row.stream = self.texts.stream(entry.around.stream);
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

    fn add_alloc(&mut self, history: &mut DeviceHistory, entry: &Entry, mut row: Row) {
        (row.addr, row.bytes) = (entry.addr, rounded(entry.size));
        row.slack = row.bytes - entry.size;
        row.pool = self.texts.pool(history.pool_of(entry));
        row.phase = self.annotations.phase;
        if row.phase == 0 && entry.around.user != strings::EMPTY {
            row.phase = self.texts.word(TextKind::Phase, entry.around.user, self.words);
        }
        if !matches!(entry.around.compile, strings::EMPTY | strings::NOT_COMPILED) {
            row.op = self.texts.word(TextKind::Op, entry.around.compile, self.words);
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

    fn add_free(&mut self, history: &mut DeviceHistory, entry: &Entry, mut row: Row) {
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

    fn add_segment(&mut self, history: &mut DeviceHistory, entry: &Entry, mut row: Row) {
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
    fn add_label(&mut self, history: &DeviceHistory, entry: &Entry, mut row: Row) {
        let Some(&allocation) = history.live.get(&entry.addr) else { return };
        if entry.around.user == strings::EMPTY {
            return;
        }
        let id = u32::try_from(self.labels.len() + 1).unwrap_or(0);
        self.labels.push(LabelRow {
            id,
            category: Category::Unknown,
            name: self.words.get(entry.around.user).to_owned(),
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
            let end = AtEnd { segments: &history.segments, blocks };
            for block in history.segments.iter().flat_map(|segment| end.blocks_of(segment)) {
                let owner = match block.state {
                    State::Allocated => history.live.get(&block.addr),
                    State::PendingFree => history.pending.get(&block.addr),
                    State::Inactive => None,
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
    fn advance(&mut self, tape: &mut Tape) -> Option<Entry> {
        let next = self.reel.as_mut().and_then(|reel| tape.next(reel, true));
        std::mem::replace(&mut self.next, next)
    }

    /// The pool of an event. Before torch 2.12 only the segments at the end have it; those that lay at the
    /// same addresses earlier may have belonged to another.
    fn pool_of(&self, entry: &Entry) -> Option<u32> {
        entry.around.pool.checked_sub(1).or_else(|| {
            if !self.has_pools {
                return None;
            }
            let segment = self.segment_of(entry)?;
            let is_it = !self.before.earlier.contains_key(&segment.addr);
            segment.pool.filter(|_| is_it)
        })
    }

    /// The segment at the end that has the address of an event.
    fn segment_of(&self, entry: &Entry) -> Option<&Segment> {
        AtEnd { segments: &self.segments, blocks: &[] }.segment_of(entry.addr)
    }

    /// A segment went back: the next one at its addresses may be the last.
    fn note_given_back(&mut self, entry: &Entry) {
        let Some(addr) = self.segment_of(entry).map(|segment| segment.addr) else { return };
        if let Some(left) = self.before.earlier.get_mut(&addr) {
            *left -= 1;
            if *left == 0 {
                self.before.earlier.remove(&addr);
            }
        }
    }

    fn total(&self, blocks: &[Block]) -> Total {
        let end = AtEnd { segments: &self.segments, blocks };
        let all = self.segments.iter().flat_map(|segment| end.blocks_of(segment));
        let allocated = all.filter(|block| block.state == State::Allocated);
        Total {
            device: self.device,
            allocated: allocated.map(|block| Bytes(block.size)).sum(),
            reserved: self.segments.iter().map(|segment| Bytes(segment.bytes)).sum(),
        }
    }
}
