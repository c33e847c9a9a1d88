//! What Python tells a recording, and asks of it.

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
    floodmark_probe::remove_unused_hooks();
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

/// How often a stack was so deep that its outer frames were left out, and how many frames are kept.
#[pyfunction]
pub(crate) fn cut_stacks() -> (u64, usize) {
    (floodmark_probe::cut_stacks(), floodmark_probe::DEEPEST)
}

/// Calls a function on a thread that takes no signals, and waits for its end. No signal handler of the program runs
/// meanwhile: that is done on the main thread alone, between two instructions of Python code.
#[pyfunction]
pub(crate) fn call_on_own_thread(py: Python<'_>, function: Py<PyAny>) -> PyResult<()> {
    let call = move || Python::attach(|py| function.bind(py).call0().map(drop));
    py.detach(|| {
        let thread = floodmark_probe::without_signals(|| {
            std::thread::Builder::new().name("floodmark-end".to_owned()).spawn(call)
        });
        // A panic has been printed.
        thread.map_or_else(|error| Err(error.into()), |thread| thread.join().unwrap_or(Ok(())))
    })
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
    floodmark_files::size::parse_size(text)
        .map_err(|error| PyValueError::new_err(format!("not a size: `{text}`; {error}")))
}

/// A step ended, in every window. `None` when nothing is recorded, otherwise how many ended before.
#[pyfunction]
pub(crate) fn step() -> Option<u32> {
    floodmark_probe::step()
}

/// Marks this moment.
#[pyfunction]
pub(crate) fn mark(name: &Bound<'_, PyString>) {
    // A name need not be Unicode: Python reads command lines and file names with surrogates.
    floodmark_probe::mark(&name.to_string_lossy());
}

/// A named phase begins on this thread.
#[pyfunction]
pub(crate) fn begin_phase(name: &Bound<'_, PyString>) {
    floodmark_probe::begin_phase(&name.to_string_lossy());
}

/// The innermost named phase of this thread ends.
#[pyfunction]
pub(crate) fn end_phase() {
    floodmark_probe::end_phase();
}
