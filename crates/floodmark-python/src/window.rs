//! A window on the recorder's events as a Python object.

use std::path::PathBuf;

use floodmark_files::traces::GrowingWindow;
use floodmark_modes::BlockSource;
use floodmark_probe::{OpenWindow, Replace, WindowNews, WindowOptions};
use floodmark_trace::{Header, RecordingOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{from_open, from_start, to_json, wrong_argument};
use crate::trace::Trace;

fn header_from(json: &str) -> PyResult<Header> {
    serde_json::from_str(json).map_err(wrong_argument)
}

fn options_from(json: &str) -> PyResult<RecordingOptions> {
    serde_json::from_str(json).map_err(|error| PyTypeError::new_err(error.to_string()))
}

/// The options of a recording with defaults filled in, as JSON.
#[pyfunction]
pub(crate) fn recording_options(given: &str) -> PyResult<String> {
    to_json(&options_from(given)?)
}

/// What a recording may replace at its path.
#[pyclass(frozen, from_py_object, rename_all = "SCREAMING_SNAKE_CASE", module = "floodmark._core")]
#[derive(Clone, Copy)]
pub(crate) enum MayReplace {
    Nothing,
    Trace,
    AnyFile,
}

/// An open window.
#[pyclass(frozen, module = "floodmark._core")]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub(crate) struct Window {
    opened: OpenWindow,
    /// The part that was read.
    read: GrowingWindow,
    /// Whether the recorder was running already.
    #[pyo3(get)]
    is_attached: bool,
    /// Whether the recorder knew the live blocks in host memory.
    #[pyo3(get)]
    has_cpu: bool,
    /// Whether the recorder knew the live blocks on its CUDA devices.
    #[pyo3(get)]
    has_cuda: bool,
    /// Whether the recorder is new, so that modules and tensors have no names yet.
    #[pyo3(get)]
    is_renewed: bool,
}

#[pymethods]
impl Window {
    /// Opens a window that writes to `path`; without a path it writes to memory, and to `spill` when memory exceeds its
    /// limit. `cuda` has a bit for each ordinal.
    ///
    /// Holds the GIL: this may remove the hooks of an earlier recorder.
    #[new]
    #[pyo3(signature = (path, *, spill, replace, cpu, cuda, source, recording, header, own_folders))]
    #[expect(clippy::too_many_arguments, reason = "keywords")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        spill: PathBuf,
        replace: MayReplace,
        cpu: bool,
        cuda: u64,
        source: BlockSource,
        recording: &str,
        header: &str,
        own_folders: Vec<String>,
    ) -> PyResult<Self> {
        let header = header_from(header)?;
        let replace = match replace {
            MayReplace::Nothing => Replace::Nothing,
            MayReplace::Trace => Replace::Trace,
            MayReplace::AnyFile => Replace::AnyFile,
        };
        let options = WindowOptions {
            path,
            spill,
            replace,
            cpu,
            cuda,
            source: source.0,
            recording: options_from(recording)?,
            header,
            own_folders,
        };
        let (window, found) = floodmark_probe::open(options).map_err(|error| from_start(&error))?;
        if found.is_renewed {
            py.detach(|| window.settle());
        }
        Ok(Self {
            opened: window,
            read: GrowingWindow::default(),
            is_attached: found.is_attached,
            has_cpu: found.has_cpu,
            has_cuda: found.has_cuda,
            is_renewed: found.is_renewed,
        })
    }

    /// Closes the window.
    ///
    /// Holds the GIL: this releases code objects.
    fn close(&self) {
        self.opened.close();
    }

    /// Waits until everything is written. Returns the bytes, the records, and why recording stopped early.
    fn written(&self, py: Python<'_>) -> (u64, u64, String) {
        let written = py.detach(|| self.opened.written());
        (written.bytes, written.records, written.failure)
    }

    /// Replaces the header.
    fn update_header(&self, header: &str) -> PyResult<()> {
        self.opened.update_header(header_from(header)?);
        Ok(())
    }

    /// The trace so far.
    fn trace(&self, py: Python<'_>) -> PyResult<Trace> {
        py.detach(|| {
            self.opened.catch_up();
            let news = |read| self.opened.news(read).map(WindowNews::into_parts);
            if let Some(view) = self.read.read_memory(news) {
                return Ok(view);
            }
            let path = self.opened.file().unwrap_or_default();
            self.read.read_file(&path).map_err(|error| from_open(&path, &error))
        })
        .map(Trace)
    }

    /// Writes a recording in memory to a file; a recording in a file stays there.
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python path")]
    fn write_to(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        if self.opened.file().is_none() {
            py.detach(|| self.opened.write_to(&path))?;
        }
        Ok(())
    }

    /// Ends a step in this window only. Returns its number.
    fn step(&self) -> u32 {
        self.opened.step()
    }

    /// Begins a phase on this thread in this window only.
    fn begin_phase(&self, name: &Bound<'_, PyString>) {
        self.opened.begin_phase(&name.to_string_lossy());
    }

    /// Ends the innermost phase of this window on this thread.
    fn end_phase(&self) {
        self.opened.end_phase();
    }

    /// The totals of the finished steps, as JSON. Waits up to `wait_millis` for the last one.
    fn ended_steps(&self, py: Python<'_>, first: u32, wait_millis: u64) -> PyResult<String> {
        let steps = py.detach(|| self.opened.ended_steps(first, wait_millis));
        serde_json::to_string(&steps).map_err(wrong_argument)
    }

    /// The peak of allocated bytes on each device so far: its name, and the bytes.
    fn peaks(&self, py: Python<'_>, wait_millis: u64) -> Vec<(String, u64)> {
        let peaks = py.detach(|| self.opened.peaks(wait_millis));
        peaks.into_iter().map(|(device, bytes)| (device.to_string(), bytes.0)).collect()
    }
}
