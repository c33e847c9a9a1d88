//! The requests of a program on one device. They do not depend on the allocator's settings.
//!
//! Segment events do, and are left out. But segments that were freed while nothing needed memory show a call of
//! `empty_cache`, which is a request.

use floodmark_trace::{Bytes, Device, HandleId, StackId, Subject, Trace};
use hashbrown::HashMap;

/// One request of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// An allocation.
    Alloc {
        /// The number of the allocation in the trace.
        owner: u32,
        /// The requested bytes.
        bytes: u64,
        /// The stream: an index into [`Program::streams`].
        stream: u16,
        /// The pool; 0 is the default one.
        pool: u16,
    },
    /// A free.
    Free {
        /// The number of the allocation.
        owner: u32,
    },
    /// A free of a block that another stream still uses.
    FreeLater {
        /// The number of the allocation.
        owner: u32,
    },
    /// The completion of such a free: no stream uses the block any more.
    Complete {
        /// The number of the allocation.
        owner: u32,
    },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// A failed allocation.
    Failed {
        /// The requested bytes, rounded.
        bytes: u64,
        /// The stream.
        stream: u16,
        /// The pool.
        pool: u16,
    },
}

/// A block that was live before the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InitialBlock {
    pub(crate) owner: u32,
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) requested: u64,
    pub(crate) stream: u16,
    pub(crate) pool: u16,
}

/// A segment that was reserved before the first request, or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InitialSegment {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u16,
    pub(crate) pool: u16,
}

/// The limit on reserved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The highest reserved bytes that it allows.
    pub bytes: Bytes,
    /// Whether the program set it (`set_per_process_memory_fraction`); otherwise it is the memory of the device.
    pub is_fraction: bool,
}

/// All requests of a trace on one device, in order.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The requests, each with the number of its event.
    pub requests: Vec<(u32, Request)>,
    /// Handles of streams, lowest first: the order in which the allocator visits them.
    pub streams: Vec<u64>,
    /// The number of pools, including the default one.
    pub pools: u16,
    /// The number of allocations.
    pub owners: u32,
    /// The lowest limit that is consistent with the requests that failed and those that succeeded.
    pub limit: Option<Limit>,
    /// The number of times that the recording shows the cache freed to make room.
    pub retries: u32,
    pub(crate) initial_blocks: Vec<InitialBlock>,
    pub(crate) initial_segments: Vec<InitialSegment>,
    /// The segments that were allocated from the driver: address and size.
    pub(crate) recorded_segments: Vec<(u64, u64)>,
}

impl Program {
    /// Reads the requests of one device.
    pub fn new(trace: &Trace, device: Device) -> Self {
        let mut reader = Reader::new(trace, device);
        for (at, event) in (0_u32..).zip(&trace.events) {
            if event.device == device {
                reader.read(at, event.subject);
            }
        }
        reader.end_burst(None);
        let mut program = reader.program;
        program.owners = u32::try_from(trace.allocations.len()).unwrap_or(u32::MAX);
        if reader.is_limited {
            let free = trace.ooms.iter().find_map(|oom| Some((oom.device_free?, oom.requested)));
            // The device had room: `set_per_process_memory_fraction` set the limit.
            let is_fraction = free.is_none_or(|(free, requested)| free >= requested);
            let on_device = if is_fraction { 0 } else { reader.reserved_and_free };
            let bytes = Bytes(reader.most_reserved.max(on_device));
            program.limit = Some(Limit { bytes, is_fraction });
        }
        program
    }

    /// Handles of the streams of a device, lowest first.
    pub(crate) fn streams_of(trace: &Trace, device: Device) -> Vec<u64> {
        Reader::new(trace, device).program.streams
    }

    /// The number of each stream, in the order of handles.
    pub(crate) fn stream_numbers(trace: &Trace, device: Device) -> HashMap<HandleId, u16> {
        Reader::new(trace, device).stream_of
    }

    /// Whether blocks were live before the first request.
    pub fn has_initial_blocks(&self) -> bool {
        !self.initial_blocks.is_empty() || !self.initial_segments.is_empty()
    }
}

/// Consecutive segments that were freed to the driver.
#[derive(Debug, Default)]
struct Burst {
    at: u32,
    count: u32,
    /// Whether the stack has a call of `empty_cache`; `None` without a stack.
    empties: Option<bool>,
}

struct Reader<'a> {
    trace: &'a Trace,
    device: Device,
    program: Program,
    stream_of: HashMap<HandleId, u16>,
    pool_of: HashMap<HandleId, u16>,
    empties: HashMap<StackId, bool>,
    burst: Burst,
    reserved: u64,
    most_reserved: u64,
    /// Bytes that were reserved by torch or free on the device at the last failed allocation.
    reserved_and_free: u64,
    is_limited: bool,
    last: (u16, u16),
}

impl<'a> Reader<'a> {
    fn new(trace: &'a Trace, device: Device) -> Self {
        let mut reader = Self {
            trace,
            device,
            program: Program { pools: 1, ..Program::default() },
            stream_of: HashMap::new(),
            pool_of: HashMap::new(),
            empties: HashMap::new(),
            burst: Burst::default(),
            reserved: 0,
            most_reserved: 0,
            reserved_and_free: 0,
            is_limited: false,
            last: (0, 0),
        };
        reader.number_streams();
        reader
    }

    /// Numbers the streams in the order of their handles.
    fn number_streams(&mut self) {
        let mut texts: Vec<(u64, HandleId)> = Vec::new();
        let mut last = None;
        let blocks = self.trace.allocations.iter().filter(|made| made.device == self.device);
        let segments = self.trace.segments.iter().map(|segment| segment.stream);
        for text in blocks.map(|made| made.stream).chain(segments) {
            // Most allocations have the stream of the one before.
            if last.replace(text) != Some(text) && self.stream_of.insert(text, 0).is_none() {
                texts.push((
                    self.trace.text(text.into()).and_then(stream_handle).unwrap_or(0),
                    text,
                ));
            }
        }
        texts.sort_unstable();
        for (handle, text) in texts {
            if self.program.streams.last() != Some(&handle) {
                self.program.streams.push(handle);
            }
            let number = self.program.streams.len() - 1;
            self.stream_of.insert(text, u16::try_from(number).unwrap_or(u16::MAX));
        }
        if self.program.streams.is_empty() {
            self.program.streams.push(0);
        }
    }

    fn pool(&mut self, text: HandleId) -> u16 {
        if text == HandleId(0) {
            return 0;
        }
        *self.pool_of.entry(text).or_insert_with(|| {
            self.program.pools += 1;
            self.program.pools - 1
        })
    }

    fn push(&mut self, at: u32, request: Request) {
        self.program.requests.push((at, request));
    }

    fn read(&mut self, at: u32, subject: Subject) {
        match subject {
            Subject::Alloc(id) => {
                self.end_burst(Some(false));
                let made = &self.trace.allocations[id.index()];
                let (stream, pool) = (self.stream_of[&made.stream], self.pool(made.pool));
                if made.before_recording {
                    self.program.initial_blocks.push(InitialBlock {
                        owner: id.0,
                        addr: made.addr.0,
                        bytes: made.rounded.0,
                        requested: made.requested.0,
                        stream,
                        pool,
                    });
                } else {
                    self.last = (stream, pool);
                    let bytes = made.requested.0;
                    self.push(at, Request::Alloc { owner: id.0, bytes, stream, pool });
                }
            }
            Subject::Free { allocation, deferred } => {
                self.end_burst(Some(false));
                let owner = allocation.0;
                let free =
                    if deferred { Request::FreeLater { owner } } else { Request::Free { owner } };
                self.push(at, free);
            }
            // Completions between freed segments belong to the same flush of the cache.
            Subject::FreeCompleted(id) => self.push(at, Request::Complete { owner: id.0 }),
            Subject::SegmentAlloc(segment) => {
                self.end_burst(Some(true));
                let segment = self.segment(segment);
                self.program.recorded_segments.push((segment.addr, segment.bytes));
                self.reserve(segment.bytes);
            }
            Subject::SegmentMap(segment) => {
                self.end_burst(Some(true));
                let segment = self.segment(segment);
                self.reserve(segment.bytes);
            }
            Subject::InitialSegment(segment) => {
                let segment = self.segment(segment);
                self.program.initial_segments.push(segment);
                self.reserve(segment.bytes);
            }
            Subject::SegmentFree(segment) | Subject::SegmentUnmap(segment) => {
                self.free_segment(at, segment);
            }
            Subject::Oom(oom) => {
                // A request fails only after the whole cache was freed, even an empty one.
                let retries = self.program.retries + 1;
                self.end_burst(Some(true));
                self.program.retries = retries;
                self.is_limited = true;
                let failed = self.trace.ooms.get(oom as usize);
                let bytes = failed.map_or(0, |oom| oom.requested.0);
                if let Some(free) = failed.and_then(|oom| oom.device_free) {
                    self.reserved_and_free = self.reserved.saturating_add(free.0);
                }
                let (stream, pool) = self.last;
                self.push(at, Request::Failed { bytes, stream, pool });
            }
            Subject::FreeUnknown(_)
            | Subject::Reserved(_)
            | Subject::Label { .. }
            | Subject::Saved(_)
            | Subject::Unpacked(_)
            | Subject::Step(_)
            | Subject::Mark(_)
            | Subject::PhaseBegin(_)
            | Subject::PhaseEnd(_)
            | Subject::OptimizerBegin
            | Subject::OptimizerEnd => {}
        }
    }

    fn segment(&mut self, segment: u32) -> InitialSegment {
        let Some(&segment) = self.trace.segments.get(segment as usize) else {
            return InitialSegment { addr: 0, bytes: 0, stream: 0, pool: 0 };
        };
        let (stream, pool) = (self.stream_of[&segment.stream], self.pool(segment.pool));
        InitialSegment { addr: segment.addr.0, bytes: segment.bytes.0, stream, pool }
    }

    fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        self.most_reserved = self.most_reserved.max(self.reserved);
    }

    fn free_segment(&mut self, at: u32, segment: u32) {
        let stack = self.trace.segments.get(segment as usize).map_or(StackId(0), |s| s.stack);
        let empties = (stack != StackId(0)).then(|| self.is_emptying(stack));
        if self.burst.count > 0 && self.burst.empties != empties {
            self.end_burst(None);
        }
        if self.burst.count == 0 {
            self.burst.at = at;
            self.burst.empties = empties;
        }
        self.burst.count += 1;
        let bytes = self.segment(segment).bytes;
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// Whether `empty_cache` is on a stack.
    fn is_emptying(&mut self, stack: StackId) -> bool {
        let trace = self.trace;
        *self.empties.entry(stack).or_insert_with(|| {
            trace.frames(stack).any(|(_, frame)| {
                let name = trace.code(frame.code).map_or("", |code| code.name.as_str());
                name == "empty_cache" || name.ends_with(".empty_cache")
            })
        })
    }

    /// Ends a burst at the next event: `needs_memory` if that event needed memory, `None` if it is unknown.
    fn end_burst(&mut self, needs_memory: Option<bool>) {
        if self.burst.count == 0 {
            return;
        }
        let burst = std::mem::take(&mut self.burst);
        if burst.empties.unwrap_or(needs_memory != Some(true)) {
            self.push(burst.at, Request::EmptyCache);
        } else {
            self.is_limited = true;
            self.program.retries += 1;
        }
    }
}

/// The handle of a stream from its text in a trace: `0x7f…`, or in decimal.
pub fn stream_handle(text: &str) -> Option<u64> {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}
