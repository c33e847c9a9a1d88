//! What Python tells a recording, and asks of it.

use std::path::PathBuf;

use floodmark_probe::{
    CodeFacts, Evidence, InitialBlock, InitialBlocks, KnownTensor, LabelledTensor, StrFacts,
};
use floodmark_trace::{Category, Device};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::from_open;

/// Whether a live recording, of any process, writes the trace `path`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python path")]
pub(crate) fn is_being_recorded(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    py.detach(|| floodmark_session::traces::is_being_recorded(&path))
        .map_err(|error| from_open(&path, &error))
}

/// Whether a recording runs in this process.
#[pyfunction]
pub(crate) fn is_recording() -> bool {
    floodmark_probe::is_recording()
}

/// torch is imported. Returns which of these will be seen: `cuda`, `cpu`, `backward`, `saved`, `unpacked`.
#[pyfunction]
pub(crate) fn attach_torch(py: Python<'_>, folder: String) -> Option<Vec<&'static str>> {
    let attached = py.detach(|| floodmark_probe::attach_torch(folder))?;
    let found = attached.found;
    let facts = [
        ("cuda", found.reports),
        ("cpu", found.cpu),
        ("backward", attached.backward && found.autograd),
        ("saved", found.saved),
        ("unpacked", found.unpacked),
    ];
    Some(facts.into_iter().filter(|(_, is_seen)| *is_seen).map(|(name, _)| name).collect())
}

/// Whether tensors lie in memory as expected, by one that is alive: the addresses of its C++ object, of its storage's
/// and of its data, and its bytes; `empty` is an empty storage of the CPU allocator.
#[pyfunction]
pub(crate) fn prove_tensors(
    tensor: usize,
    storage: usize,
    data: u64,
    bytes: u64,
    empty: usize,
) -> bool {
    floodmark_probe::prove_tensors(KnownTensor { tensor, storage, data, bytes, empty })
}

/// Records the live blocks in host memory. Returns how much was not searched; `None` when they cannot be found.
#[pyfunction]
pub(crate) fn record_host_blocks(py: Python<'_>) -> Option<u64> {
    py.detach(floodmark_probe::record_host_blocks)
}

/// A window wants operators, and torch is imported. Returns whether they will be seen.
#[pyfunction]
pub(crate) fn attach_ops(py: Python<'_>) -> bool {
    py.detach(floodmark_probe::attach_ops)
}

/// Takes the hooks off where no window is open, and waits until no thread of ours runs Python code. Keeps the GIL for
/// the first: code objects are released.
#[pyfunction]
pub(crate) fn disarm(py: Python<'_>) {
    floodmark_probe::disarm();
    py.detach(floodmark_probe::wait_for_names);
}

/// CUDA is initialised. Returns whether the caching allocator's own events will be seen.
#[pyfunction]
pub(crate) fn attach_tracker(py: Python<'_>, has_pools: bool) -> bool {
    py.detach(|| floodmark_probe::attach_tracker(has_pools))
}

/// The strings whose addresses `prove` wants, one of each kind.
#[pyfunction]
pub(crate) fn strings_to_prove_with() -> (&'static str, &'static str, &'static str, &'static str) {
    (StrFacts::ASCII, StrFacts::LATIN, StrFacts::TWO, StrFacts::FOUR)
}

/// Compares our reading of the caller's stack with Python's. Returns why they differ, or `None`.
#[pyfunction]
pub(crate) fn prove(
    minor_version: u32,
    frames: Vec<(usize, i64, u32)>,
    codes: Vec<(usize, usize, usize, usize, u32)>,
    strings: (usize, usize, usize, usize),
) -> Option<String> {
    let codes = codes.into_iter().map(CodeFacts::from).collect();
    let (ascii, latin, two, four) = strings;
    let strings = StrFacts { ascii, latin, two, four };
    let evidence = Evidence { minor_version, frames, codes, strings };
    floodmark_probe::prove(&evidence).err().map(|error| error.to_string())
}

/// Asks Python for its frames instead of reading them. Returns whether that can be done.
#[pyfunction]
pub(crate) fn use_slow_stacks() -> bool {
    floodmark_probe::use_slow_way()
}

/// Called with the GIL held, when the probe asked for it.
pub(crate) fn do_gil_work() {
    // The interpreter may be ending; then names are not needed any more.
    let _ = Python::try_attach(|py| {
        let names = py
            .import("floodmark.recording.names")
            .and_then(|names| names.call_method0("name_seen_modules"));
        // Nothing of ours raises into the program; a model without names still has its classes.
        drop(names);
    });
}

/// Called after a backward pass that returned or threw, with the GIL held.
pub(crate) fn after_backward(has_failed: bool) {
    // The interpreter may be ending; then there is nothing to label.
    let _ = Python::try_attach(|py| {
        // What the pass raised is not ours to handle.
        let raised = PyErr::take(py);
        let gradients = py.import("floodmark.recording.gradients");
        // Nothing of ours raises into the program; gradients without a name are still counted.
        drop(gradients.and_then(|found| found.call_method1("after_backward", (has_failed,))));
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}

/// Keeps running code alive; returns (outermost module, module) addresses that have no name yet.
#[pyfunction]
pub(crate) fn pin_running_code() -> Vec<(usize, usize)> {
    floodmark_probe::pin_running_code()
}

/// Names modules below a root: address, qualified name, class.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
pub(crate) fn name_modules(root: usize, named: Vec<(usize, String, String)>) {
    floodmark_probe::name_modules(root, &named);
}

/// A named module is about to die.
#[pyfunction]
pub(crate) fn forget_module(addr: usize) {
    floodmark_probe::forget_module(addr);
}

/// The number of a label.
#[pyfunction]
pub(crate) fn define_label(
    category: &str,
    name: String,
    shape: String,
    dtype: String,
) -> PyResult<u32> {
    let known = Category::ALL.iter().find(|known| known.name() == category);
    let category =
        known.ok_or_else(|| PyValueError::new_err(format!("no such category: {category}")))?;
    Ok(floodmark_probe::define_label(*category, name, shape, dtype))
}

/// Says what tensors are called: device type, device index, address, label.
#[pyfunction]
pub(crate) fn label(tensors: Vec<(String, i32, u64, u32)>) {
    let tensors: Vec<_> = tensors.into_iter().map(LabelledTensor::from).collect();
    floodmark_probe::label(&tensors);
}

/// Tensors that are new in every step, with labels that stay: only their addresses are reported each time.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct LabelSet(Vec<(Device, u32)>);

#[pymethods]
impl LabelSet {
    /// Device type, device index and label of each.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
    fn new(labels: Vec<(String, i32, u32)>) -> Self {
        let placed =
            labels.iter().map(|(kind, index, label)| (Device::of_torch(kind, *index), *label));
        Self(placed.collect())
    }

    /// Their addresses now, in the same order; 0 for one that has none.
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
    fn set_addresses(&self, addrs: Vec<u64>) {
        floodmark_probe::label_each(&self.0, &addrs);
    }
}

/// Records the blocks that a function lists: device type and index, address, size, requested size, is it a segment.
#[pyfunction]
pub(crate) fn record_initial_blocks(list_blocks: &Bound<'_, PyAny>) -> PyResult<()> {
    type Block = (String, i32, u64, u64, u64, bool);
    let list = InitialBlocks::begin();
    let blocks: Vec<Block> = list_blocks.call0()?.extract()?;
    list.record(&blocks.into_iter().map(InitialBlock::from).collect::<Vec<_>>());
    Ok(())
}

/// A size as a person writes it, such as `256MiB`, in bytes.
#[pyfunction]
pub(crate) fn parse_size(text: &str) -> PyResult<u64> {
    floodmark_session::size::parse_size(text)
        .map_err(|error| PyValueError::new_err(format!("not a size: `{text}`; {error}")))
}

/// A step ended, in every window. `None` when nothing is recorded, otherwise how many ended before.
#[pyfunction]
pub(crate) fn step() -> Option<u32> {
    floodmark_probe::step()
}

/// Marks this moment.
#[pyfunction]
pub(crate) fn mark(name: &str) {
    floodmark_probe::mark(name);
}

/// A named phase begins on this thread.
#[pyfunction]
pub(crate) fn begin_phase(name: &str) {
    floodmark_probe::begin_phase(name);
}

/// The innermost named phase of this thread ends.
#[pyfunction]
pub(crate) fn end_phase() {
    floodmark_probe::end_phase();
}

/// An optimizer's step begins or ends on this thread.
#[pyfunction]
pub(crate) fn note_optimizer(begins: bool) {
    floodmark_probe::note_optimizer(begins);
}
