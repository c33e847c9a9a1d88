//! The phantom GPU's library, which travels inside this one.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The bytes of the library, to be loaded before torch is.
#[pyfunction]
pub(crate) fn phantom_image(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, include_bytes!(env!("FLOODMARK_PHANTOM")))
}
