//! Generates the records of a training loop of a small model on one GPU.
//!
//! As in a real recording, stacks, sizes and the order of frees repeat, while the length of the batch and the times vary, and
//! the garbage collector sometimes changes the order. The addresses come from a simple cache with one free list for each size.

use std::collections::{BTreeMap, HashMap};

use floodmark_trace::journal::{Definition, Entry, FLAG_BACKWARD, Record};
use floodmark_trace::{
    Assembler, Category, Device, Ending, EventKind, Header, TextKind, TraceWriter,
};

/// The number of allocations of a step, and of its frees.
const BLOCKS_PER_STEP: u64 = 1000;
/// The number of lines that allocate.
const STACKS: u64 = 400;
/// The depth of the call tree below the line of the script.
const DEPTH: u64 = 8;
const GPU: Device = Device::cuda(0);

/// Pseudorandom numbers (`xorshift64*`).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

/// The loop, with the state of its allocator.
#[derive(Debug)]
pub struct TrainingLoop {
    random: Random,
    nanos: u64,
    allocated: u64,
    reserved: u64,
    next_addr: u64,
    cache: HashMap<u64, Vec<u64>>,
    sizes: BTreeMap<u64, u64>,
    /// Tokens in the batch of this step.
    tokens: u64,
}

impl TrainingLoop {
    /// A loop before its first step.
    #[expect(clippy::new_without_default, reason = "a loop is no empty value")]
    pub fn new() -> Self {
        Self {
            random: Random(0x9E37_79B9_7F4A_7C15),
            nanos: 0,
            allocated: 0,
            reserved: 0,
            next_addr: 0x7F3A_0000_0000,
            cache: HashMap::new(),
            sizes: BTreeMap::new(),
            tokens: 0,
        }
    }

    fn entry(&self, mut record: Record) -> Entry {
        record.time_nanos = self.nanos;
        record.set_totals(self.allocated, self.reserved);
        record.thread = u32::from(record.flags & FLAG_BACKWARD != 0);
        record.into()
    }

    fn definition(&self, definition: &Definition<&str>) -> Entry {
        let (record, payload) = definition.to_record();
        Entry { record: record.at_time(self.nanos), payload: payload.into() }
    }

    /// Defines functions, modules and the call tree: a trunk, and a branch for each line that allocates.
    pub fn definitions(&self) -> Vec<Entry> {
        let number = |number: u64| u32::try_from(number).unwrap();
        let mut entries = Vec::new();
        for id in (1..=STACKS).map(number) {
            let file = &format!("/home/user/project/model/layer_{}.py", id % 40);
            let name = &format!("Block{id}.forward");
            let first_line = 10 + id % 300;
            entries.push(self.definition(&Definition::Code { id, first_line, file, name }));
            let name = &format!("layers.{}.mlp.{id}", id % 12);
            let module = Definition::Module { id, root: 1, class: "Linear", name };
            entries.push(self.definition(&module));
        }
        for id in 1..=DEPTH + STACKS {
            entries.push(self.definition(&Definition::Stack {
                id: number(id),
                parent: number((id - 1).min(DEPTH)),
                code: number(1 + id % STACKS),
                line: number(20 + id % 500),
                module: number(id.saturating_sub(DEPTH)),
                flags: 1,
            }));
        }
        for id in (1..=STACKS / 4).map(number) {
            entries.push(self.definition(&Definition::Label {
                id,
                category: Category::Gradient,
                name: &format!("layers.{id}.weight"),
                shape: "(768, 768)",
                dtype: "float32",
            }));
        }
        for (id, kind, text) in [(1, TextKind::Stream, "0x0"), (2, TextKind::Pool, "(0, 0)")] {
            entries.push(self.definition(&Definition::Text { id, kind, text }));
        }
        entries
    }

    /// One step: forward allocates blocks and frees a few, backward frees the rest.
    pub fn step(&mut self, number: u32) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut live = Vec::new();
        self.tokens = 32 * (1 + self.random.below(32));
        for block in 0..BLOCKS_PER_STEP {
            let is_backward = block >= BLOCKS_PER_STEP / 2;
            let (addr, entry) = self.alloc(block, is_backward);
            entries.push(entry);
            live.push(addr);
            if block % 3 == 0 || is_backward {
                // Not always the newest block, because of the garbage collector and other streams.
                let back = if self.random.below(10) == 0 { 1 + self.random.below(6) } else { 1 };
                let at = live.len().saturating_sub(usize::try_from(back).unwrap());
                let addr = live.remove(at);
                entries.push(self.free(addr, is_backward));
            }
            if is_backward && let Some(addr) = live.pop() {
                if block % 10 == 0 {
                    entries.push(self.label(addr, block));
                }
                entries.push(self.free(addr, true));
            }
        }
        while let Some(addr) = live.pop() {
            entries.push(self.free(addr, false));
        }
        entries.push(self.entry(Record::step(number)));
        entries
    }

    fn pass_time(&mut self, usual_nanos: u64) {
        let pause = if self.random.below(20) == 0 { self.random.below(400_000) } else { 0 };
        self.nanos += usual_nanos / 2 + self.random.below(4 * usual_nanos) + pause;
    }

    fn alloc(&mut self, block: u64, is_backward: bool) -> (u64, Entry) {
        self.pass_time(8_000);
        let line = (block * 7) % STACKS;
        // Half of the lines allocate activations with the length of the batch, half tensors of a fixed size.
        let length = if line.is_multiple_of(2) { self.tokens } else { 768 };
        let mut requested = 4 * length * (1 + line % 24) * (1 + line % 5);
        if self.random.below(20) == 0 {
            requested += 4 * self.random.below(10_000);
        }
        let bytes = requested.next_multiple_of(512);
        let addr = self.cache.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| {
            self.next_addr += bytes;
            self.next_addr - bytes
        });
        self.reserved =
            self.reserved.max((self.next_addr - 0x7F3A_0000_0000).next_multiple_of(2 << 20));
        self.sizes.insert(addr, bytes);
        self.allocated += bytes;
        let mut record = Record::block(EventKind::Alloc, GPU, addr, bytes);
        record.set_requested(requested);
        record.set_stack(u32::try_from(1 + DEPTH + line).unwrap());
        (record.stream, record.pool) = (1, 2);
        record.flags = if is_backward { FLAG_BACKWARD } else { 0 };
        (addr, self.entry(record))
    }

    fn free(&mut self, addr: u64, is_backward: bool) -> Entry {
        self.pass_time(4_000);
        let bytes = self.sizes[&addr];
        self.allocated -= bytes;
        self.cache.entry(bytes).or_default().push(addr);
        let mut record = Record::block(EventKind::Free, GPU, addr, bytes);
        record.flags = if is_backward { FLAG_BACKWARD } else { 0 };
        self.entry(record)
    }

    fn label(&self, addr: u64, block: u64) -> Entry {
        let label = u32::try_from(1 + block % (STACKS / 4)).unwrap();
        self.entry(Record::label(GPU, addr, label))
    }
}

/// The file of a loop of `steps` steps, flushed every `flush_rows` events, and its number of events.
pub fn write_loop(steps: u32, flush_rows: usize) -> (Vec<u8>, usize) {
    let mut training = TrainingLoop::new();
    let mut assembler = Assembler::default();
    let header = Header { session: "1".to_owned(), ..Header::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
    let mut events = 0;
    let mut flush = |assembler: &mut Assembler| {
        let batch = assembler.take_batch();
        events += batch.rows.len();
        writer.write_batch(&batch).unwrap();
    };
    for entry in training.definitions() {
        assembler.push(&entry.record, &entry.payload);
    }
    for step in 0..steps {
        for entry in training.step(step) {
            assembler.push(&entry.record, &entry.payload);
            if assembler.pending_rows() >= flush_rows {
                flush(&mut assembler);
            }
        }
    }
    flush(&mut assembler);
    (writer.finish(&Ending::default()).unwrap(), events)
}
