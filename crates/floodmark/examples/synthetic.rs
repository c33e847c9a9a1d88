//! A recording of any length, made up: `synthetic EVENTS FILE` writes a `.flood` file.
//!
//! The program is a training loop of a small transformer: parameters, activations that are kept for backward,
//! gradients, Adam's states, temporaries, batches of changing length, an evaluation now and then, and a list
//! that grows. Blocks come from the simulated allocator, so that segments, cuts and the cache are as they
//! would be. The same number of events gives the same file, byte for byte.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::rc::Rc;

use anyhow::{Context, Result};
use floodmark_allocator::{AllocatorConfig, Observer, Online, Settings, TorchVersion};
use floodmark_trace::journal::FLAG_BACKWARD;
use floodmark_trace::{
    AllocationId, Batch, Bytes, Category, CodeRow, Device, DeviceInfo, Ending, EventKind, Header,
    LabelRow, Micros, ModuleRow, Row, StackRow, TextKind, TextRow, Total, TraceWriter, stack_flags,
};

const LAYERS: u32 = 12;
const WIDTH: u64 = 768;
const GPU: Device = Device::cuda(0);
/// What a flush of a real recorder holds, about.
const BATCH_ROWS: usize = 1 << 16;

/// Segments requested from the driver since the last check.
#[derive(Debug, Clone, Default)]
struct Driver(Rc<RefCell<Vec<(EventKind, u64, u64)>>>);

impl Observer for Driver {
    fn segment_allocated(&mut self, addr: u64, bytes: u64, _maps: bool) {
        self.0.borrow_mut().push((EventKind::SegmentAlloc, addr, bytes));
    }

    fn segment_freed(&mut self, addr: u64, bytes: u64, _maps: bool) {
        self.0.borrow_mut().push((EventKind::SegmentFree, addr, bytes));
    }
}

/// A block that the program holds.
#[derive(Debug, Clone, Copy)]
struct PlacedBlock {
    id: AllocationId,
    owner: u32,
    addr: u64,
    bytes: u64,
}

/// Writes what happens.
struct Recorder {
    writer: TraceWriter<BufWriter<File>>,
    batch: Batch,
    allocator: Online<Driver>,
    driver: Driver,
    now: Micros,
    events: u64,
    allocations: u32,
    stacks: u32,
    /// The phase that is open, by its text.
    phase: u32,
    random: u64,
}

impl Recorder {
    fn new(file: File) -> Result<Self> {
        let config = AllocatorConfig::default_of(TorchVersion::CHECKED);
        let settings = Settings { config, limit: None, uses_recorded_addresses: false };
        let driver = Driver::default();
        let device = DeviceInfo {
            device: GPU.to_string(),
            name: "made up".to_owned(),
            total_bytes: 80 << 30,
            ..DeviceInfo::default()
        };
        let header = Header {
            floodmark: env!("CARGO_PKG_VERSION").to_owned(),
            session: "synthetic".to_owned(),
            command: vec!["synthetic".to_owned()],
            torch: "2.11.0".to_owned(),
            allocator_backend: "native".to_owned(),
            devices: vec![device],
            ..Header::default()
        };
        Ok(Self {
            writer: TraceWriter::new(BufWriter::new(file), &header)?,
            batch: Batch::default(),
            allocator: Online::new(&settings, driver.clone()),
            driver,
            now: Micros(0),
            events: 0,
            allocations: 0,
            stacks: 0,
            phase: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        })
    }

    /// Below `limit`; the same in every run.
    fn random(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    fn push(&mut self, row: Row) -> Result<()> {
        self.batch.rows.push(row);
        self.events += 1;
        if self.batch.rows.len() >= BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let stats = self.allocator.stats();
        let allocated = Bytes(stats.allocated_bytes.all.current);
        let reserved = Bytes(stats.reserved_bytes.all.current);
        self.batch.totals = vec![Total { device: GPU, allocated, reserved }];
        self.batch.through_nanos = self.events;
        self.writer.write_batch(&self.batch)?;
        self.batch =
            Batch { start: self.now, first_allocation: self.allocations, ..Batch::default() };
        Ok(())
    }

    fn event(&mut self, kind: EventKind, device: Device) -> Row {
        self.now.0 += 1 + self.random(7);
        Row::new(kind, device, 0, self.now)
    }

    /// Something that happens to no block: a mark, the end of a step.
    fn record(&mut self, kind: EventKind, what: u32) -> Result<()> {
        let row = self.event(kind, Device::CPU);
        self.push(Row { stack: what, ..row })
    }

    fn alloc(&mut self, bytes: u64, stack: u32, flags: u8) -> Result<PlacedBlock> {
        let placed = self.allocator.alloc(bytes).ok().context("Failed to find room")?;
        self.record_segments()?;
        let id = AllocationId(self.allocations);
        let row = self.event(EventKind::Alloc, GPU);
        let row = Row { slack: placed.bytes - bytes, phase: self.phase, ..row };
        self.allocations += 1;
        self.push(Row { addr: placed.addr, bytes: placed.bytes, stack, flags, ..row })?;
        Ok(PlacedBlock { id, owner: placed.owner, addr: placed.addr, bytes: placed.bytes })
    }

    fn free(&mut self, held: PlacedBlock) -> Result<()> {
        self.allocator.free(held.owner);
        let row = self.event(EventKind::Free, GPU);
        self.push(Row { allocation: held.id, addr: held.addr, bytes: held.bytes, ..row })
    }

    fn label(&mut self, held: PlacedBlock, label: u32) -> Result<()> {
        let row = self.event(EventKind::Label, GPU);
        self.push(Row { allocation: held.id, stack: label, ..row })
    }

    fn record_segments(&mut self) -> Result<()> {
        let calls = std::mem::take(&mut *self.driver.0.borrow_mut());
        for &(kind, addr, bytes) in &calls {
            let row = self.event(kind, GPU);
            self.push(Row { addr, bytes, ..row })?;
        }
        if !calls.is_empty() {
            let bytes = self.allocator.stats().reserved_bytes.all.current;
            let row = self.event(EventKind::Reserved, GPU);
            self.push(Row { bytes, ..row })?;
        }
        Ok(())
    }

    fn text(&mut self, id: u32, kind: TextKind, text: &str) {
        self.batch.texts.push(TextRow { id, kind, text: text.to_owned() });
    }

    fn code(&mut self, id: u32, file: &str, name: &str) {
        let (file, name) = (file.to_owned(), name.to_owned());
        self.batch.codes.push(CodeRow { id, first_line: 1, file, name });
    }

    fn stack(&mut self, parent: u32, code: u32, line: u32, module: u32, flags: u8) -> u32 {
        self.stacks += 1;
        let id = self.stacks;
        self.batch.stacks.push(StackRow { id, parent, code, line, module, flags });
        id
    }
}

/// A part of the model: where its lines are, and what it makes.
struct Part {
    /// One for each line that makes something.
    stacks: [u32; 3],
    /// Where its parameter is made.
    made: u32,
    name: String,
    weight: u64,
    /// Kept for backward, for each token.
    kept: u64,
}

const CODES: [(&str, &str); 6] = [
    ("train.py", "main"),
    ("model.py", "Transformer.forward"),
    ("model.py", "Block.forward"),
    ("torch/nn/modules/linear.py", "Linear.forward"),
    ("torch/optim/adam.py", "Adam.step"),
    ("data.py", "next_batch"),
];
const LINES: [u32; 3] = [21, 22, 24];

/// Modules, their stacks, and the outermost frame.
fn model(recorder: &mut Recorder) -> (Vec<Part>, u32) {
    for (id, (file, name)) in (1_u32..).zip(CODES) {
        recorder.code(id, file, name);
    }
    recorder.text(1, TextKind::Phase, "evaluation");
    recorder.text(2, TextKind::Mark, "checkpoint written");
    let main = recorder.stack(0, 1, 40, 0, 0);
    let mut modules = 0;
    let mut module = |recorder: &mut Recorder, class: &str, name: &str| {
        modules += 1;
        let (id, class, name) = (modules, class.to_owned(), name.to_owned());
        recorder.batch.modules.push(ModuleRow { id, root: 1, class, name });
        id
    };
    let root = module(recorder, "Transformer", "");
    let root = recorder.stack(main, 2, 12, root, stack_flags::MODULE);
    let mut parts = Vec::new();
    for layer in 0..LAYERS {
        let block = module(recorder, "Block", &format!("h.{layer}"));
        let around = recorder.stack(root, 3, 8 + layer % 4, block, stack_flags::MODULE);
        for (name, weight, kept) in [
            ("ln_1", WIDTH, WIDTH),
            ("attn.qkv", 3 * WIDTH * WIDTH, 3 * WIDTH),
            ("attn.proj", WIDTH * WIDTH, WIDTH),
            ("ln_2", WIDTH, WIDTH),
            ("mlp.up", 4 * WIDTH * WIDTH, 4 * WIDTH),
            ("mlp.down", 4 * WIDTH * WIDTH, WIDTH),
        ] {
            let name = format!("h.{layer}.{name}");
            let id = module(recorder, "Linear", &name);
            let flags = stack_flags::MODULE | stack_flags::LIBRARY;
            let stacks = LINES.map(|line| recorder.stack(around, 4, line, id, flags));
            let made = recorder.stack(main, 1, 10 + layer, 0, 0);
            parts.push(Part { stacks, made, name, weight, kept });
        }
    }
    (parts, main)
}

/// What the program holds from step to step.
struct Training {
    recorder: Recorder,
    parts: Vec<Part>,
    optimizer: u32,
    data: u32,
    losses: u32,
    states: Vec<PlacedBlock>,
    gradients: Vec<PlacedBlock>,
}

impl Training {
    fn new(file: File) -> Result<Self> {
        let mut recorder = Recorder::new(file)?;
        let (parts, main) = model(&mut recorder);
        let optimizer =
            recorder.stack(main, 5, 90, 0, stack_flags::OPTIMIZER | stack_flags::LIBRARY);
        let data = recorder.stack(main, 6, 5, 0, 0);
        let losses = recorder.stack(main, 1, 47, 0, 0);
        for (id, part) in (1_u32..).zip(&parts) {
            let held = recorder.alloc(4 * part.weight, part.made, 0)?;
            for (offset, category, name) in [
                (0, Category::Parameter, format!("{}.weight", part.name)),
                (1000, Category::Gradient, format!("{}.weight", part.name)),
                (2000, Category::OptimizerState, format!("{}.weight.exp_avg", part.name)),
            ] {
                let (shape, dtype) = (format!("({},)", part.weight), "float32".to_owned());
                recorder.batch.labels.push(LabelRow {
                    id: id + offset,
                    category,
                    name,
                    shape,
                    dtype,
                });
            }
            recorder.label(held, id)?;
        }
        let (states, gradients) = (Vec::new(), Vec::new());
        Ok(Self { recorder, parts, optimizer, data, losses, states, gradients })
    }

    /// The activations that backward will need, with the part that made each.
    fn forward(&mut self, tokens: u64) -> Result<Vec<(usize, PlacedBlock)>> {
        let mut kept = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let [passing, saved, mask] = part.stacks;
            let temporary = self.recorder.alloc(2 * tokens * part.kept, passing, 0)?;
            kept.push((at, self.recorder.alloc(4 * tokens * part.kept, saved, 0)?));
            let small = self.recorder.alloc(tokens * 8 + 64, mask, 0)?;
            self.recorder.free(temporary)?;
            kept.push((at, small));
        }
        Ok(kept)
    }

    fn backward(&mut self, tokens: u64, kept: Vec<(usize, PlacedBlock)>) -> Result<()> {
        for (at, held) in kept.into_iter().rev() {
            let part = &self.parts[at];
            let stack = part.stacks[1];
            let flow = self.recorder.alloc(2 * tokens * part.kept, stack, FLAG_BACKWARD)?;
            if held.bytes > 4 * tokens * 16 {
                let gradient = self.recorder.alloc(4 * part.weight, stack, FLAG_BACKWARD)?;
                self.recorder.label(gradient, 1001 + u32::try_from(at)?)?;
                self.gradients.push(gradient);
            }
            self.recorder.free(held)?;
            self.recorder.free(flow)?;
        }
        Ok(())
    }

    fn optimize(&mut self) -> Result<()> {
        self.recorder.record(EventKind::OptimizerBegin, 0)?;
        let is_first = self.states.is_empty();
        for at in 0..self.parts.len() {
            let bytes = 4 * self.parts[at].weight;
            if is_first {
                let state = self.recorder.alloc(bytes, self.optimizer, 0)?;
                self.recorder.label(state, 2001 + u32::try_from(at)?)?;
                self.states.push(state);
            }
            let temporary = self.recorder.alloc(bytes, self.optimizer, 0)?;
            self.recorder.free(temporary)?;
        }
        self.recorder.record(EventKind::OptimizerEnd, 0)?;
        for gradient in std::mem::take(&mut self.gradients) {
            self.recorder.free(gradient)?;
        }
        Ok(())
    }

    fn step(&mut self, number: u32) -> Result<()> {
        let tokens = 256 * (1 + self.recorder.random(8));
        let batch = self.recorder.alloc(8 * tokens, self.data, 0)?;
        let kept = self.forward(tokens)?;
        self.backward(tokens, kept)?;
        self.optimize()?;
        self.recorder.free(batch)?;
        // A list of losses that is never emptied.
        self.recorder.alloc(512, self.losses, 0)?;
        self.recorder.record(EventKind::Step, number)?;
        if number % 200 == 199 {
            self.evaluate()?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<()> {
        self.recorder.record(EventKind::PhaseBegin, 1)?;
        self.recorder.phase = 1;
        for (_, held) in self.forward(8192)? {
            self.recorder.free(held)?;
        }
        self.recorder.phase = 0;
        self.recorder.record(EventKind::PhaseEnd, 1)?;
        self.recorder.record(EventKind::Mark, 2)
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let events: u64 = arguments.next().context("Failed to find how many events")?.parse()?;
    let path = arguments.next().context("Failed to find the name of a file")?;
    let mut training = Training::new(File::create(&path)?)?;
    let mut number = 0;
    while training.recorder.events < events {
        training.step(number)?;
        number += 1;
    }
    let mut recorder = training.recorder;
    recorder.flush()?;
    recorder.writer.finish(&Ending { reason: String::new(), at_micros: recorder.now.0 })?;
    Ok(())
}
