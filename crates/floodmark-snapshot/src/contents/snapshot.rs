//! What the unpickler collects from a snapshot: each complete dict becomes one small value.

use hashbrown::HashMap;

use crate::contents::call_tree::{CallTree, Frame};
use crate::contents::dict_items::DictItems;
use crate::contents::strings::Strings;
use crate::contents::trace_entries::{Action, RepeatedFields, TraceEntries, TraceEntry};
use crate::contents::value::{IndexRange, ListOf, Value};
use crate::format::known_strings::{self as known, StringId};
use crate::format::torch_version::SeenKeys;

/// The number of an event that changes no memory and is not stored.
pub(crate) const NOT_STORED: u32 = u32::MAX;

/// The state of a block when the snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    Allocated,
    PendingFree,
    Inactive,
}

/// A block of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// torch 2.0 writes no addresses: there [`Contents::add_segment`] computes them.
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) state: BlockState,
    pub(crate) stack: u32,
}

/// Memory that torch allocated from the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) device: i8,
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u64,
    pub(crate) pool: Option<u32>,
    pub(crate) stack: u32,
    pub(crate) blocks: IndexRange,
}

/// The start or the end of a `record_function`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Annotation {
    pub(crate) name: StringId,
    pub(crate) is_start: bool,
    pub(crate) time: u64,
}

/// All values of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) strings: Strings,
    pub(crate) call_tree: CallTree,
    pub(crate) entries: TraceEntries,
    pub(crate) pools: Vec<(i64, i64)>,
    by_pool: HashMap<(i64, i64), u32>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) annotations: Vec<Annotation>,
    /// Requested size and stack: torch 2.0 describes the allocation in a block by a `history`.
    history_items: Vec<(u64, u32)>,
    /// The events of each device, for each list of lists.
    pub(crate) traces: Vec<Vec<IndexRange>>,
    pub(crate) allocator_conf: StringId,
    pub(crate) seen_keys: SeenKeys,
    pub(crate) snapshot: SnapshotDict,
    /// Number of values in lists of another kind.
    pub(crate) out_of_place: u64,
}

/// The outermost dict.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SnapshotDict {
    pub(crate) segments: Option<IndexRange>,
    /// Index into [`Contents::traces`].
    pub(crate) traces: Option<u32>,
    pub(crate) annotations: IndexRange,
    pub(crate) has_host_memory: bool,
}

impl Contents {
    pub(crate) fn add_pool(&mut self, pair: (i64, i64)) -> Value {
        Value::Pool(*self.by_pool.entry(pair).or_insert_with(|| {
            self.pools.push(pair);
            u32::try_from(self.pools.len() - 1).unwrap_or(0)
        }))
    }

    /// Adds a dict that is no event. Its kind follows from the keys that only one kind has.
    pub(crate) fn add_dict(&mut self, items: &DictItems) -> Value {
        if items.has(known::FILENAME) {
            self.add_frame(items)
        } else if items.has(known::TOTAL_SIZE) {
            self.add_segment(items)
        } else if items.has(known::STATE) {
            self.add_block(items)
        } else if items.has(known::STAGE) {
            self.add_annotation(items)
        } else if items.has(known::REAL_SIZE) {
            self.history_items.push((items.number(known::REAL_SIZE), items.stack()));
            Value::History(last_index(&self.history_items))
        } else if items.has(known::SEGMENTS) || items.has(known::DEVICE_TRACES) {
            self.set_snapshot(items)
        } else if items.has(known::MAX_SPLIT_SIZE) || items.has(known::CUDA_ALLOC_CONF) {
            self.set_settings(items)
        } else {
            Value::Opaque
        }
    }

    /// Adds an event of the list with the serial number `list`, and returns the event's number.
    pub(crate) fn add_event(&mut self, items: &DictItems, list: u64) -> u32 {
        self.seen_keys.add_event(items.present());
        let action = match items.string(known::ACTION) {
            known::ALLOC => Action::Alloc,
            known::FREE_REQUESTED => Action::FreeRequested,
            known::FREE_COMPLETED => Action::FreeCompleted,
            known::SEGMENT_ALLOC => Action::SegmentAlloc,
            known::SEGMENT_FREE => Action::SegmentFree,
            known::SEGMENT_MAP => Action::SegmentMap,
            known::SEGMENT_UNMAP => Action::SegmentUnmap,
            known::OOM => Action::Oom,
            known::ANNOTATE => {
                self.seen_keys.has_annotate = true;
                Action::Annotate
            }
            known::SNAPSHOT => return NOT_STORED,
            _ => {
                self.seen_keys.unknown_actions += 1;
                return NOT_STORED;
            }
        };
        let may_have_stack = !matches!(action, Action::FreeRequested | Action::FreeCompleted);
        let has_stack = may_have_stack && items.has(known::FRAMES);
        let addr = if action == Action::Oom { known::DEVICE_FREE } else { known::ADDR };
        let entry = TraceEntry {
            action,
            is_completed: false,
            addr: items.number(addr),
            size: items.number(known::SIZE),
            time: items.number(known::TIME_US),
            stack: if has_stack { items.stack().saturating_add(1) } else { 0 },
            repeated: RepeatedFields {
                stream: items.number(known::STREAM),
                pool: items.pool(known::POOL_ID).map_or(0, |pool| pool.saturating_add(1)),
                compile_context: items.string(known::COMPILE_CONTEXT),
                user_metadata: items.string(known::USER_METADATA),
            },
        };
        self.seen_keys.first_time = match (self.seen_keys.first_time, entry.time) {
            (first, 0) => first,
            (0, time) => time,
            (first, time) => first.min(time),
        };
        self.entries.push(list, &entry)
    }

    fn add_frame(&mut self, items: &DictItems) -> Value {
        let line = u32::try_from(items.number(known::LINE)).unwrap_or(0);
        let (file, name) = (items.string(known::FILENAME), items.string(known::NAME));
        Value::Frame(self.call_tree.add_frame(Frame { file, name, line }))
    }

    fn add_block(&mut self, items: &DictItems) -> Value {
        let state = match items.string(known::STATE) {
            known::ACTIVE_ALLOCATED => BlockState::Allocated,
            known::ACTIVE_PENDING_FREE => BlockState::PendingFree,
            _ => BlockState::Inactive,
        };
        // The newest allocation in a block comes first.
        let history = items
            .list(known::HISTORY, ListOf::Histories)
            .and_then(|range| self.history_items.get(range.first as usize).copied());
        let size = items.number(known::SIZE);
        let (requested, stack) = history.unwrap_or_else(|| {
            let known = items.has(known::REQUESTED_SIZE);
            (if known { items.number(known::REQUESTED_SIZE) } else { size }, items.stack())
        });
        let requested = requested.min(size);
        self.blocks.push(Block {
            addr: items.number(known::ADDRESS),
            size,
            requested,
            state,
            stack,
        });
        Value::Block(last_index(&self.blocks))
    }

    fn add_segment(&mut self, items: &DictItems) -> Value {
        self.seen_keys.add_segment(items.present());
        let blocks = items.list(known::BLOCKS, ListOf::Blocks).unwrap_or_default();
        let addr = items.number(known::ADDRESS);
        let mut next = addr;
        let inside = self.blocks.get_mut(blocks.first as usize..blocks.end as usize);
        for block in inside.unwrap_or_default() {
            if block.addr == 0 {
                block.addr = next;
            }
            next = block.addr.saturating_add(block.size);
        }
        // The list of segments counts it among the values that are out of place.
        let Some(device) = items.device() else { return Value::Opaque };
        self.segments.push(Segment {
            device,
            addr,
            bytes: items.number(known::TOTAL_SIZE),
            stream: items.number(known::STREAM),
            pool: items.pool(known::SEGMENT_POOL_ID),
            stack: items.stack(),
            blocks,
        });
        Value::Segment(last_index(&self.segments))
    }

    fn add_annotation(&mut self, items: &DictItems) -> Value {
        let is_start = items.string(known::STAGE) == known::START;
        let (name, time) = (items.string(known::NAME), items.number(known::TIME_US));
        self.annotations.push(Annotation { name, is_start, time });
        Value::Annotation(last_index(&self.annotations))
    }

    fn set_settings(&mut self, items: &DictItems) -> Value {
        self.seen_keys.add_settings(items.present());
        self.allocator_conf = match items.string(known::CUDA_ALLOC_CONF) {
            known::EMPTY => items.string(known::ALLOC_CONF),
            conf => conf,
        };
        Value::Settings
    }

    fn set_snapshot(&mut self, items: &DictItems) -> Value {
        self.seen_keys.add_snapshot(items.present());
        let traces = items.list(known::DEVICE_TRACES, ListOf::Traces);
        let host = [known::HOST_SEGMENTS, known::HOST_TRACES];
        self.snapshot = SnapshotDict {
            segments: items
                .has(known::SEGMENTS)
                .then(|| items.list(known::SEGMENTS, ListOf::Segments).unwrap_or_default()),
            traces: traces.map(|range| range.first),
            annotations: items
                .list(known::EXTERNAL_ANNOTATIONS, ListOf::Annotations)
                .unwrap_or_default(),
            has_host_memory: host.iter().any(|&key| items.is_filled(key)),
        };
        Value::Snapshot
    }
}

/// The index of the last element, which must exist.
fn last_index<T>(list: &[T]) -> u32 {
    u32::try_from(list.len().saturating_sub(1)).unwrap_or(u32::MAX)
}
