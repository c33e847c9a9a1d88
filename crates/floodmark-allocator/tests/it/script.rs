//! Traces of programs from short scripts.

use std::collections::HashMap;

use floodmark_allocator::{
    AllocatorConfig, BlockState, Layout, Limit, Observer, Program, Run, Settings, TorchVersion,
    simulate,
};
use floodmark_trace::journal::FLAG_DEFERRED;
use floodmark_trace::{
    AllocationId, Batch, Bytes, Device, Ending, EventKind, Header, Micros, Row, TextKind, TextRow,
    Trace, TraceBuilder,
};

pub(crate) const GPU: Device = Device::cuda(0);

/// Makes a trace event by event.
pub(crate) struct TraceRecorder {
    builder: TraceBuilder,
    definitions: Batch,
    live: HashMap<String, AllocationId>,
    texts: HashMap<(TextKind, u64), u16>,
    time: u64,
}

impl TraceRecorder {
    pub(crate) fn new() -> Self {
        Self {
            builder: TraceBuilder::new(Header::default()),
            definitions: Batch::default(),
            live: HashMap::new(),
            texts: HashMap::new(),
            time: 0,
        }
    }

    fn text(&mut self, kind: TextKind, handle: u64) -> u16 {
        let next = u16::try_from(self.texts.len() + 1).expect("few");
        let text = format!("0x{handle:x}");
        *self.texts.entry((kind, handle)).or_insert_with(|| {
            self.definitions.texts.push(TextRow { id: u32::from(next), kind, text });
            next
        })
    }

    pub(crate) fn row(&mut self, kind: EventKind) -> Row {
        self.time += 1;
        Row::new(kind, GPU, 0, Micros(self.time))
    }

    pub(crate) fn push(&mut self, row: &Row) -> Option<AllocationId> {
        self.builder.push(row)
    }

    pub(crate) fn alloc(&mut self, name: &str, bytes: u64, stream: u64, pool: u64) {
        let mut row = self.row(EventKind::Alloc);
        row.bytes = bytes;
        row.stream = self.text(TextKind::Stream, stream);
        row.pool = if pool == 0 { 0 } else { self.text(TextKind::Pool, pool) };
        let id = self.push(&row).expect("an allocation");
        self.live.insert(name.to_owned(), id);
    }

    pub(crate) fn about(&mut self, kind: EventKind, name: &str, flags: u8) {
        let mut row = self.row(kind);
        row.allocation = self.live[name];
        row.flags = flags;
        self.push(&row);
    }

    pub(crate) fn empty_cache(&mut self) {
        // A segment that is freed although nothing needs memory.
        let mut row = self.row(EventKind::SegmentFree);
        row.bytes = 512;
        self.push(&row);
    }

    pub(crate) fn finish(mut self) -> (Trace, HashMap<AllocationId, String>) {
        self.builder.define(std::mem::take(&mut self.definitions));
        let names = self.live.into_iter().map(|(name, id)| (id, name)).collect();
        (self.builder.finish(Vec::new(), Ending::default(), Vec::new()), names)
    }
}

/// Reads `a=1024 b=2M@7 c=1M/3 -a ~b !b empty`: blocks with their sizes, on a stream, from a pool; freed;
/// freed while a stream uses them; completed; the cache emptied.
pub(crate) fn read(script: &str) -> (Trace, HashMap<AllocationId, String>) {
    let mut trace_recorder = TraceRecorder::new();
    for word in script.split_whitespace() {
        if word == "empty" {
            trace_recorder.empty_cache();
        } else if let Some(name) = word.strip_prefix('-') {
            trace_recorder.about(EventKind::Free, name, 0);
        } else if let Some(name) = word.strip_prefix('~') {
            trace_recorder.about(EventKind::Free, name, FLAG_DEFERRED);
        } else if let Some(name) = word.strip_prefix('!') {
            trace_recorder.about(EventKind::FreeCompleted, name, 0);
        } else {
            let (name, size) = word.split_once('=').expect(word);
            let (size, pool) = size.split_once('/').unwrap_or((size, "0"));
            let (size, stream) = size.split_once('@').unwrap_or((size, "0"));
            let number = |text: &str| text.parse().expect(text);
            trace_recorder.alloc(name, bytes(size), number(stream), number(pool));
        }
    }
    trace_recorder.finish()
}

pub(crate) fn bytes(text: &str) -> u64 {
    let units = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    for (unit, size) in units {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<u64>().expect(text) * size;
        }
    }
    text.parse().expect(text)
}

#[derive(Default)]
struct Log(Vec<String>);

impl Observer for Log {
    fn segment_allocated(&mut self, _: u64, bytes: u64, maps: bool) {
        self.0.push(format!("{}{}", if maps { "map " } else { "+" }, short(bytes)));
    }
    fn segment_freed(&mut self, _: u64, bytes: u64, maps: bool) {
        self.0.push(format!("{}{}", if maps { "unmap " } else { "-" }, short(bytes)));
    }
}

/// `2M`, `512`, `1M+512`.
fn short(bytes: u64) -> String {
    let (mib, rest) = (bytes >> 20, bytes & ((1 << 20) - 1));
    match (mib, rest) {
        (0, rest) => rest.to_string(),
        (mib, 0) => format!("{mib}M"),
        (mib, rest) => format!("{mib}M+{rest}"),
    }
}

fn show(layout: &Layout, names: &HashMap<AllocationId, String>) -> String {
    let mut lines: Vec<String> = layout
        .segments
        .iter()
        .map(|segment| {
            let blocks = segment.blocks.iter().map(|block| {
                let name = match (block.state, block.owner) {
                    (BlockState::Free, _) => "_".to_owned(),
                    (BlockState::Pending, _) => "~".to_owned(),
                    (_, Some(owner)) => names[&AllocationId(owner)].clone(),
                    (_, None) => "?".to_owned(),
                };
                format!("{name}:{}", short(block.bytes.0))
            });
            blocks.collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines.join(" | ")
}

pub(crate) fn settings(conf: &str, version: TorchVersion, limit: Option<u64>) -> Settings {
    let config = AllocatorConfig::parse(conf, version).expect(conf);
    let limit = limit.map(|bytes| Limit { bytes: Bytes(bytes), is_fraction: true });
    Settings { config, limit, uses_recorded_addresses: false }
}

pub(crate) fn run(
    script: &str,
    conf: &str,
    version: TorchVersion,
    limit: Option<u64>,
) -> (Run, String) {
    let (trace, names) = read(script);
    let mut log = Log::default();
    let settings = settings(conf, version, limit);
    let run = simulate(&Program::new(&trace, GPU), &settings, &mut log);
    let shown = format!("{} => {}", log.0.join(" "), show(&run.layout, &names));
    (run, shown)
}
