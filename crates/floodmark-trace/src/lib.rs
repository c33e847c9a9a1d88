//! What an event is, and how events lie on disk.
//!
//! A recording passes through three forms, and this crate owns all of them:
//!
//! 1. [`journal`]: fixed-size records that a traced thread writes into a shared mapping. They survive
//!    the death of the process, because the kernel owns the pages.
//! 2. [`Batch`]: a stretch of records in order, with addresses turned into allocations. The
//!    [`Assembler`] makes it, once while the program runs, and once more when a reader finds records
//!    that the program did not live to write.
//! 3. [`frame`]: checksummed frames around Arrow messages, appended to the `.flood` file.
//!
//! [`Trace`] is what all questions are asked of: immutable, in memory, with dense ids into columns. What is
//! not a `.flood` file becomes one through a [`TraceBuilder`].
//!
//! The crate does not depend on `PyTorch`, opens no path and prints nothing: its input is bytes.

mod assemble;
mod autograd_use;
mod batch;
mod build;
mod changes;
mod check;
mod columns;
mod decode;
mod device_state;
mod event;
mod grow;
mod growing;
mod growing_trace;
mod header;
mod limit;
mod losses;
mod message;
mod modules;
mod named_text;
mod other_file;
mod outcome;
mod phantom;
mod read;
mod source;
mod step_totals;
mod stored_answer;
mod subject;
mod trace;
mod trace_point;
mod window;
mod write;

pub mod frame;
pub mod journal;
pub mod journal_state;

pub use assemble::Assembler;
pub use autograd_use::AutogradUse;
pub use batch::{Batch, CodeRow, LabelRow, ModuleRow, Row, StackRow, TextRow, Total};
pub use build::TraceBuilder;
pub use changes::{AppliedChange, Numerics, OperatorCost, OperatorKind, StepCost};
pub use event::{
    AllocationId, Bytes, Category, CodeId, Device, DeviceAddr, EventBytes, EventKind, EventNumber,
    HandleId, LabelId, Micros, ModuleId, StackId, TextId, TextKind, ThreadId, stack_flags,
};
pub use growing::GrowingReader;
pub use growing_trace::GrowingTrace;
pub use header::{DeviceInfo, Ending, Header};
pub use limit::DecompressionLimit;
pub use losses::{LeftOut, Loss, Losses};
pub use other_file::OtherFile;
pub use outcome::Outcome;
pub use phantom::{Engine, Phantom, PhantomDevice, PhantomEnd, PhantomRead, UnsupportedCall};
pub use read::{ReadError, check_beginning, read_trace, read_trace_within};
pub use source::{
    MOST_FILE_BYTES, MOST_SOURCE_BYTES, SourceFile, is_library_file, is_python_library,
    library_part,
};
pub use step_totals::StepTotals;
pub use stored_answer::{StoreError, append_answer};
pub use subject::{AllocatedChange, ProgramEvent, SegmentChange, Subject};
pub use trace::{Allocation, Code, Event, Label, Module, Oom, Segment, Stack, Trace};
pub use trace_point::TracePoint;
pub use window::{Selection, Window};
pub use write::TraceWriter;

/// What to do about an error, said after it.
pub trait Hint {
    /// One sentence that names the way out, where there is one.
    fn hint(&self) -> Option<&'static str>;
}
