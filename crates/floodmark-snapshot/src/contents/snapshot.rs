//! What a snapshot consists of, as it is found: each dict becomes one small value as soon as it is whole.

use hashbrown::HashMap;

use crate::contents::call_tree::{Frame, Tree};
use crate::contents::dict_items::Fields;
use crate::contents::trace_entries::{Action, Circumstances, Entry, Tape};
use crate::contents::value::{ListOf, Range, Value};
use crate::format::strings::{self, Word, Words};
use crate::format::torch_version::Facts;

/// The number of an event that says nothing of memory.
pub(crate) const NOT_ON_TAPE: u32 = u32::MAX;

/// What a block was doing when the snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Allocated,
    PendingFree,
    Inactive,
}

/// A part of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// 0 in torch 2.0, where blocks only follow each other.
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) state: State,
    pub(crate) stack: u32,
}

/// Memory that torch has from the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) device: i8,
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u64,
    pub(crate) pool: Option<u32>,
    pub(crate) stack: u32,
    pub(crate) blocks: Range,
}

/// A stretch of the program that has a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Annotation {
    pub(crate) name: Word,
    pub(crate) is_start: bool,
    pub(crate) time: u64,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) words: Words,
    pub(crate) tree: Tree,
    pub(crate) tape: Tape,
    pub(crate) pools: Vec<(i64, i64)>,
    by_pool: HashMap<(i64, i64), u32>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) annotations: Vec<Annotation>,
    /// Requested size and stack: how torch 2.0 describes the allocation in a block.
    histories: Vec<(u64, u32)>,
    /// Lists of lists of events.
    pub(crate) traces: Vec<Vec<Range>>,
    pub(crate) allocator_conf: Word,
    pub(crate) facts: Facts,
    pub(crate) top: Top,
    /// Things in lists where torch puts others.
    pub(crate) out_of_place: u64,
}

/// The outermost dict.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Top {
    pub(crate) segments: Option<Range>,
    /// Index into [`Parts::traces`].
    pub(crate) traces: Option<u32>,
    pub(crate) annotations: Range,
    pub(crate) has_host_memory: bool,
}

impl Parts {
    pub(crate) fn new() -> Self {
        Self {
            words: Words::new(),
            tree: Tree::new(),
            tape: Tape::default(),
            pools: Vec::new(),
            by_pool: HashMap::new(),
            blocks: Vec::new(),
            segments: Vec::new(),
            annotations: Vec::new(),
            histories: Vec::new(),
            traces: Vec::new(),
            allocator_conf: strings::EMPTY,
            facts: Facts::default(),
            top: Top::default(),
            out_of_place: 0,
        }
    }

    pub(crate) fn pool(&mut self, pair: (i64, i64)) -> Value {
        Value::Pool(*self.by_pool.entry(pair).or_insert_with(|| {
            self.pools.push(pair);
            u32::try_from(self.pools.len() - 1).unwrap_or(0)
        }))
    }

    /// The kind of a dict that is no event, found by the keys that only one kind has.
    pub(crate) fn recognise(&mut self, fields: &Fields) -> Value {
        if fields.has(strings::FILENAME) {
            self.frame(fields)
        } else if fields.has(strings::TOTAL_SIZE) {
            self.segment(fields)
        } else if fields.has(strings::STATE) {
            self.block(fields)
        } else if fields.has(strings::STAGE) {
            self.annotation(fields)
        } else if fields.has(strings::REAL_SIZE) {
            self.histories.push((fields.number(strings::REAL_SIZE), fields.stack()));
            Value::History(last_index(&self.histories))
        } else if fields.has(strings::SEGMENTS) || fields.has(strings::DEVICE_TRACES) {
            self.snapshot(fields)
        } else if fields.has(strings::MAX_SPLIT_SIZE) || fields.has(strings::CUDA_ALLOC_CONF) {
            self.settings(fields)
        } else {
            Value::Opaque
        }
    }

    /// Puts an event on the tape and returns its number there. `list` is the list that it is in.
    pub(crate) fn event(&mut self, fields: &Fields, list: u64) -> u32 {
        self.facts.see_event(fields.present());
        let action = match fields.word(strings::ACTION) {
            strings::ALLOC => Action::Alloc,
            strings::FREE_REQUESTED => Action::FreeRequested,
            strings::FREE_COMPLETED => Action::FreeCompleted,
            strings::SEGMENT_ALLOC => Action::SegmentAlloc,
            strings::SEGMENT_FREE => Action::SegmentFree,
            strings::SEGMENT_MAP => Action::SegmentMap,
            strings::SEGMENT_UNMAP => Action::SegmentUnmap,
            strings::OOM => Action::Oom,
            strings::ANNOTATE => {
                self.facts.has_annotate = true;
                Action::Annotate
            }
            strings::SNAPSHOT => return NOT_ON_TAPE,
            _ => {
                self.facts.unknown_actions += 1;
                return NOT_ON_TAPE;
            }
        };
        let tells_stack = !matches!(action, Action::FreeRequested | Action::FreeCompleted);
        let has_stack = tells_stack && fields.has(strings::FRAMES);
        let addr = if action == Action::Oom { strings::DEVICE_FREE } else { strings::ADDR };
        let entry = Entry {
            action,
            is_completed: false,
            addr: fields.number(addr),
            size: fields.number(strings::SIZE),
            time: fields.number(strings::TIME_US),
            stack: if has_stack { fields.stack().saturating_add(1) } else { 0 },
            around: Circumstances {
                stream: fields.number(strings::STREAM),
                pool: fields.pool(strings::POOL_ID).map_or(0, |pool| pool.saturating_add(1)),
                compile: fields.word(strings::COMPILE_CONTEXT),
                user: fields.word(strings::USER_METADATA),
            },
        };
        self.facts.first_time = match (self.facts.first_time, entry.time) {
            (first, 0) => first,
            (0, time) => time,
            (first, time) => first.min(time),
        };
        self.tape.push(list, &entry)
    }

    fn frame(&mut self, fields: &Fields) -> Value {
        let line = u32::try_from(fields.number(strings::LINE)).unwrap_or(0);
        let (file, name) = (fields.word(strings::FILENAME), fields.word(strings::NAME));
        Value::Frame(self.tree.frame(Frame { file, name, line }))
    }

    fn block(&mut self, fields: &Fields) -> Value {
        let state = match fields.word(strings::STATE) {
            strings::ACTIVE_ALLOCATED => State::Allocated,
            strings::ACTIVE_PENDING_FREE => State::PendingFree,
            _ => State::Inactive,
        };
        // The newest user of a block comes first.
        let history = fields
            .list(strings::HISTORY, ListOf::Histories)
            .and_then(|range| self.histories.get(range.first as usize).copied());
        let size = fields.number(strings::SIZE);
        let (requested, stack) = history.unwrap_or_else(|| {
            let known = fields.has(strings::REQUESTED_SIZE);
            (if known { fields.number(strings::REQUESTED_SIZE) } else { size }, fields.stack())
        });
        let requested = requested.min(size);
        self.blocks.push(Block {
            addr: fields.number(strings::ADDRESS),
            size,
            requested,
            state,
            stack,
        });
        Value::Block(last_index(&self.blocks))
    }

    fn segment(&mut self, fields: &Fields) -> Value {
        self.facts.see_segment(fields.present());
        let blocks = fields.list(strings::BLOCKS, ListOf::Blocks).unwrap_or_default();
        let addr = fields.number(strings::ADDRESS);
        let mut next = addr;
        let inside = self.blocks.get_mut(blocks.first as usize..blocks.end as usize);
        for block in inside.unwrap_or_default() {
            if block.addr == 0 {
                block.addr = next;
            }
            next = block.addr.saturating_add(block.size);
        }
        // A list of segments counts what is none.
        let Some(device) = fields.device() else { return Value::Opaque };
        self.segments.push(Segment {
            device,
            addr,
            bytes: fields.number(strings::TOTAL_SIZE),
            stream: fields.number(strings::STREAM),
            pool: fields.pool(strings::SEGMENT_POOL_ID),
            stack: fields.stack(),
            blocks,
        });
        Value::Segment(last_index(&self.segments))
    }

    fn annotation(&mut self, fields: &Fields) -> Value {
        let is_start = fields.word(strings::STAGE) == strings::START;
        let (name, time) = (fields.word(strings::NAME), fields.number(strings::TIME_US));
        self.annotations.push(Annotation { name, is_start, time });
        Value::Annotation(last_index(&self.annotations))
    }

    fn settings(&mut self, fields: &Fields) -> Value {
        self.facts.see_settings(fields.present());
        self.allocator_conf = match fields.word(strings::CUDA_ALLOC_CONF) {
            strings::EMPTY => fields.word(strings::ALLOC_CONF),
            conf => conf,
        };
        Value::Settings
    }

    fn snapshot(&mut self, fields: &Fields) -> Value {
        self.facts.see_top(fields.present());
        let traces = fields.list(strings::DEVICE_TRACES, ListOf::Traces);
        let host = [strings::HOST_SEGMENTS, strings::HOST_TRACES];
        self.top = Top {
            segments: fields
                .has(strings::SEGMENTS)
                .then(|| fields.list(strings::SEGMENTS, ListOf::Segments).unwrap_or_default()),
            traces: traces.map(|range| range.first),
            annotations: fields
                .list(strings::EXTERNAL_ANNOTATIONS, ListOf::Annotations)
                .unwrap_or_default(),
            has_host_memory: host.iter().any(|&key| fields.is_filled(key)),
        };
        Value::Snapshot
    }
}

/// The index of the last element, which must exist.
fn last_index<T>(list: &[T]) -> u32 {
    u32::try_from(list.len().saturating_sub(1)).unwrap_or(u32::MAX)
}
