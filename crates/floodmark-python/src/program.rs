//! The command line, called in process.

use std::ffi::OsString;
use std::path::PathBuf;

use floodmark::{Outcome, Target};
use floodmark_trace::Bytes;
use pyo3::prelude::*;

use crate::errors::from_gpu;

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
    max_memory: u64,
    follow_fork: bool,
    quiet: bool,
    force: bool,
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
            max_memory: plan.max_memory_bytes,
            follow_fork: plan.follow_fork,
            quiet: plan.quiet,
            force: plan.force,
            hint: plan.hint,
        }
    }
}

/// A machine with simulated GPUs.
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct PhantomMachine {
    gpu: String,
    name: String,
    is_checked: bool,
    memory: u64,
    context: u64,
    gpus: u32,
    rank: Option<u32>,
    world: Option<u32>,
    answers: Vec<String>,
    settings: String,
}

impl From<floodmark_profiles::PhantomMachine> for PhantomMachine {
    fn from(machine: floodmark_profiles::PhantomMachine) -> Self {
        Self {
            settings: machine.settings(),
            gpu: machine.gpu,
            name: machine.profile.name,
            is_checked: machine.profile.checked,
            memory: machine.profile.memory,
            context: machine.profile.context,
            gpus: machine.gpus,
            rank: machine.ranks.map(|(rank, _)| rank),
            world: machine.ranks.map(|(_, world)| world),
            answers: machine.answers,
        }
    }
}

#[pymethods]
impl PhantomMachine {
    /// Finds the GPU profile of a name, or of a TOML file.
    #[new]
    #[pyo3(signature = (gpu, *, memory = None, gpus = 1, ranks = None, answers = Vec::new()))]
    fn new(
        gpu: &str,
        memory: Option<u64>,
        gpus: u32,
        ranks: Option<(u32, u32)>,
        answers: Vec<String>,
    ) -> PyResult<Self> {
        let machine = floodmark_profiles::PhantomMachine::new(gpu, memory.map(Bytes), gpus);
        let machine = machine.map_err(|error| from_gpu(&error))?;
        Ok(Self::from(floodmark_profiles::PhantomMachine { ranks, answers, ..machine }))
    }
}

/// What `floodmark estimate` was asked to do.
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct EstimatePlan {
    run: Py<RunPlan>,
    engine: Option<&'static str>,
    machine: Py<PhantomMachine>,
    steps: Option<u32>,
    json: bool,
}

/// Runs a command. Returns its exit status, or what is left to do.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python string")]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>, python: OsString) -> PyResult<Py<PyAny>> {
    Ok(match py.detach(|| floodmark::main(args, &python)) {
        Outcome::Exit(status) => (status as u8).into_pyobject(py)?.into_any().unbind(),
        Outcome::Run(plan) => Py::new(py, RunPlan::from(plan))?.into_any(),
        Outcome::Estimate(plan) => {
            let plan = EstimatePlan {
                run: Py::new(py, RunPlan::from(plan.run))?,
                engine: plan.engine,
                machine: Py::new(py, PhantomMachine::from(plan.machine))?,
                steps: plan.steps,
                json: plan.json,
            };
            Py::new(py, plan)?.into_any()
        }
    })
}
