//! Converts errors of the Rust crates to Python exceptions.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use floodmark_analysis::SimulationError;
use floodmark_export::ExportError;
use floodmark_files::traces::OpenError;
use floodmark_probe::StartError;
use floodmark_profiles::GpuError;
use floodmark_text::terminal_safe::safe_lines;
use floodmark_trace::Hint;
use pyo3::PyResult;
use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::{PyErr, create_exception};
use serde::Serialize;

create_exception!(
    floodmark._core,
    FloodmarkError,
    PyException,
    "floodmark cannot do what was requested; the message says why and what to do."
);

create_exception!(
    floodmark._core,
    SnapshotError,
    FloodmarkError,
    "A file looks like a pickle and cannot be read as a torch memory snapshot."
);

create_exception!(
    floodmark._core,
    PhantomError,
    FloodmarkError,
    "No GPU can be simulated in this process; the message says why and what to do."
);

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Writing to a string does not fail.
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    safe_lines(&text).into_owned()
}

/// The error, its causes and its hint, on one line each, without control characters.
fn message(error: &(impl Error + Hint)) -> String {
    let mut text = with_causes(error);
    if let Some(hint) = error.hint() {
        let _ = write!(text, "\nhint: {hint}");
    }
    text
}

pub(crate) fn from_open(path: &Path, error: &OpenError) -> PyErr {
    let text = format!("`{}`: {}", safe_lines(&path.to_string_lossy()), message(error));
    match error {
        OpenError::Missing => PyFileNotFoundError::new_err(text),
        OpenError::Io(source) => from_os(source, text),
        OpenError::Snapshot(_) => SnapshotError::new_err(text),
        OpenError::NotAFile(_) | OpenError::BadLimit(_) | OpenError::Read(_) | _ => {
            FloodmarkError::new_err(text)
        }
    }
}

pub(crate) fn from_simulation(error: &SimulationError) -> PyErr {
    let is_of_settings = matches!(error, SimulationError::Config(_));
    let text = message(error);
    if is_of_settings { PyValueError::new_err(text) } else { FloodmarkError::new_err(text) }
}

pub(crate) fn from_gpu(error: &GpuError) -> PyErr {
    PhantomError::new_err(message(error))
}

/// Converts an error of loading or using the phantom.
pub(crate) fn from_phantom(error: &dyn Error) -> PyErr {
    PhantomError::new_err(with_causes(error))
}

/// Converts an error that has no exception of Python's own.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn from_ours(error: impl Error + Hint) -> PyErr {
    FloodmarkError::new_err(message(&error))
}

pub(crate) fn from_export(error: &ExportError) -> PyErr {
    match error {
        ExportError::Io(source) => from_os(source, message(error)),
        ExportError::Question(_) | ExportError::NeedsFolder | _ => {
            FloodmarkError::new_err(message(error))
        }
    }
}

/// Converts an error of the system to Python's own class: `PermissionError`, `IsADirectoryError`, ….
fn from_os(source: &std::io::Error, text: String) -> PyErr {
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text)),
        None => PyOSError::new_err(text),
    }
}

pub(crate) fn from_start(error: &StartError) -> PyErr {
    match error {
        StartError::LimitTooSmall { .. } => PyValueError::new_err(message(error)),
        StartError::Busy | StartError::Stopped { .. } => PyRuntimeError::new_err(message(error)),
        StartError::File { source, .. } | StartError::Journal { source, .. } => {
            from_os(source, message(error))
        }
        StartError::Occupied { .. } | StartError::InUse { .. } | StartError::Unfinished { .. } => {
            PyFileExistsError::new_err(message(error))
        }
        StartError::Recorder(_) | _ => FloodmarkError::new_err(message(error)),
    }
}

pub(crate) fn wrong_argument(error: impl Error) -> PyErr {
    PyValueError::new_err(safe_lines(&error.to_string()).into_owned())
}

/// Converts a value to JSON.
pub(crate) fn to_json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(wrong_argument)
}
