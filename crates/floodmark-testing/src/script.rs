//! A recording from a few readable lines, written and read by the real code.
//!
//! ```text
//! alloc a cuda:0 4MiB asking 3MiB at train.py:10 in layers.0     `>` leads to an inner frame
//! backward alloc b cuda:0 1MiB at train.py:10 in layers.0
//! alloc c cuda:0 1MiB call mm · alloc d cuda:0 1MiB op mm         `call`: the first block of an operator call
//! free a                                                          `free b deferred`: a stream uses it
//! initial w cuda:0 1MiB · unseen cuda:0 1MiB · free-unknown cuda:0 1MiB
//! label w parameter layers.0.weight (4,4) float32
//! phase begin eval · phase end · optimizer begin · optimizer end · step · oom cuda:0 1GiB at train.py:3 left 512MiB
//! segment S cuda:0 20MiB stream 7 · alloc c cuda:0 8MiB on S+4MiB stream 7 · free-segment S · complete b
//! ```
//!
//! A module is `PATH:CLASS`, of the class `Layer` where it names none. A frame is `FILE:LINE:FUNCTION:DEF`, the last two (the line of `def`) where they matter. Files below
//! `torch/` are torch's own. Every line takes a millisecond, `wait 500` half a second. `reserved` is the sum of the segments; where a
//! script names none, what is allocated, rounded up to 2 MiB, and never shrinks.

use std::collections::{BTreeMap, HashMap};

use floodmark_trace::journal::{
    Definition, Entry, FLAG_BACKWARD, FLAG_DEFERRED, FLAG_OP_CALL, Record,
};
use floodmark_trace::{
    Assembler, Category, Device, Ending, EventKind, Header, TextKind, TraceWriter, stack_flags,
};

/// The header of every recording that a script makes.
pub fn header() -> Header {
    Header { session: "1".into(), floodmark: "0.1.0".into(), ..Header::default() }
}

/// The records of a script.
pub fn entries(script: &str) -> Vec<Entry> {
    let mut recorder = Recorder::default();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        recorder.record(&line.split_whitespace().collect::<Vec<_>>());
    }
    recorder.entries
}

/// The bytes of the file with these records.
pub fn file(script: &str) -> Vec<u8> {
    let entries = entries(script);
    let mut assembler = Assembler::default();
    for entry in &entries {
        assembler.push(&entry.record, &entry.payload);
    }
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    writer.write_batch(&assembler.take_batch()).unwrap();
    let at_micros = entries.last().map_or(0, |entry| entry.record.time_nanos / 1000);
    writer.finish(&Ending { reason: String::new(), at_micros }).unwrap()
}

#[derive(Default)]
struct Totals {
    allocated: u64,
    reserved: u64,
    has_segments: bool,
}

#[derive(Default)]
struct Recorder {
    entries: Vec<Entry>,
    lines: u64,
    next_addr: u64,
    live: HashMap<String, (Device, u64, u64)>,
    awaited: HashMap<String, (Device, u64)>,
    segments: HashMap<String, (Device, u64, u64)>,
    totals: BTreeMap<Device, Totals>,
    ids: HashMap<String, u64>,
}

impl Recorder {
    fn record(&mut self, words: &[&str]) {
        self.lines += 1;
        match words {
            ["alloc", rest @ ..] => self.alloc(EventKind::Alloc, rest, 0),
            ["backward", "alloc", rest @ ..] => self.alloc(EventKind::Alloc, rest, FLAG_BACKWARD),
            ["initial", rest @ ..] => self.alloc(EventKind::InitialBlock, rest, 0),
            ["free", name, rest @ ..] => self.free(name, rest == ["deferred"]),
            ["unseen", device, size] => self.total(device).allocated += parse_size(size),
            ["free-unknown", device, size] => {
                let bytes = parse_size(size);
                self.total(device).allocated -= bytes;
                let record = Record::block(EventKind::Free, device.parse().unwrap(), 1, bytes);
                self.push(record, 0, vec![]);
            }
            ["label", name, category, label, rest @ ..] => self.label(name, category, label, rest),
            ["wait", millis] => self.lines += millis.parse::<u64>().expect("milliseconds"),
            ["save", name] => self.remark(EventKind::Saved, name),
            ["unpack", name] => self.remark(EventKind::Unpacked, name),
            ["optimizer", "begin"] => self.push(new(EventKind::OptimizerBegin, "cpu"), 0, vec![]),
            ["optimizer", "end"] => self.push(new(EventKind::OptimizerEnd, "cpu"), 0, vec![]),
            ["phase", "begin", name @ ..] => {
                let phase = u32::from(self.text(TextKind::Phase, &name.join(" ")));
                self.push(Record::named(EventKind::PhaseBegin, phase), 0, vec![]);
            }
            ["phase", "end"] => self.push(new(EventKind::PhaseEnd, "cpu"), 0, vec![]),
            ["step"] => self.push(new(EventKind::Step, "cpu"), 0, vec![]),
            ["backward", "oom", rest @ ..] => self.oom(rest, FLAG_BACKWARD),
            ["oom", rest @ ..] => self.oom(rest, 0),
            ["segment", name, device, size, rest @ ..] => {
                let options = EventOptions::parse(rest);
                let (addr, bytes) = (self.new_addr(), parse_size(size));
                self.segments.insert((*name).to_owned(), (device.parse().unwrap(), addr, bytes));
                let total = self.total(device);
                total.has_segments = true;
                total.reserved += bytes;
                let (stream, pool) = (self.stream(&options), self.pool(&options));
                let device = device.parse().unwrap();
                let mut record = Record::block(EventKind::SegmentAlloc, device, addr, bytes);
                (record.stream, record.pool) = (stream, pool);
                self.push(record, 0, vec![]);
            }
            ["free-segment", name] => {
                let (device, addr, bytes) = self.segments.remove(*name).expect("it was taken");
                self.totals.get_mut(&device).unwrap().reserved -= bytes;
                let record = Record::block(EventKind::SegmentFree, device, addr, bytes);
                self.push(record, 0, vec![]);
            }
            ["complete", name] => {
                let (device, addr) = self.awaited.remove(*name).expect("a stream uses it");
                let record = Record::block(EventKind::FreeCompleted, device, addr, 0);
                self.push(record, 0, vec![]);
            }
            other => panic!("what does {other:?} mean?"),
        }
    }

    fn oom(&mut self, words: &[&str], flags: u8) {
        let [device, size, rest @ ..] = words else { panic!("an oom has a device and a size") };
        let options = EventOptions::parse(rest);
        let stack = self.stack(&options);
        let device_free = options.get("left").map_or(0, parse_size);
        let mut record = Record::oom(device.parse().unwrap(), parse_size(size), device_free);
        record.set_stack(stack);
        record.flags = flags;
        self.push(record, 0, vec![]);
    }

    fn alloc(&mut self, kind: EventKind, words: &[&str], flags: u8) {
        let [name, device, size, rest @ ..] = words else { panic!("alloc NAME DEVICE SIZE") };
        let options = EventOptions::parse(rest);
        let bytes = parse_size(size);
        let stack = self.stack(&options);
        let called = options.get("call");
        let flags = if called.is_some() { flags | FLAG_OP_CALL } else { flags };
        let op = called.or(options.get("op")).map_or(0, |op| self.text(TextKind::Op, op));
        let phase = options.get("phase").map_or(0, |phase| self.text(TextKind::Phase, phase));
        let requested = options.get("asking").map_or(0, parse_size);
        let thread = options.get("thread").map_or(0, |thread| thread.parse().unwrap());
        let addr = match options.get("on") {
            Some(position) => self.address_at(position),
            None => self.new_addr(),
        };
        let (stream, pool) = (self.stream(&options), self.pool(&options));
        let old = self.live.insert((*name).to_owned(), (device.parse().unwrap(), addr, bytes));
        assert_eq!(old, None, "{name} is there already");
        self.total(device).allocated += bytes;
        let mut record = Record::block(kind, device.parse().unwrap(), addr, bytes);
        record.set_stack(stack);
        record.set_requested(requested);
        (record.flags, record.phase, record.op) = (flags, phase, op);
        (record.stream, record.pool) = (stream, pool);
        self.push(record, thread, vec![]);
    }

    fn new_addr(&mut self) -> u64 {
        self.next_addr += 1 << 40;
        self.next_addr
    }

    /// `S+4MiB`: the address at an offset in the segment S.
    fn address_at(&self, position: &str) -> u64 {
        let (segment, offset) = position.split_once('+').unwrap_or((position, "0B"));
        self.segments[segment].1 + parse_size(offset)
    }

    fn stream(&mut self, options: &EventOptions<'_>) -> u16 {
        let stream = options.get("stream").map(|number| format!("0x{number}"));
        stream.map_or(0, |stream| self.text(TextKind::Stream, &stream))
    }

    fn pool(&mut self, options: &EventOptions<'_>) -> u16 {
        let pool = options.get("pool").map(|number| format!("(0, {number})"));
        pool.map_or(0, |pool| self.text(TextKind::Pool, &pool))
    }

    fn free(&mut self, name: &str, deferred: bool) {
        let (device, addr, bytes) = self.live.remove(name).expect("it was allocated");
        self.totals.get_mut(&device).unwrap().allocated -= bytes;
        if deferred {
            self.awaited.insert(name.to_owned(), (device, addr));
        }
        let mut record = Record::block(EventKind::Free, device, addr, bytes);
        record.flags = if deferred { FLAG_DEFERRED } else { 0 };
        self.push(record, 0, vec![]);
    }

    fn remark(&mut self, kind: EventKind, name: &str) {
        let (device, addr, _) = self.live[name];
        self.push(Record::block(kind, device, addr, 0), 0, vec![]);
    }

    fn label(&mut self, name: &str, category: &str, label: &str, rest: &[&str]) {
        let (device, addr, _) = self.live[name];
        let category = Category::ALL.iter().find(|one| one.name().replace(' ', "-") == category);
        let shape = rest.first().copied().unwrap_or_default();
        let dtype = rest.get(1).copied().unwrap_or_default();
        let category = *category.expect("a category");
        let key = format!("label {label} {}", category as u8);
        let id =
            self.define(&key, |id| Definition::Label { id, category, name: label, shape, dtype });
        self.push(Record::label(device, addr, id), 0, vec![]);
    }

    fn total(&mut self, device: &str) -> &mut Totals {
        self.totals.entry(device.parse().unwrap()).or_default()
    }

    fn text(&mut self, kind: TextKind, text: &str) -> u16 {
        let id = self.define(&format!("text {text}"), |id| Definition::Text { id, kind, text });
        u16::try_from(id).unwrap()
    }

    /// The stack of `at a.py:1 > b.py:2 in layers.0`: the module's frame is the outermost.
    fn stack(&mut self, options: &EventOptions<'_>) -> u32 {
        let mut stack = 0;
        let mut flags = 0;
        if let Some(path) = options.get("in") {
            let net = |id| Definition::Module { id, root: 1, class: "Net", name: "" };
            let root = self.define("module", net);
            let (path, class) = path.split_once(':').unwrap_or((path, "Layer"));
            let module = if path == "Net" {
                root
            } else {
                let module = |id| Definition::Module { id, root, class, name: path };
                self.define(&format!("module {path}"), module)
            };
            flags = stack_flags::MODULE;
            stack = self.node(stack, "torch/module.py:9:_call_impl", module, flags);
        }
        for frame in options.get_all("at") {
            if frame.contains(":step") {
                flags |= stack_flags::OPTIMIZER;
            }
            stack = self.node(stack, frame, 0, flags);
        }
        stack
    }

    fn node(&mut self, parent: u32, frame: &str, module: u32, flags: u8) -> u32 {
        let mut parts = frame.split(':');
        let (file, line) = (parts.next().unwrap(), parts.next().expect("FILE:LINE"));
        let function = parts.next().unwrap_or("main");
        let library = match file {
            "??" => stack_flags::LIBRARY | stack_flags::NATIVE,
            _ if file.starts_with("torch/") => stack_flags::LIBRARY,
            _ => 0,
        };
        let first_line = parts.next().map_or(0, |line| line.parse().unwrap());
        let code = self.code(file, function, first_line);
        let key = format!("stack {parent} {frame} {module}");
        let (line, flags) = (line.parse().unwrap(), flags | library);
        self.define(&key, |id| Definition::Stack { id, parent, code, line, module, flags })
    }

    fn code(&mut self, file: &str, name: &str, first_line: u32) -> u32 {
        let key = format!("code {file} {name} {first_line}");
        self.define(&key, |id| Definition::Code { id, first_line, file, name })
    }

    /// The id of `key`, which is defined if it is new.
    fn define<'a>(&mut self, key: &str, define: impl FnOnce(u32) -> Definition<&'a str>) -> u32 {
        let known = self.ids.len();
        let id = u32::try_from(self.id(key.split(' ').next().unwrap(), key)).unwrap();
        if self.ids.len() > known {
            let (record, payload) = define(id).to_record();
            self.push_raw(record, 0, payload);
        }
        id
    }

    /// Ids are dense from 1 within their kind.
    fn id(&mut self, kind: &str, key: &str) -> u64 {
        let next =
            1 + self.ids.keys().filter(|known| known.split(' ').next() == Some(kind)).count();
        *self.ids.entry(key.to_owned()).or_insert(next as u64)
    }

    fn push(&mut self, mut record: Record, thread: u32, payload: Vec<u8>) {
        let totals = self.totals.entry(record.device).or_default();
        if !totals.has_segments {
            totals.reserved = totals.reserved.max(totals.allocated.next_multiple_of(2 << 20));
        }
        let reserved = if record.device.is_cpu() { 0 } else { totals.reserved };
        record.set_totals(totals.allocated, reserved);
        self.push_raw(record, thread, payload);
    }

    fn push_raw(&mut self, mut record: Record, thread: u32, payload: Vec<u8>) {
        record.thread = thread;
        let last = self.entries.last().map_or(0, |entry| entry.record.time_nanos);
        record.time_nanos = (self.lines * 1_000_000).max(last + 1);
        self.entries.push(Entry { record, payload: payload.into() });
    }
}

/// The options of an event in a script: pairs of a word and its value after the size.
struct EventOptions<'a>(Vec<(&'a str, &'a str)>);

impl<'a> EventOptions<'a> {
    fn parse(words: &[&'a str]) -> Self {
        let mut options = Vec::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { panic!("{pair:?} has no value") };
            options.push((if *name == ">" { "at" } else { *name }, *value));
        }
        Self(options)
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.get_all(name).next()
    }

    fn get_all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| *found == name).map(|(_, value)| *value)
    }
}

fn new(kind: EventKind, device: &str) -> Record {
    Record::new(kind as u8, device.parse().unwrap())
}

fn parse_size(text: &str) -> u64 {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => panic!("{other} is no unit"),
    };
    digits.parse::<u64>().unwrap() * unit
}
