//! Defines events and their bytes on disk.
//!
//! A recording has three forms, and this crate defines all of them:
//!
//! - [`journal`]: records of fixed size that a traced thread writes into a shared mapping. The kernel owns the pages, so the
//!   records survive the process.
//! - [`Batch`]: records in order, with allocations in place of addresses. The [`Assembler`] folds records into batches: in the
//!   traced process, and in a reader that finds unwritten records in the journal of a program that died.
//! - [`frame`]: checksummed frames around Arrow messages, appended to the `.flood` file.
//!
//! [`Trace`] is the recording in memory, the input of all analyses: immutable, with dense ids into columns. A
//! [`TraceBuilder`] makes one from any other source.
//!
//! The crate does not depend on `PyTorch`, opens no path and prints nothing: its input is bytes.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. `event`: ids, bytes, times, devices, and what can happen; `limits`: what a file may make a reader do;
//!    [`frame`]: checksummed frames; `hint`: what to do about an error;
//!    `recording_options`: the options of a recording.
//! 2. [`journal`]: records, the ledger that counts them, the state file; `losses`: what is missing from a recording;
//!    `header`: the first frame, with the simulated GPU, the window and the applied changes; `attachment`: copies of
//!    source files, stored answers, what NVML said about the memory of the GPUs.
//! 3. `batch`: the rows of one flush.
//! 4. `tables`: rows as Arrow messages, and back; `trace`: the recording in memory: pushed batch by batch, its ids checked.
//! 5. `assemble`: from records to batches, and which records belong to a window.
//! 6. `file`: the `.flood` file: written, read as a whole, followed while it grows.

mod assemble;
mod attachment;
mod batch;
mod event;
mod file;
mod header;
mod hint;
mod limits;
mod losses;
mod recording_options;
mod tables;
mod trace;

pub mod frame;
pub mod journal;

pub use assemble::{Assembler, Selection, StepTotals};
pub use attachment::{
    GpuMemory, GpuProcess, MOST_FILE_BYTES, MOST_SOURCE_BYTES, SourceFile, is_library_file,
    is_python_library, library_part,
};
pub use batch::{Batch, CodeRow, LabelRow, ModuleRow, Row, StackRow, TextRow, Total};
pub use event::{
    AllocatedChange, AllocationId, Bytes, Category, CodeId, Device, DeviceAddr, EventBytes,
    EventKind, EventNumber, HandleId, LabelId, Micros, ModuleId, PeakPart, ProgramEvent,
    SegmentChange, StackId, Subject, TextId, TextKind, ThreadId, stack_flags,
};
pub use file::{
    GrowingReader, OtherFile, ReadError, StoreError, TraceWriter, append_answer, check_beginning,
    read_trace, read_trace_within,
};
pub use header::{
    AppliedChange, DeviceInfo, Ending, Engine, Header, LibraryBytes, Numerics, OperatorCost,
    OperatorKind, Phantom, PhantomDevice, PhantomEnd, PhantomRead, StepCost, UnsupportedCall,
    Window,
};
pub use hint::Hint;
pub use limits::DecompressionLimit;
pub use losses::{LeftOut, Loss, Losses};
pub use recording_options::RecordingOptions;
pub use trace::{
    Allocation, AutogradUse, Code, Event, GrowingTrace, Label, Module, Oom, Outcome, Segment,
    Stack, Trace, TraceBuilder, TracePoint,
};
