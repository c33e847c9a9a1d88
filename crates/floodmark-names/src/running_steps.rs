//! The optimizer steps that are running, also after one that raised.
//!
//! torch has hooks for a step that begins and for one that returns, but none for one that raises: whether a step still
//! runs is read from the frames of its thread. No frame is kept alive.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread::ThreadId;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The steps that run on each thread, the innermost last, each as the address of torch's own frame.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug, Default)]
pub struct RunningSteps {
    frames: Mutex<HashMap<ThreadId, Vec<usize>>>,
}

#[pymethods]
impl RunningSteps {
    /// No step runs.
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Begins a step in the frame `depth` above the running one. Returns how many steps raised since the last one began.
    pub(crate) fn begin(&self, py: Python<'_>, depth: usize) -> usize {
        let Ok(frame) = frame_above(py, depth) else { return 0 };
        self.of_this_thread(|running| {
            let count = running.len();
            if count > 0 {
                let outer = callers(&frame);
                // Steps inside one that raised have ended with it.
                running.retain(|step| outer.contains(step));
            }
            let raised = count - running.len();
            running.push(address(&frame));
            raised
        })
    }

    /// Ends the step of that frame. Returns how many ended: itself, and those that raised inside it.
    pub(crate) fn end(&self, py: Python<'_>, depth: usize) -> usize {
        let Ok(frame) = frame_above(py, depth) else { return 1 };
        self.of_this_thread(|running| {
            let count = running.len();
            if let Some(at) = running.iter().position(|&step| step == address(&frame)) {
                running.truncate(at);
            }
            // A step that began before the hooks were registered is not in the list.
            (count - running.len()).max(1)
        })
    }

    /// The number of steps that run on this thread.
    #[getter]
    fn depth(&self) -> usize {
        self.of_this_thread(|running| running.len())
    }
}

impl RunningSteps {
    fn of_this_thread<R>(&self, work: impl FnOnce(&mut Vec<usize>) -> R) -> R {
        let mut all = self.frames.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(all.entry(std::thread::current().id()).or_default())
    }
}

/// A frame of this thread: 0 is the running one. Runs no code of the program.
fn frame_above(py: Python<'_>, depth: usize) -> PyResult<Bound<'_, PyAny>> {
    static GET_FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET_FRAME.import(py, "sys", "_getframe")?.call1((depth,))
}

fn callers(frame: &Bound<'_, PyAny>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut caller = frame.getattr("f_back");
    while let Ok(frame) = caller
        && !frame.is_none()
    {
        found.push(address(&frame));
        caller = frame.getattr("f_back");
    }
    found
}

fn address(frame: &Bound<'_, PyAny>) -> usize {
    frame.as_ptr() as usize
}
