//! Inside the traced process: sees every allocation as it happens.
//!
//! torch calls one exported function for every block that it allocates or frees, through slots of
//! its shared objects (`floodmark-slots`). [`patch`] puts the functions of [`hooks`] there. A hook notes what
//! happened in the journal of its thread ([`thread`], [`segments`]), with the Python stack ([`python`],
//! [`stacks`]) or, in backward, the stack of the forward operator ([`autograd`]). A thread of our own
//! ([`writer`]) turns the journals into the trace file.
//!
//! Nothing here raises into the program, waits for it, takes the GIL on the hot path or keeps a tensor
//! alive. When something goes wrong, recording stops and says so once; the program goes on.

mod autograd;
mod budget;
mod bus_error;
mod clock;
mod ended_steps;
mod fake_blocks;
mod fork_flag;
mod free_later;
mod gil_thread;
mod gil_work;
mod handover;
mod hidden_result;
mod hooks;
mod host_storages;
mod initial_blocks;
mod known;
mod mapping;
mod merge;
mod names;
mod ops;
mod output;
mod own_blocks;
mod own_file;
mod own_thread;
mod patch;
mod peaks;
mod python;
mod recording;
mod saved_tensors;
mod segments;
mod session;
mod shortcuts;
mod signals;
mod sink;
mod sinks;
mod stacks;
mod start_error;
mod state_file;
mod tensor_storage;
#[cfg(test)]
mod test_recorder;
mod thread;
mod touched_sources;
mod tracker;
mod window_state;
mod windows;
mod writer;

pub use budget::LEAST_MEMORY_BYTES;
pub use fake_blocks::{
    FakeBlock, SegmentChange, begin_fake_op_call, is_backward, record_fake_alloc, record_fake_free,
    record_fake_oom, record_fake_segment, set_fake_storage,
};
pub use gil_thread::wait_for_names;
pub use gil_work::{set_backward_handler, set_gil_work_handler};
pub use host_storages::record_host_blocks;
pub use initial_blocks::{InitialBlock, InitialBlocks};
pub use output::Replace;
pub use own_blocks::HostWork;
pub use patch::{Found, with_phantoms_slots_free};
pub use python::{
    CodeFacts, DEEPEST, Evidence, ProofError, StrFacts, cut_stacks, is_proven, prove, use_slow_way,
};
pub use recording::{Options, Source, lend_cuda};
pub use session::{
    Attached, LabelledTensor, attach_ops, attach_torch, attach_tracker, begin_phase, define_label,
    disarm, end_phase, forget_module, is_recording, label, label_each, mark, name_modules,
    note_optimizer, pin_running_code, step,
};
pub use signals::without_signals;
pub use start_error::{Occupant, StartError};
pub use tensor_storage::{KnownTensor, prove_tensors};
pub use windows::{Found as FoundRecorder, OpenWindow, WindowNews, open};
pub use writer::Written;
