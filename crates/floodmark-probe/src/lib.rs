//! Inside the traced process: sees every allocation as it happens.
//!
//! torch calls one exported function for every block that it allocates or frees, through slots of
//! its shared objects (`floodmark-slots`). The recorder stores the addresses of its hooks there. A hook writes an event into
//! the journal of its thread, with the Python stack or, in backward, the stack of the forward operator. The writer thread
//! turns the journals into trace files.
//!
//! Nothing here raises into the program, takes the GIL on the hot path or keeps a tensor alive. After an error, recording
//! stops and reports it once; the program goes on.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. `clock`: the time of an event; `budget`: the memory limit; `switches`: whether hooks record; `own_threads`: threads
//!    of the recorder; `python`: frames and code objects of the interpreter.
//! 2. `files`: the trace and the journal's folder on disk; `gpu_memory`: what NVML says about all memory of the GPUs; `gil`: work that needs the GIL, deferred; `stacks`: a number for
//!    each call stack.
//! 3. `journal`: events in shared file mappings; `window_state`: what the program and the writer share of a window.
//! 4. `recorder`: the state that hooks work on, and that of each thread.
//! 5. `annotations`: labels, names of modules, steps, marks and phases; `blocks`: blocks that no hook reports.
//! 6. `hooks`: the functions that torch calls instead of its own.
//! 7. `writer`: the thread that turns journals into traces.
//! 8. `windows`: open recordings, and the recorder that runs for them.

mod annotations;
mod blocks;
mod budget;
mod clock;
mod files;
mod gil;
mod gpu_memory;
mod hooks;
mod journal;
mod own_threads;
mod python;
mod recorder;
mod stacks;
mod switches;
#[cfg(test)]
mod test_recorder;
mod window_state;
mod windows;
mod writer;

// Open, read and close a recording.
pub use budget::LEAST_MEMORY_BYTES;
pub use files::output::Replace;
pub use files::start_error::{Occupant, StartError};
pub use recorder::{BlockSource, WindowOptions};
pub use window_state::Written;
pub use windows::open_window::{OpenWindow, RecorderStatus, WindowNews, open};
pub use windows::running_recorder::remove_unused_hooks;

// Attach to torch and to the interpreter.
pub use blocks::tensor_storage::{KnownTensor, prove_tensors};
pub use hooks::attach::{Attached, attach_ops, attach_torch, attach_tracker};
pub use hooks::patch::{HookedFunctions, with_phantom_slots_free};
pub use python::{
    CodeFacts, DEEPEST, Evidence, ProofError, StrFacts, cut_stacks, is_proven, prove, use_slow_way,
};

// Blocks from before the recording, and blocks of fake tensors.
pub use blocks::fake_blocks::{
    FakeBlock, FakeSegmentChange, begin_fake_op_call, is_backward, record_fake_alloc,
    record_fake_free, record_fake_oom, record_fake_segment, set_fake_storage,
};
pub use blocks::host_storages::record_host_blocks;
pub use blocks::initial_blocks::{InitialBlock, InitialBlocks};
pub use blocks::own_blocks::HostWork;
pub use recorder::lend_cuda;

// What Python adds: names, labels, steps, marks, phases.
pub use annotations::{
    LabelledTensor, begin_phase, define_label, end_phase, forget_module, is_recording, label,
    label_each, mark, name_modules, note_optimizer, pin_running_code, step,
};
pub use gil::thread::wait_for_names;
pub use gil::{set_backward_handler, set_gil_work_handler};
pub use own_threads::signals::without_signals;
