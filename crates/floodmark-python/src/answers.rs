//! Answers beyond the report as Python objects: text, HTML and the documented JSON.

use pyo3::prelude::*;

use crate::errors::wrong_argument;

/// What grew between two traces.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct Diff(pub(crate) floodmark_analysis::Diff);

#[pymethods]
impl Diff {
    fn __str__(&self) -> String {
        floodmark::render(&self.0)
    }

    fn _repr_html_(&self) -> String {
        floodmark::render_html(&self.0)
    }

    /// The documented JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(wrong_argument)
    }
}

/// What grows from step to step.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct Leaks(pub(crate) floodmark_analysis::Leaks);

#[pymethods]
impl Leaks {
    fn __str__(&self) -> String {
        floodmark::render(&self.0)
    }

    fn _repr_html_(&self) -> String {
        floodmark::render_html(&self.0)
    }

    /// The documented JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(wrong_argument)
    }
}
