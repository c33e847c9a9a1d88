//! The command line, called in process.

use std::ffi::OsString;
use std::path::PathBuf;

use floodmark::{Outcome, Target};
use floodmark_trace::Engine;
use pyo3::prelude::*;

use crate::answers::Estimate;
use crate::phantom::PhantomMachine;

const _: () = assert!(floodmark::LEAST_RECORDER_BYTES == floodmark_probe::LEAST_MEMORY_BYTES);

/// What `floodmark run` was asked to do.
#[pyclass(frozen, get_all, module = "floodmark._core")]
#[expect(clippy::struct_excessive_bools, reason = "attributes on the Python side")]
pub(crate) struct RunPlan {
    output: Option<PathBuf>,
    /// A string, since a `Path` of Python would change `a//b.py`.
    script: Option<OsString>,
    module: Option<String>,
    args: Vec<OsString>,
    devices: Option<Vec<String>>,
    stacks: bool,
    ops: bool,
    stores_source: bool,
    max_memory: u64,
    follow_fork: bool,
    quiet: bool,
    force: bool,
    changes: Vec<String>,
    hint: Option<String>,
}

impl From<floodmark::RunPlan> for RunPlan {
    fn from(plan: floodmark::RunPlan) -> Self {
        let (script, module) = match plan.target {
            Target::Script(path) => (Some(path.into_os_string()), None),
            Target::Module(name) => (None, Some(name)),
        };
        Self {
            output: plan.output,
            script,
            module,
            args: plan.args,
            devices: plan.devices.map(|all| all.iter().map(ToString::to_string).collect()),
            stacks: plan.stacks,
            ops: plan.ops,
            stores_source: plan.stores_source,
            max_memory: plan.max_memory_bytes,
            follow_fork: plan.follow_fork,
            quiet: plan.quiet,
            force: plan.force,
            changes: plan.changes.iter().map(ToString::to_string).collect(),
            hint: plan.hint,
        }
    }
}

/// What `floodmark estimate` was asked to do.
#[expect(clippy::struct_excessive_bools, reason = "attributes on the Python side")]
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct EstimatePlan {
    run: Py<RunPlan>,
    engine: Option<&'static str>,
    machine: Py<PhantomMachine>,
    steps: Option<u32>,
    until_steady: bool,
    reruns: bool,
    counts_operators: bool,
    measures_step: bool,
    json: bool,
}

/// That `floodmark doctor` was asked for.
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct DoctorPlan {
    json: bool,
}

/// Prints what was found for `floodmark doctor`, which is JSON. Returns the exit status.
#[pyfunction]
pub(crate) fn show_doctor(py: Python<'_>, facts: &str, json: bool) -> u8 {
    py.detach(|| floodmark::show_doctor(facts, json)) as u8
}

/// The text of an estimate: with bars and colours where stdout is a terminal that shows them, else plain.
#[pyfunction]
pub(crate) fn estimate_for_stdout(estimate: &Estimate) -> String {
    floodmark::show(&estimate.0)
}

/// Runs a command. Returns its exit status, the version to print, or what is left to do.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python string")]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>, python: OsString) -> PyResult<Py<PyAny>> {
    Ok(match py.detach(|| floodmark::main(args, &python)) {
        Outcome::Exit(status) => (status as u8).into_pyobject(py)?.into_any().unbind(),
        Outcome::Run(plan) => Py::new(py, RunPlan::from(plan))?.into_any(),
        Outcome::Doctor { json } => Py::new(py, DoctorPlan { json })?.into_any(),
        Outcome::Version(version) => version.into_pyobject(py)?.into_any().unbind(),
        Outcome::Estimate(plan) => {
            let plan = EstimatePlan {
                run: Py::new(py, RunPlan::from(plan.run))?,
                engine: plan.engine.map(Engine::name),
                machine: Py::new(py, PhantomMachine::from(plan.machine))?,
                steps: plan.steps,
                until_steady: plan.until_steady,
                reruns: plan.reruns,
                counts_operators: plan.counts_operators,
                measures_step: plan.measures_step,
                json: plan.json,
            };
            Py::new(py, plan)?.into_any()
        }
    })
}
