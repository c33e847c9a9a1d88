//! The command line, called in process.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use floodmark::{Outcome, Target};
use floodmark_text::terminal_safe::safe_lines;
use floodmark_trace::Engine;
use pyo3::prelude::*;

use crate::answers::Estimate;
use crate::errors::to_json;
use crate::phantom::PhantomMachine;

const _: () = assert!(floodmark::LEAST_RECORDER_BYTES == floodmark_probe::LEAST_MEMORY_BYTES);

/// What `floodmark run` was asked to do.
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct RunRequest {
    output: Option<PathBuf>,
    /// A string, since a `Path` of Python would change `a//b.py`.
    script: Option<OsString>,
    module: Option<String>,
    args: Vec<OsString>,
    devices: Option<Vec<String>>,
    /// The options of the recording as JSON.
    recording: String,
    quiet: bool,
    force: bool,
    changes: Vec<String>,
    hint: Option<String>,
}

impl TryFrom<floodmark::RunRequest> for RunRequest {
    type Error = PyErr;

    fn try_from(request: floodmark::RunRequest) -> PyResult<Self> {
        let (script, module) = match request.target {
            Target::Script(path) => (Some(path.into_os_string()), None),
            Target::Module(name) => (None, Some(name)),
        };
        Ok(Self {
            output: request.output,
            script,
            module,
            args: request.args,
            devices: request.devices.map(|all| all.iter().map(ToString::to_string).collect()),
            recording: to_json(&request.recording)?,
            quiet: request.quiet,
            force: request.force,
            changes: request.changes.iter().map(ToString::to_string).collect(),
            hint: request.hint,
        })
    }
}

/// What `floodmark estimate` was asked to do.
#[expect(clippy::struct_excessive_bools, reason = "attributes on the Python side")]
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct EstimateRequest {
    run: Py<RunRequest>,
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
pub(crate) struct DoctorRequest {
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

/// The text without anything that a terminal would obey, but for the ends of lines.
#[pyfunction]
pub(crate) fn terminal_safe(text: &str) -> Cow<'_, str> {
    safe_lines(text)
}

/// Runs a command. Returns its exit status, the version to print, or what is left to do.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python string")]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>, python: OsString) -> PyResult<Py<PyAny>> {
    Ok(match py.detach(|| floodmark::main(&args, &python)) {
        Outcome::Exit(status) => (status as u8).into_pyobject(py)?.into_any().unbind(),
        Outcome::Run(request) => Py::new(py, RunRequest::try_from(request)?)?.into_any(),
        Outcome::Doctor { json } => Py::new(py, DoctorRequest { json })?.into_any(),
        Outcome::Version(version) => version.into_pyobject(py)?.into_any().unbind(),
        Outcome::Estimate(request) => {
            let request = EstimateRequest {
                run: Py::new(py, RunRequest::try_from(request.run)?)?,
                engine: request.engine.map(Engine::name),
                machine: Py::new(py, PhantomMachine::from(request.machine))?,
                steps: request.steps,
                until_steady: request.until_steady,
                reruns: request.reruns,
                counts_operators: request.counts_operators,
                measures_step: request.measures_step,
                json: request.json,
            };
            Py::new(py, request)?.into_any()
        }
    })
}
