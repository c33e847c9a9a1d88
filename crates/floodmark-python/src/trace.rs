//! Traces and reports as Python objects.

use std::path::PathBuf;
use std::str::FromStr;

use arrow_array::RecordBatchIterator;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use floodmark_analysis::{
    FrameChoice, LayerQuestion, LayerSource, Levels, ProgramEnd, Question, SimulationQuestion,
    WholeRun, advise, category_peaks, diff, estimate, estimate_processes, leaks, ledger, oom,
    simulation, tensor_lifetimes,
};
use floodmark_export::{Options as ExportOptions, report_columns, write_layers};
use floodmark_files::export::export_trace;
use floodmark_files::export::format::{Format, draw as draw_chart};
use floodmark_files::traces::{IndexedTrace, TraceView, ask_all, open_trace};
use floodmark_text::html::render_html;
use floodmark_text::summary::render_summary;
use floodmark_text::text_table::render;
use floodmark_trace::{Bytes, Device};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::answers::{Advice, Diff, Estimate, Leaks, Ledger, Oom, OomMessages, Simulation};
use crate::errors::{from_export, from_open, from_ours, from_simulation, wrong_argument};

/// A trace, open for reading.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct Trace(pub(crate) TraceView);

#[pymethods]
impl Trace {
    /// Reads a file, and its journal if the program was killed.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python path")]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let trace = py.detach(|| open_trace(&path)).map_err(|e| from_open(&path, &e))?;
        Ok(Self(trace.into()))
    }

    /// Answers a question.
    #[pyo3(signature = (*, by, at, device, top, torch_frames))]
    fn report(
        &self,
        py: Python<'_>,
        by: &str,
        at: &str,
        device: Option<&str>,
        top: Option<usize>,
        torch_frames: bool,
    ) -> PyResult<Report> {
        let question = question(by, at, device, top, torch_frames)?;
        let answer = py.detach(|| self.0.ask(|it| it.index().report(it.trace, &question)));
        answer.map(Report).map_err(from_ours)
    }

    /// Compares this trace with a later one.
    #[pyo3(signature = (other, *, by, at, device, top, torch_frames))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword on the Python side")]
    fn diff(
        &self,
        py: Python<'_>,
        other: &Bound<'_, Self>,
        by: &str,
        at: &str,
        device: Option<&str>,
        top: Option<usize>,
        torch_frames: bool,
    ) -> PyResult<Diff> {
        let question = question(by, at, device, top, torch_frames)?;
        let both = [&self.0, &other.get().0];
        let answer = py.detach(|| ask_all(&both, |traces| diff(traces[0], traces[1], &question)));
        answer.map(Diff).map_err(from_ours)
    }

    /// Finds the lines that grow from step to step.
    #[pyo3(signature = (*, device, top))]
    fn leaks(&self, py: Python<'_>, device: Option<&str>, top: Option<usize>) -> PyResult<Leaks> {
        let device = device.map(parse_device).transpose()?;
        let answer = py.detach(|| self.0.ask(|it| leaks(it.trace, device, top)));
        answer.map(Leaks).map_err(from_ours)
    }

    /// Adds up all memory of a GPU by owner.
    #[pyo3(signature = (*, at, device))]
    fn ledger(&self, py: Python<'_>, at: &str, device: Option<&str>) -> PyResult<Ledger> {
        let asked = question("line", at, device, None, false)?;
        let answer = py.detach(|| self.0.ask(|it| ledger(it.trace, asked.device, asked.at)));
        answer.map(Ledger).map_err(from_ours)
    }

    /// Simulates the requests under other allocator settings, or with less memory.
    #[pyo3(signature = (*, alloc_confs, memory, torch, sweep, device))]
    fn simulate(
        &self,
        py: Python<'_>,
        alloc_confs: Vec<String>,
        memory: Option<u64>,
        torch: Option<&str>,
        sweep: bool,
        device: Option<&str>,
    ) -> PyResult<Simulation> {
        let question = SimulationQuestion {
            device: device.map(parse_device).transpose()?,
            alloc_confs,
            memory: memory.map(Bytes),
            torch: torch.map(|text| parse(text, "no version of torch", "`2.11`")).transpose()?,
            sweeps: sweep,
        };
        let answer = py.detach(|| self.0.ask(|it| simulation(it.trace, &question)));
        Ok(Simulation(answer.map_err(|e| from_simulation(&e))?))
    }

    /// The lifetime of every tensor, in the order of their allocation, as JSON.
    #[pyo3(signature = (*, device))]
    fn lifetimes(&self, py: Python<'_>, device: Option<&str>) -> PyResult<String> {
        let device = device.map(parse_device).transpose()?;
        let lives = |trace: &_| serde_json::to_string(&tensor_lifetimes(trace, device));
        let lives = py.detach(|| self.0.ask(|it| lives(it.trace)));
        lives.map_err(wrong_argument)
    }

    /// Explains why an allocation failed.
    #[pyo3(signature = (*, device, top))]
    fn oom(&self, py: Python<'_>, device: Option<&str>, top: Option<usize>) -> PyResult<Oom> {
        let device = device.map(parse_device).transpose()?;
        let answer = py.detach(|| self.0.ask(|it| oom(it.trace, device, top)));
        answer.map(Oom).map_err(from_ours)
    }

    /// Suggests changes that save memory.
    #[pyo3(signature = (*, device))]
    fn advise(&self, py: Python<'_>, device: Option<&str>) -> PyResult<Advice> {
        let device = device.map(parse_device).transpose()?;
        let answer = py.detach(|| self.0.ask(|it| advise(it.trace, device)));
        answer.map(Advice).map_err(from_ours)
    }

    /// Returns whether the program fits on the simulated GPU.
    fn estimate(&self, py: Python<'_>) -> PyResult<Estimate> {
        let answer = py.detach(|| self.0.ask(|it| estimate(it.trace)));
        answer.map(Estimate).map_err(from_ours)
    }

    /// The estimate for several processes: this one and `others`. `end` is JSON; `rerun` is a run with more memory.
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
    fn estimate_with(
        &self,
        py: Python<'_>,
        others: Vec<Bound<'_, Self>>,
        end: &str,
        rerun: Option<&Estimate>,
    ) -> PyResult<Estimate> {
        let mut end: ProgramEnd = serde_json::from_str(end).map_err(wrong_argument)?;
        end.whole_run = rerun.and_then(|found| WholeRun::from_estimate(&found.0));
        let others = others.iter().map(|other| &other.get().0);
        let all: Vec<&TraceView> = [&self.0].into_iter().chain(others).collect();
        let answer = py.detach(|| ask_all(&all, |traces| estimate_processes(traces, &end)));
        answer.map(Estimate).map_err(from_ours)
    }

    /// Writes it in the format of another tool; returns the bytes without a path.
    #[pyo3(signature = (path=None, *, to=None, device=None, layers=None, max_events=None, fragmentation=true))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword on the Python side")]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python path")]
    fn export(
        &self,
        py: Python<'_>,
        path: Option<PathBuf>,
        to: Option<&str>,
        device: Option<&str>,
        layers: Option<String>,
        max_events: Option<usize>,
        fragmentation: bool,
    ) -> PyResult<Option<Vec<u8>>> {
        let format = Format::choose(to, path.as_deref()).map_err(wrong_argument)?;
        let device = device.map(parse_device).transpose()?;
        let layers = layers.map_or_else(LayerSource::default, LayerSource::Phases);
        let options =
            ExportOptions { device, layers, max_events, fragmentation, ..ExportOptions::default() };
        let path = path.as_deref();
        let export = |it: IndexedTrace<'_>| {
            export_trace(it.trace, format, &options, floodmark::page_of, path)
        };
        py.detach(|| self.0.ask(export)).map_err(|error| from_export(&error))
    }

    /// The peak of each category by itself, as JSON.
    #[pyo3(signature = (*, device))]
    fn category_peaks(&self, py: Python<'_>, device: Option<&str>) -> PyResult<String> {
        let device = device.map(parse_device).transpose()?;
        let answer = py.detach(|| self.0.ask(|it| category_peaks(it.trace, device)));
        serde_json::to_string(&answer.map_err(from_ours)?).map_err(wrong_argument)
    }

    /// The JSON of a timeline: calls of layers, whose names follow `layers` in phases, and the latest events.
    #[pyo3(signature = (*, device, layers, max_events, fragmentation))]
    fn layers(
        &self,
        py: Python<'_>,
        device: Option<&str>,
        layers: String,
        max_events: usize,
        fragmentation: bool,
    ) -> PyResult<Vec<u8>> {
        let device = device.map(parse_device).transpose()?;
        let source = LayerSource::Phases(layers);
        let question = LayerQuestion { device, source, events: Some(max_events) };
        let layers = |it: IndexedTrace<'_>| it.index().layers(it.trace, &question);
        let found = py.detach(|| self.0.ask(layers)).map_err(from_ours)?;
        let mut written = Vec::new();
        py.detach(|| write_layers(&found, fragmentation, &mut written))?;
        Ok(written)
    }

    /// Bytes allocated, active and reserved at the ends of steps from `first` on; on the CPU all are the same.
    #[pyo3(signature = (*, device, first))]
    fn levels_at_steps(
        &self,
        py: Python<'_>,
        device: Option<&str>,
        first: usize,
    ) -> PyResult<Vec<(u64, u64, u64)>> {
        let device = device.map(parse_device).transpose()?;
        let levels = |it: IndexedTrace<'_>| it.index().levels_at_steps(it.trace, device, first);
        let levels = py.detach(|| self.0.ask(levels)).map_err(from_ours)?;
        Ok(levels.iter().map(Levels::or_allocated).collect())
    }

    /// The summary as JSON.
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        let summary = py.detach(|| self.0.ask(|it| it.index().summary(it.trace)));
        serde_json::to_string(&summary).map_err(wrong_argument)
    }

    /// The summary as text.
    fn summary_text(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.ask(|it| render_summary(&it.index().summary(it.trace))))
    }

    /// The header as JSON: program, versions, options.
    fn header(&self) -> PyResult<String> {
        self.0.ask(|it| serde_json::to_string(&it.trace.header)).map_err(wrong_argument)
    }
}

fn question(
    by: &str,
    at: &str,
    device: Option<&str>,
    top: Option<usize>,
    torch_frames: bool,
) -> PyResult<Question> {
    let device = device.map(parse_device).transpose()?;
    let by = by.parse().map_err(|error: floodmark_analysis::InvalidValue| wrong_argument(error))?;
    let at = at.parse().map_err(|error: floodmark_analysis::InvalidValue| wrong_argument(error))?;
    Ok(Question { device, by, at, top, frames: FrameChoice::with_torch_frames(torch_frames) })
}

fn parse_device(text: &str) -> PyResult<Device> {
    parse(text, "no such device", "`cuda:0` or `cpu`")
}

fn parse<T: FromStr>(text: &str, wrong: &str, right: &str) -> PyResult<T> {
    let error = |_| PyValueError::new_err(format!("{wrong}: `{text}`; try {right}"));
    text.parse().map_err(error)
}

/// Draws a chart that is described in JSON, as `png` or `svg`.
#[pyfunction]
pub(crate) fn draw(py: Python<'_>, chart: &str, to: &str) -> PyResult<Vec<u8>> {
    py.detach(|| draw_chart(chart, to)).map_err(wrong_argument)
}

/// Explains torch's out-of-memory messages in a text.
#[pyfunction]
pub(crate) fn explain_oom(py: Python<'_>, text: &str) -> PyResult<OomMessages> {
    py.detach(|| floodmark_analysis::explain_oom(text)).map(OomMessages).map_err(from_ours)
}

/// An answer.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct Report(floodmark_analysis::Report);

#[pymethods]
impl Report {
    fn __str__(&self) -> String {
        render(&self.0)
    }

    fn _repr_html_(&self) -> String {
        render_html(&self.0)
    }

    /// The documented JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(wrong_argument)
    }

    /// The rows as an Arrow table, for libraries that read Arrow's C stream interface.
    #[pyo3(signature = (requested_schema = None))]
    #[expect(unused_variables, reason = "the protocol lets a producer answer with its own schema")]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batch = py.detach(|| report_columns(&self.0)).map_err(wrong_argument)?;
        let schema = batch.schema();
        let batches = RecordBatchIterator::new([Ok(batch)], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
