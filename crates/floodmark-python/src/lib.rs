//! The boundary: convert in, one call without the GIL, convert out, map errors. Other crates decide.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`errors`]: errors of the Rust crates as Python exceptions.
//! 2. [`answers`]: answers as Python objects; [`phantom`]: the phantom's library and the machine that it simulates; [`recorder`]: the
//!    functions of a running recording.
//! 3. [`program`]: the command line, called in process; [`trace`]: traces and reports as Python objects.
//! 4. [`window`]: a window on the recorder's events as a Python object.
#![forbid(unsafe_code)]

mod answers;
mod errors;
mod phantom;
mod program;
mod recorder;
mod trace;
mod window;

use pyo3::prelude::*;

/// The recorder has its own heap, so that its allocations do not change the size or the page faults of the program's
/// heap.
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The extension module of the Python package.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::answers::{Advice, Diff, Estimate, Leaks, Ledger, Oom, OomMessages, Simulation};
    #[pymodule_export]
    use super::errors::{FloodmarkError, PhantomError, SnapshotError};
    #[pymodule_export]
    use super::phantom::{
        AnswerKind, Certainty, PhantomLibrary, PhantomMachine, UnsupportedCall, phantom_image,
    };
    #[pymodule_export]
    use super::program::{
        DoctorRequest, EstimateRequest, RunRequest, main, parse_change, show_doctor, terminal_safe,
    };
    #[pymodule_export]
    use super::recorder::{
        attach_ops, attach_torch, attach_tracker, begin_phase, call_on_own_thread, cut_stacks,
        disarm, end_phase, is_being_recorded, is_recording, mark, parse_size, prove, prove_tensors,
        record_host_blocks, record_initial_blocks, step, strings_to_prove_with, use_slow_stacks,
    };
    #[pymodule_export]
    use super::trace::{Report, Trace, draw, explain_oom};
    #[pymodule_export]
    use super::window::{MayReplace, Window, recording_options};
    #[pymodule_export]
    use floodmark_modes::{
        AttentionKernel, BlockSource, FunctionKind, Functions, Kernel, KernelKind, OperatorKind,
        Operators, OwnWork, TeFusedAttention, TeLayout, TeNorm, TeQuantizer,
        cudnn_dropout_state_bytes, lend_cuda, te_dropout_mask_bytes, te_float8_buffers,
        te_transposed,
    };
    #[pymodule_export]
    use floodmark_names::{
        OptimizerHooks, RunningSteps, attach_names, forget_names, label_tensor, set_address_finder,
    };

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("LEAST_MEMORY_BYTES", floodmark_probe::LEAST_MEMORY_BYTES)?;
        floodmark_probe::set_gil_work_handler(floodmark_names::name_seen_modules);
        floodmark_probe::set_backward_handler(floodmark_names::after_backward);
        Ok(())
    }
}
