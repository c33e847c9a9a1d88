//! The command line, called in process.

use std::ffi::OsString;
use std::path::PathBuf;

use floodmark::{Outcome, Target};
use pyo3::prelude::*;

/// What `floodmark run` was asked to do.
#[pyclass(frozen, get_all, module = "floodmark._core")]
#[expect(clippy::struct_excessive_bools, reason = "attributes on the Python side")]
pub(crate) struct RunPlan {
    output: Option<PathBuf>,
    script: Option<PathBuf>,
    module: Option<String>,
    args: Vec<OsString>,
    devices: Option<Vec<String>>,
    stacks: bool,
    ops: bool,
    max_memory: u64,
    follow_fork: bool,
    quiet: bool,
    force: bool,
}

/// Runs a command. Returns its exit status, or what is left to do.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>) -> PyResult<Py<PyAny>> {
    let plan = match py.detach(|| floodmark::main(args)) {
        Outcome::Exit(status) => {
            return Ok((status as u8).into_pyobject(py)?.into_any().unbind());
        }
        Outcome::Run(plan) => plan,
    };
    let (script, module) = match plan.target {
        Target::Script(path) => (Some(path), None),
        Target::Module(name) => (None, Some(name)),
    };
    let plan = RunPlan {
        output: plan.output,
        script,
        module,
        args: plan.args,
        devices: plan.devices.map(|all| all.iter().map(ToString::to_string).collect()),
        stacks: plan.stacks,
        ops: plan.ops,
        max_memory: plan.max_memory_bytes,
        follow_fork: plan.follow_fork,
        quiet: plan.quiet,
        force: plan.force,
    };
    Ok(Py::new(py, plan)?.into_any())
}
