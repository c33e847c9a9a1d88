//! A stretch of a recording: what one flush appends to the file.
//!
//! Rows refer to each other by id only, so a batch can be encoded, decoded and appended without the
//! earlier ones. Definitions come with the batch in which they are first used.

use crate::attachment::{GpuMemory, SourceFile};
use crate::event::{AllocationId, Bytes, Category, Device, EventKind, Micros, TextKind};
use crate::journal::{Definition, Record};
use crate::losses::LeftOut;

/// One event, as the file stores it. `kind` decides which fields are used; the rest are zero, which
/// compresses to nothing. `docs/trace-format.md` has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// What happened.
    pub kind: EventKind,
    /// Where.
    pub device: Device,
    /// The thread.
    pub thread: u16,
    /// The time since the recording began.
    pub time: Micros,
    /// Of the block or segment.
    pub addr: u64,
    /// Rounded size of a block, size of a segment, size of a failed request, or reserved bytes.
    pub bytes: u64,
    /// `bytes` minus the requested bytes.
    pub slack: u64,
    /// The call stack; for `Label`, the label; for `Mark` and phases, the text; for `Step`, the number.
    pub stack: u32,
    /// For events about an allocation, its id. On disk: its distance in allocations.
    pub allocation: AllocationId,
    /// The operator, where operators are recorded.
    pub op: u32,
    /// The phase that the user named, where one is open.
    pub phase: u32,
    /// The stream, where known.
    pub stream: u16,
    /// The pool, where known.
    pub pool: u16,
    /// [`crate::journal::FLAG_BACKWARD`] and [`crate::journal::FLAG_DEFERRED`].
    pub flags: u8,
}

impl Row {
    /// An event of this kind with everything else empty.
    pub fn new(kind: EventKind, device: Device, thread: u16, time: Micros) -> Self {
        Self {
            kind,
            device,
            thread,
            time,
            addr: 0,
            bytes: 0,
            slack: 0,
            stack: 0,
            allocation: AllocationId(0),
            op: 0,
            phase: 0,
            stream: 0,
            pool: 0,
            flags: 0,
        }
    }
}

/// A node of the call tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackRow {
    /// Its id: dense, from 1.
    pub id: u32,
    /// The caller; 0 at the outermost frame.
    pub parent: u32,
    /// The function; 0 for none.
    pub code: u32,
    /// The line in that function's file that was running.
    pub line: u32,
    /// The module whose `forward` this frame is; 0 for none.
    pub module: u32,
    /// [`crate::stack_flags`].
    pub flags: u8,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRow {
    /// Its id: dense, from 1.
    pub id: u32,
    /// The line of its `def`.
    pub first_line: u32,
    /// The file.
    pub file: String,
    /// The qualified name; before Python 3.11 the plain name.
    pub name: String,
}

/// A module object, or another name of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleRow {
    /// Its id: dense, from 1.
    pub id: u32,
    /// The module that the name starts from; 0 while the module has no name.
    pub root: u32,
    /// The class.
    pub class: String,
    /// The qualified name below the root: `layers.3.mlp`. Empty for the root itself, or when unknown.
    pub name: String,
}

/// The label of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRow {
    /// Its id: dense, from 1.
    pub id: u32,
    /// Its category.
    pub category: Category,
    /// Its qualified name.
    pub name: String,
    /// Its shape, in Python's notation.
    pub shape: String,
    /// Its dtype, without the `torch.` in front.
    pub dtype: String,
}

/// A name of something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRow {
    /// Its id: dense, from 1, across all kinds.
    pub id: u32,
    /// What it names.
    pub kind: TextKind,
    /// The name.
    pub text: String,
}

/// torch's own totals of a device at the end of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// Where.
    pub device: Device,
    /// Allocated bytes.
    pub allocated: Bytes,
    /// Reserved bytes; 0 if nothing is reserved.
    pub reserved: Bytes,
}

/// One flush: definitions, events, and the state at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Events, in order.
    pub rows: Vec<Row>,
    /// New nodes of the call tree.
    pub stacks: Vec<StackRow>,
    /// New functions.
    pub codes: Vec<CodeRow>,
    /// New modules, and new names of modules.
    pub modules: Vec<ModuleRow>,
    /// New labels.
    pub labels: Vec<LabelRow>,
    /// New texts.
    pub texts: Vec<TextRow>,
    /// Copies of source files.
    pub sources: Vec<SourceFile>,
    /// What NVML said about the memory of the GPUs, in order.
    pub gpu_memory: Vec<GpuMemory>,
    /// The number of the first allocation of this batch.
    pub first_allocation: u32,
    /// The time of the event before the first one.
    pub start: Micros,
    /// Journal records up to and including this time are in the file, in nanoseconds since the beginning.
    pub through_nanos: u64,
    /// Totals at the end.
    pub totals: Vec<Total>,
    /// Events whose totals did not agree with what torch reported, since the recording began.
    pub disagreements: u64,
    /// What the recorder could not record, since the recording began.
    pub left_out: LeftOut,
}

impl Batch {
    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.stacks.is_empty()
            && self.codes.is_empty()
            && self.modules.is_empty()
            && self.labels.is_empty()
            && self.texts.is_empty()
            && self.sources.is_empty()
            && self.gpu_memory.is_empty()
    }

    /// Adds the definition of a record; other records are ignored.
    pub fn define(&mut self, record: &Record, payload: &[u8]) {
        match Definition::from_record(record, payload) {
            Some(Definition::Code { id, first_line, file, name }) => {
                self.codes.push(CodeRow { id, first_line, file, name });
            }
            Some(Definition::Stack { id, parent, code, line, module, flags }) => {
                self.stacks.push(StackRow { id, parent, code, line, module, flags });
            }
            Some(Definition::Module { id, root, class, name }) => {
                self.modules.push(ModuleRow { id, root, class, name });
            }
            Some(Definition::Label { id, category, name, shape, dtype }) => {
                self.labels.push(LabelRow { id, category, name, shape, dtype });
            }
            Some(Definition::Text { id, kind, text }) => {
                self.texts.push(TextRow { id, kind, text });
            }
            None => {}
        }
    }

    /// About how much memory the batch takes.
    pub fn held_bytes(&self) -> usize {
        let names = |row: &ModuleRow| row.class.len() + row.name.len();
        self.rows.len() * size_of::<Row>()
            + self.stacks.len() * size_of::<StackRow>()
            + self.codes.iter().map(|row| row.file.len() + row.name.len()).sum::<usize>()
            + self.modules.iter().map(names).sum::<usize>()
            + self.labels.len() * size_of::<LabelRow>()
            + self.texts.iter().map(|row| row.text.len()).sum::<usize>()
            + self.gpu_memory.len() * size_of::<GpuMemory>()
    }
}
