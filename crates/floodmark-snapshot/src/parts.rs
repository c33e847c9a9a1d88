//! What a snapshot consists of, as it is found: each dict becomes one small value as soon as it is whole.

use hashbrown::HashMap;

use crate::fields::Fields;
use crate::tape::{Action, Circumstances, Entry, Tape};
use crate::tree::{Frame, Tree};
use crate::value::{ListOf, Range, Value};
use crate::version::Facts;
use crate::words::{self, Word, Words};

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
            allocator_conf: words::EMPTY,
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
        if fields.has(words::FILENAME) {
            self.frame(fields)
        } else if fields.has(words::TOTAL_SIZE) {
            self.segment(fields)
        } else if fields.has(words::STATE) {
            self.block(fields)
        } else if fields.has(words::STAGE) {
            self.annotation(fields)
        } else if fields.has(words::REAL_SIZE) {
            self.histories.push((fields.number(words::REAL_SIZE), fields.stack()));
            Value::History(last_index(&self.histories))
        } else if fields.has(words::SEGMENTS) || fields.has(words::DEVICE_TRACES) {
            self.snapshot(fields)
        } else if fields.has(words::MAX_SPLIT_SIZE) || fields.has(words::CUDA_ALLOC_CONF) {
            self.settings(fields)
        } else {
            Value::Opaque
        }
    }

    /// Puts an event on the tape and returns its number there. `list` is the list that it is in.
    pub(crate) fn event(&mut self, fields: &Fields, list: u64) -> u32 {
        self.facts.see_event(fields.present());
        let action = match fields.word(words::ACTION) {
            words::ALLOC => Action::Alloc,
            words::FREE_REQUESTED => Action::FreeRequested,
            words::FREE_COMPLETED => Action::FreeCompleted,
            words::SEGMENT_ALLOC => Action::SegmentAlloc,
            words::SEGMENT_FREE => Action::SegmentFree,
            words::SEGMENT_MAP => Action::SegmentMap,
            words::SEGMENT_UNMAP => Action::SegmentUnmap,
            words::OOM => Action::Oom,
            words::ANNOTATE => {
                self.facts.has_annotate = true;
                Action::Annotate
            }
            words::SNAPSHOT => return NOT_ON_TAPE,
            _ => {
                self.facts.unknown_actions += 1;
                return NOT_ON_TAPE;
            }
        };
        let tells_stack = !matches!(action, Action::FreeRequested | Action::FreeCompleted);
        let has_stack = tells_stack && fields.has(words::FRAMES);
        let addr = if action == Action::Oom { words::DEVICE_FREE } else { words::ADDR };
        let entry = Entry {
            action,
            is_completed: false,
            addr: fields.number(addr),
            size: fields.number(words::SIZE),
            time: fields.number(words::TIME_US),
            stack: if has_stack { fields.stack().saturating_add(1) } else { 0 },
            around: Circumstances {
                stream: fields.number(words::STREAM),
                pool: fields.pool(words::POOL_ID).map_or(0, |pool| pool.saturating_add(1)),
                compile: fields.word(words::COMPILE_CONTEXT),
                user: fields.word(words::USER_METADATA),
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
        let line = u32::try_from(fields.number(words::LINE)).unwrap_or(0);
        let (file, name) = (fields.word(words::FILENAME), fields.word(words::NAME));
        Value::Frame(self.tree.frame(Frame { file, name, line }))
    }

    fn block(&mut self, fields: &Fields) -> Value {
        let state = match fields.word(words::STATE) {
            words::ACTIVE_ALLOCATED => State::Allocated,
            words::ACTIVE_PENDING_FREE => State::PendingFree,
            _ => State::Inactive,
        };
        // The newest user of a block comes first.
        let history = fields
            .list(words::HISTORY, ListOf::Histories)
            .and_then(|range| self.histories.get(range.first as usize).copied());
        let size = fields.number(words::SIZE);
        let (requested, stack) = history.unwrap_or_else(|| {
            let known = fields.has(words::REQUESTED_SIZE);
            (if known { fields.number(words::REQUESTED_SIZE) } else { size }, fields.stack())
        });
        let requested = requested.min(size);
        self.blocks.push(Block {
            addr: fields.number(words::ADDRESS),
            size,
            requested,
            state,
            stack,
        });
        Value::Block(last_index(&self.blocks))
    }

    fn segment(&mut self, fields: &Fields) -> Value {
        self.facts.see_segment(fields.present());
        let blocks = fields.list(words::BLOCKS, ListOf::Blocks).unwrap_or_default();
        let addr = fields.number(words::ADDRESS);
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
            bytes: fields.number(words::TOTAL_SIZE),
            stream: fields.number(words::STREAM),
            pool: fields.pool(words::SEGMENT_POOL_ID),
            stack: fields.stack(),
            blocks,
        });
        Value::Segment(last_index(&self.segments))
    }

    fn annotation(&mut self, fields: &Fields) -> Value {
        let is_start = fields.word(words::STAGE) == words::START;
        let (name, time) = (fields.word(words::NAME), fields.number(words::TIME_US));
        self.annotations.push(Annotation { name, is_start, time });
        Value::Annotation(last_index(&self.annotations))
    }

    fn settings(&mut self, fields: &Fields) -> Value {
        self.facts.see_settings(fields.present());
        self.allocator_conf = match fields.word(words::CUDA_ALLOC_CONF) {
            words::EMPTY => fields.word(words::ALLOC_CONF),
            conf => conf,
        };
        Value::Settings
    }

    fn snapshot(&mut self, fields: &Fields) -> Value {
        self.facts.see_top(fields.present());
        let traces = fields.list(words::DEVICE_TRACES, ListOf::Traces);
        let host = [words::HOST_SEGMENTS, words::HOST_TRACES];
        self.top = Top {
            segments: fields
                .has(words::SEGMENTS)
                .then(|| fields.list(words::SEGMENTS, ListOf::Segments).unwrap_or_default()),
            traces: traces.map(|range| range.first),
            annotations: fields
                .list(words::EXTERNAL_ANNOTATIONS, ListOf::Annotations)
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
