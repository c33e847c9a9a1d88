//! Runs a command line in this process.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use floodmark::{NextAction, Target};
use floodmark_profiles::Change;
use floodmark_text::terminal_safe::safe_lines;
use floodmark_trace::Engine;
use pyo3::prelude::*;

use crate::answers::Estimate;
use crate::errors::{to_json, wrong_argument};
use crate::phantom::PhantomMachine;

const _: () = assert!(floodmark::LEAST_RECORDER_BYTES == floodmark_probe::LEAST_MEMORY_BYTES);

/// The request of `floodmark run`.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct RunRequest(floodmark::RunRequest);

#[pymethods]
impl RunRequest {
    #[getter]
    fn output(&self) -> Option<PathBuf> {
        self.0.output.clone()
    }

    /// A string: Python's `Path` would change `a//b.py`.
    #[getter]
    fn script(&self) -> Option<&OsString> {
        if let Target::Script(script) = &self.0.target { Some(script) } else { None }
    }

    #[getter]
    fn module(&self) -> Option<&str> {
        if let Target::Module(name) = &self.0.target { Some(name) } else { None }
    }

    #[getter]
    fn args(&self) -> Vec<&OsString> {
        self.0.args.iter().collect()
    }

    #[getter]
    fn devices(&self) -> Option<Vec<String>> {
        self.0.devices.as_ref().map(|all| all.iter().map(ToString::to_string).collect())
    }

    /// The options of the recording as JSON.
    #[getter]
    fn recording(&self) -> PyResult<String> {
        to_json(&self.0.recording)
    }

    #[getter]
    fn quiet(&self) -> bool {
        self.0.quiet
    }

    #[getter]
    fn force(&self) -> bool {
        self.0.force
    }

    #[getter]
    fn changes(&self) -> Vec<String> {
        self.0.changes.iter().map(ToString::to_string).collect()
    }

    #[getter]
    fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

/// The request of `floodmark estimate`, or of a try of `fit` or `plan`.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct EstimateRequest(floodmark::EstimateRequest);

#[pymethods]
impl EstimateRequest {
    /// The request of a try.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(Self).map_err(wrong_argument)
    }

    #[getter]
    fn run(&self) -> RunRequest {
        RunRequest(self.0.run.clone())
    }

    #[getter]
    fn engine(&self) -> Option<&'static str> {
        self.0.engine.map(Engine::name)
    }

    #[getter]
    fn machine(&self) -> PhantomMachine {
        PhantomMachine(self.0.machine.clone())
    }

    #[getter]
    fn steps(&self) -> Option<u32> {
        self.0.steps
    }

    #[getter]
    fn until_steady(&self) -> bool {
        self.0.until_steady
    }

    #[getter]
    fn reruns(&self) -> bool {
        self.0.reruns
    }

    #[getter]
    fn counts_operators(&self) -> bool {
        self.0.counts_operators
    }

    #[getter]
    fn measures_step(&self) -> bool {
        self.0.measures_step
    }

    /// The output for an estimate: text with bars and colours on a terminal, or JSON.
    fn printed(&self, estimate: &Estimate) -> PyResult<String> {
        floodmark::printed(&estimate.0, &self.0).map_err(wrong_argument)
    }
}

/// The request of `floodmark doctor`.
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct DoctorRequest {
    json: bool,
}

/// Prints the checks of `floodmark doctor`, given as JSON. Returns the exit status.
#[pyfunction]
pub(crate) fn show_doctor(py: Python<'_>, facts: &str, json: bool) -> u8 {
    py.detach(|| floodmark::show_doctor(facts, json)) as u8
}

/// Replaces control characters, except line ends, by visible signs.
#[pyfunction]
pub(crate) fn terminal_safe(text: &str) -> Cow<'_, str> {
    safe_lines(text)
}

/// Parses a change as written after `--with`: its name and its argument.
#[pyfunction]
pub(crate) fn parse_change(text: &str) -> PyResult<(String, String)> {
    text.parse::<Change>().map(|change| change.name_and_argument()).map_err(wrong_argument)
}

/// Runs a command. Returns its exit status, the version to print, or a request for the caller to execute.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python string")]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>, python: OsString) -> PyResult<Py<PyAny>> {
    Ok(match py.detach(|| floodmark::main(&args, &python)) {
        NextAction::Exit(status) => (status as u8).into_pyobject(py)?.into_any().unbind(),
        NextAction::Run(request) => Py::new(py, RunRequest(request))?.into_any(),
        NextAction::Doctor { json } => Py::new(py, DoctorRequest { json })?.into_any(),
        NextAction::Version(version) => version.into_pyobject(py)?.into_any().unbind(),
        NextAction::Estimate(request) => Py::new(py, EstimateRequest(*request))?.into_any(),
    })
}
