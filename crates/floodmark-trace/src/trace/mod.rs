//! A recording in memory: immutable, dense, ready for questions.

mod autograd_use;
mod builder;
mod check_ids;
mod growing;
mod module_paths;
mod outcome;
mod point;
mod push;

use std::collections::{BTreeMap, BTreeSet};

use crate::attachment::{GpuMemory, SourceFile, StoredAnswer};
use crate::batch::Total;
use crate::event::{
    AllocationId, Bytes, Category, CodeId, Device, DeviceAddr, EventNumber, HandleId, LabelId,
    Micros, ModuleId, StackId, Subject, TextId, TextKind, ThreadId, stack_flags,
};
use crate::header::{Ending, Header};
use crate::journal::state::StopNote;
use crate::losses::{LeftOut, Losses};

use autograd_use::AutogradUses;
use check_ids::{Checked, Refused};
use module_paths::{ModulePaths, Redefined, UsedModules};
use push::{Holes, SummedEvents};

pub use autograd_use::AutogradUse;
pub use builder::TraceBuilder;
pub use growing::GrowingTrace;
pub use outcome::Outcome;
pub use point::TracePoint;

/// `made_at` of an allocation whose frame is lost: it was never live.
pub(crate) const LOST: u32 = u32::MAX;

/// One storage, from its allocation to its free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Where.
    pub device: Device,
    /// At which address.
    pub addr: DeviceAddr,
    /// The bytes of its block: `requested`, rounded up.
    pub rounded: Bytes,
    /// The bytes that the program requested.
    pub requested: Bytes,
    /// The stack that caused it: for backward, that of the forward operator.
    pub stack: StackId,
    /// Whether the backward pass allocated it.
    pub backward: bool,
    /// Whether it was allocated before recording began.
    pub before_recording: bool,
    /// Whether it is the first block of an operator call, where operators were recorded.
    pub begins_op_call: bool,
    /// The operator, where recorded.
    pub op: TextId,
    /// The phase that the user named, where one was open.
    pub phase: TextId,
    /// The stream, where known.
    pub stream: HandleId,
    /// The pool, where known.
    pub pool: HandleId,
    /// The thread that allocated it.
    pub thread: ThreadId,
    /// The event that allocated it.
    pub made_at: u32,
    /// The event that freed it.
    pub freed_at: Option<EventNumber>,
    /// The event at which the last stream finished using it, if later than the free.
    pub completed_at: Option<EventNumber>,
    /// The last name it had.
    pub label: LabelId,
}

impl Allocation {
    /// Whether its frame is lost, so that it is unknown.
    pub(crate) fn is_lost(&self) -> bool {
        self.made_at == LOST
    }

    /// Whether it was live right after event number `event`.
    pub fn is_live_after(&self, event: u32) -> bool {
        self.made_at <= event && self.freed_at.is_none_or(|freed| freed.get() > event)
    }
}

/// A segment that the allocator reserved from the driver, or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub addr: DeviceAddr,
    /// How long it is.
    pub bytes: Bytes,
    /// The stream it serves, where known.
    pub stream: HandleId,
    /// The pool it belongs to, if known.
    pub pool: HandleId,
    /// The stack that caused it.
    pub stack: StackId,
}

/// A failed allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oom {
    /// The requested bytes.
    pub requested: Bytes,
    /// The stack of the request.
    pub stack: StackId,
    /// Whether the backward pass requested it.
    pub backward: bool,
    /// The driver's free bytes on the device, if known.
    pub device_free: Option<Bytes>,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Micros,
    /// Where.
    pub device: Device,
    /// The thread.
    pub thread: ThreadId,
    /// What.
    pub subject: Subject,
}

/// A node of the call tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stack {
    /// The caller; `StackId(0)` at the outermost frame.
    pub parent: StackId,
    /// The function.
    pub code: CodeId,
    /// The line.
    pub line: u32,
    /// The module whose `forward` this frame is.
    pub module: ModuleId,
    /// [`crate::stack_flags`], those of the callers included.
    pub flags: u8,
}

/// A function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// Its file.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The line of its `def`.
    pub first_line: u32,
}

/// A module object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Its class.
    pub class: String,
    /// Its names, each with the root it starts from. A shared module has several.
    pub names: Vec<(ModuleId, String)>,
}

/// The label of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Its category.
    pub category: Category,
    /// Its qualified name.
    pub name: String,
    /// Its shape.
    pub shape: String,
    /// Its dtype.
    pub dtype: String,
}

/// A recording. Every id in it is 0 or defined, even if the file was wrong: see `check_ids.rs`.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Where it comes from.
    pub header: Header,
    /// The last frame of a finished file. Without one, [`Trace::outcome`] has what is known.
    pub ending: Option<Ending>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Every allocation, by id.
    pub allocations: Vec<Allocation>,
    /// Segments that events refer to.
    pub segments: Vec<Segment>,
    /// Failed requests.
    pub ooms: Vec<Oom>,
    /// torch's totals at the end.
    pub totals: Vec<Total>,
    /// What is missing.
    pub losses: Losses,
    /// What NVML said about the memory of the GPUs, in order.
    pub gpu_memory: Vec<GpuMemory>,
    /// Copies of source files.
    pub(crate) sources: Vec<SourceFile>,
    /// Answers of commands.
    pub(crate) answers: Vec<StoredAnswer>,
    pub(crate) autograd_uses: AutogradUses,
    pub(crate) stacks: Vec<Stack>,
    pub(crate) codes: Vec<Code>,
    pub(crate) modules: Vec<Module>,
    pub(crate) labels: Vec<Option<Label>>,
    pub(crate) texts: Vec<Option<(TextKind, String)>>,
    pub(crate) paths: ModulePaths,
    pub(crate) unknown_allocations: u64,
    pub(crate) through_nanos: u64,
    /// From the journal, where the file has no ending.
    pub(crate) stop: Option<StopNote>,
    pub(crate) is_running: bool,
    pub(crate) freed_unknown: BTreeSet<(Device, u64)>,
    pub(crate) disagreements: u64,
    pub(crate) left_out: LeftOut,
    /// Whether the size of a block changed since the devices were summed up.
    pub(crate) is_unsealed: bool,
    /// Placeholder entries of dense tables, for ids that the file does not define.
    pub(crate) holes: Holes,
    /// The impossible values of the file.
    pub(crate) refused: Refused,
    pub(crate) checked: Checked,
    /// The devices of rows so far, the last one last.
    pub(crate) seen_devices: Vec<Device>,
    /// Every device with events, and the bytes on it that no event names.
    pub(crate) devices: BTreeMap<Device, Bytes>,
    pub(crate) summed: SummedEvents,
    pub(crate) used_modules: UsedModules,
    pub(crate) redefined: Redefined,
    pub(crate) stack_revision: u64,
    pub(crate) path_revision: u64,
}

// A trace of ten million events is held in memory as a whole.
const _: () = assert!(size_of::<Event>() == 24 && size_of::<Allocation>() == 64);

impl Trace {
    /// A node of the call tree; the empty stack for an id that is not in the file.
    pub fn stack(&self, id: StackId) -> Stack {
        self.stacks.get(id.index()).copied().unwrap_or_default()
    }

    /// How many nodes the call tree has, the empty one included. Ids are below this.
    pub fn stack_count(&self) -> usize {
        self.stacks.len().max(1)
    }

    /// The frames of a stack, innermost first.
    pub fn frames(&self, id: StackId) -> impl Iterator<Item = (StackId, Stack)> {
        let mut next = id;
        std::iter::from_fn(move || {
            let stack = *self.stacks.get(next.index())?;
            if next.0 == 0 {
                return None;
            }
            let here = next;
            next = stack.parent;
            Some((here, stack))
        })
    }

    /// The Python frames of a stack, innermost first: without those of C and C++.
    pub fn python_frames(&self, id: StackId) -> impl Iterator<Item = (StackId, Stack)> {
        self.frames(id).filter(|(_, stack)| stack.flags & stack_flags::NATIVE == 0)
    }

    /// Whether some stack has frames of C or C++.
    pub fn has_native_frames(&self) -> bool {
        self.stacks.iter().any(|stack| stack.flags & stack_flags::NATIVE != 0)
    }

    /// A function, where the file has it.
    pub fn code(&self, id: CodeId) -> Option<&Code> {
        self.codes.get(id.index()).filter(|code| !code.file.is_empty() || !code.name.is_empty())
    }

    /// The copy of a source file, by the path that frames have, where it was stored.
    pub fn source(&self, file: &str) -> Option<&str> {
        let source = self.sources.iter().find(|source| source.file == file);
        source.map(|source| source.text.as_str())
    }

    /// The answer of a command that was stored last, as JSON.
    pub fn answer(&self, command: &str) -> Option<&str> {
        let answer = self.answers.iter().rfind(|answer| answer.command == command);
        answer.map(|answer| answer.json.as_str())
    }

    /// A module object, where the file has it.
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.index()).filter(|module| !module.class.is_empty())
    }

    /// The qualified name of the innermost module on a stack.
    pub fn module_path(&self, id: StackId) -> Option<&str> {
        self.paths.of_stack(id)
    }

    /// Changes when the stack of an older allocation changes, in a growing trace.
    pub fn stack_revision(&self) -> u64 {
        self.stack_revision
    }

    /// Changes when a module on an older stack may have another name, in a growing trace.
    pub fn path_revision(&self) -> u64 {
        self.path_revision
    }

    /// The class of the only model: in a program with one model, qualified names are those of `named_modules()`,
    /// without the model itself. [`Self::is_root`] holds for it.
    pub fn main_root(&self) -> Option<&str> {
        self.paths.main_root()
    }

    /// Whether this qualified name is a model's: no module contains it, even if its class has a dot
    /// in its name.
    pub fn is_root(&self, path: &str) -> bool {
        self.paths.is_root(path)
    }

    /// The class of the innermost module on a stack.
    pub fn module_class(&self, id: StackId) -> Option<&str> {
        let (_, stack) = self.frames(id).find(|(_, stack)| stack.module.0 != 0)?;
        self.module(stack.module).map(|module| module.class.as_str())
    }

    /// A tensor's name, where it has one.
    pub fn label(&self, id: LabelId) -> Option<&Label> {
        self.labels.get(id.index())?.as_ref()
    }

    /// Labels with a category but no name.
    pub(crate) fn nameless_labels(&self) -> impl Iterator<Item = u32> {
        let labels = (0_u32..).zip(&self.labels);
        labels
            .filter(|(_, label)| label.as_ref().is_some_and(|label| label.name.is_empty()))
            .map(|(id, _)| id)
    }

    /// Every label, also replaced ones.
    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter().flatten()
    }

    /// A text, where the file has it.
    pub fn text(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.index())?.as_ref().map(|(_, text)| text.as_str())
    }

    /// Every text, with what it names.
    pub fn texts(&self) -> impl Iterator<Item = (TextId, TextKind, &str)> {
        (0..)
            .map(TextId)
            .zip(&self.texts)
            .filter_map(|(id, text)| text.as_ref().map(|(kind, text)| (id, *kind, text.as_str())))
    }

    /// Every device on which memory was allocated, freed or requested, CPU first.
    pub fn devices(&self) -> Vec<Device> {
        self.devices.keys().copied().collect()
    }

    /// When the recording ended or stopped, or its last event where that is not known.
    pub fn end(&self) -> Micros {
        let stopped = self.stop.as_ref().map_or(0, |stop| stop.at_micros);
        let ended = self.ending.as_ref().map_or(stopped, |ending| ending.at_micros);
        self.last_time().max(Micros(ended))
    }

    /// The time of the last event, regardless of the ending.
    pub(crate) fn last_time(&self) -> Micros {
        self.events.last().map_or(Micros(0), |event| event.time)
    }

    /// Bytes that were allocated when recording began and that no event names: torch's total
    /// less what the events add up to.
    pub fn unseen_at_start(&self, device: Device) -> Bytes {
        self.devices.get(&device).copied().unwrap_or_default()
    }

    /// Sets the size of an allocation's block, for a source that has only requested bytes.
    /// [`Self::seal`] must be called after the last one.
    pub fn set_block_bytes(&mut self, id: AllocationId, bytes: Bytes) {
        if let Some(allocation) = self.allocations.get_mut(id.index())
            && !allocation.is_lost()
        {
            let bytes = bytes.max(allocation.requested);
            // Totals count live allocations only.
            self.is_unsealed |= allocation.freed_at.is_none() && allocation.rounded != bytes;
            allocation.rounded = bytes;
        }
    }

    /// Updates what depends on the sizes of blocks.
    pub fn seal(&mut self) {
        if self.is_unsealed {
            self.sum_up_devices();
        }
    }
}
