//! Functions with which Python controls the recorder and queries it.

use std::path::PathBuf;

use floodmark_probe::{CodeFacts, Evidence, InitialBlock, InitialBlocks, KnownTensor, StrFacts};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::from_open;

/// Whether a live recording, of any process, writes the trace `path`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted from a Python path")]
pub(crate) fn is_being_recorded(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    py.detach(|| floodmark_files::traces::is_being_recorded(&path))
        .map_err(|error| from_open(&path, &error))
}

/// Whether a recording runs in this process.
#[pyfunction]
pub(crate) fn is_recording() -> bool {
    floodmark_probe::is_recording()
}

/// Hooks torch, after its import. Returns which of these it can record: `cuda`, `cpu`, `backward`, `saved`, `unpacked`.
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

/// Checks the memory layout of tensors with a live one: the addresses of its C++ object, of its storage's object and of
/// its data, and its bytes. `empty` is an empty storage of the CPU allocator.
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

/// Records the live blocks in host memory. Returns how many bytes were not searched; `None` if none can be found.
#[pyfunction]
pub(crate) fn record_host_blocks(py: Python<'_>) -> Option<u64> {
    py.detach(floodmark_probe::record_host_blocks)
}

/// Hooks torch's operators, after its import, for a window that records them. Returns whether that worked.
#[pyfunction]
pub(crate) fn attach_ops(py: Python<'_>) -> bool {
    py.detach(floodmark_probe::attach_ops)
}

/// Removes unused hooks, holding the GIL; then waits until no thread of the recorder runs Python code.
#[pyfunction]
pub(crate) fn disarm(py: Python<'_>) {
    floodmark_probe::remove_unused_hooks();
    py.detach(floodmark_probe::wait_for_names);
}

/// Hooks the caching allocator, after CUDA's initialization. Returns whether its own events can be recorded.
#[pyfunction]
pub(crate) fn attach_tracker(py: Python<'_>, has_pools: bool) -> bool {
    py.detach(|| floodmark_probe::attach_tracker(has_pools))
}

/// The strings whose addresses `prove` needs, one of each kind.
#[pyfunction]
pub(crate) fn strings_to_prove_with() -> (&'static str, &'static str, &'static str, &'static str) {
    (StrFacts::ASCII, StrFacts::LATIN, StrFacts::TWO, StrFacts::FOUR)
}

/// Compares the stack that the recorder reads for the caller with Python's own. Returns why they differ, or `None`.
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

/// Switches to frames from Python's API, instead of reading its memory. Returns whether that is possible.
#[pyfunction]
pub(crate) fn use_slow_stacks() -> bool {
    floodmark_probe::use_slow_way()
}

/// How many stacks were too deep and lost their outer frames, and how many frames are recorded at most.
#[pyfunction]
pub(crate) fn cut_stacks() -> (u64, usize) {
    (floodmark_probe::cut_stacks(), floodmark_probe::DEEPEST)
}

/// Calls a function on a thread that blocks signals, and waits for its end. No signal handler of the program runs
/// meanwhile: Python runs handlers only on the main thread, between two bytecode instructions.
#[pyfunction]
pub(crate) fn call_on_own_thread(py: Python<'_>, function: Py<PyAny>) -> PyResult<()> {
    let call = move || Python::attach(|py| function.bind(py).call0().map(drop));
    py.detach(|| {
        let thread = floodmark_probe::without_signals(|| {
            std::thread::Builder::new().name("floodmark-end".to_owned()).spawn(call)
        });
        // The panic hook has printed the panic.
        thread.map_or_else(|error| Err(error.into()), |thread| thread.join().unwrap_or(Ok(())))
    })
}

/// Records the blocks that a function lists: device type and index, address, size, requested size, whether it is a
/// segment.
#[pyfunction]
pub(crate) fn record_initial_blocks(list_blocks: &Bound<'_, PyAny>) -> PyResult<()> {
    type Block = (String, i32, u64, u64, u64, bool);
    let list = InitialBlocks::begin();
    let blocks: Vec<Block> = list_blocks.call0()?.extract()?;
    list.record(&blocks.into_iter().map(InitialBlock::from).collect::<Vec<_>>());
    Ok(())
}

/// Parses a size such as `256MiB`. Returns bytes.
#[pyfunction]
pub(crate) fn parse_size(text: &str) -> PyResult<u64> {
    floodmark_files::size::parse_size(text)
        .map_err(|error| PyValueError::new_err(format!("not a size: `{text}`; {error}")))
}

/// Records the end of a step in every window. Returns how many steps ended before; `None` if no recording runs.
#[pyfunction]
pub(crate) fn step() -> Option<u32> {
    floodmark_probe::step()
}

/// Records a mark.
#[pyfunction]
pub(crate) fn mark(name: &Bound<'_, PyString>) {
    // A name need not be Unicode: Python reads command lines and file names with surrogates.
    floodmark_probe::mark(&name.to_string_lossy());
}

/// Begins a named phase on this thread.
#[pyfunction]
pub(crate) fn begin_phase(name: &Bound<'_, PyString>) {
    floodmark_probe::begin_phase(&name.to_string_lossy());
}

/// Ends the innermost named phase of this thread.
#[pyfunction]
pub(crate) fn end_phase() {
    floodmark_probe::end_phase();
}
