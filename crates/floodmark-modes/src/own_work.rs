//! Our own work on the program's thread, hidden from the program.
//!
//! Functions of torch that we call to compute values must not reach the program's modes, its transforms, a tracer
//! (`torch.jit.trace`), autograd, a profiler or the recorder.

use std::cell::Cell;

use floodmark_probe::HostWork;
use pyo3::call::PyCallArgs;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

thread_local! {
    /// Whether this thread does work of ours.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Calls functions of ours, hidden from the program.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct OwnWork {
    /// A context without modes at torch's functions.
    no_functions: Py<PyAny>,
    /// A context with the dispatch keys that are given to it.
    keys: Py<PyAny>,
    /// The keys that a thread has at first, and those that are left out.
    with_and_without: Py<PyTuple>,
    /// Switches the calls of profilers on and off.
    set_profiled: Py<PyAny>,
    /// The tracer that runs, or None.
    tracer: Py<PyAny>,
    set_tracer: Py<PyAny>,
}

#[pymethods]
impl OwnWork {
    #[new]
    fn new(
        no_functions: Py<PyAny>,
        keys: Py<PyAny>,
        with_and_without: Py<PyTuple>,
        set_profiled: Py<PyAny>,
        tracer: Py<PyAny>,
        set_tracer: Py<PyAny>,
    ) -> Self {
        Self { no_functions, keys, with_and_without, set_profiled, tracer, set_tracer }
    }

    /// Calls a function.
    #[pyo3(signature = (function, *args))]
    fn __call__<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(function, args)
    }
}

impl OwnWork {
    pub(crate) fn call<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        args: impl PyCallArgs<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if IS_OWN.get() {
            return function.call1(args);
        }
        let py = function.py();
        let _host_work = HostWork::new();
        let tracer = self.tracer.bind(py).call0()?;
        let set_tracer = |tracer: Option<&Bound<'py, PyAny>>| self.set_tracer.call1(py, (tracer,));
        if !tracer.is_none() {
            set_tracer(None)?;
        }
        let no_functions = self.no_functions.bind(py).call0()?;
        let keys = self.keys.bind(py).call1(self.with_and_without.bind(py))?;
        self.set_profiled.call1(py, (false,))?;
        no_functions.call_method0(intern!(py, "__enter__"))?;
        keys.call_method0(intern!(py, "__enter__"))?;
        IS_OWN.set(true);
        let out = function.call1(args);
        IS_OWN.set(false);
        let none = py.None();
        let nothing = || (&none, &none, &none);
        keys.call_method1(intern!(py, "__exit__"), nothing())?;
        no_functions.call_method1(intern!(py, "__exit__"), nothing())?;
        self.set_profiled.call1(py, (true,))?;
        if !tracer.is_none() {
            set_tracer(Some(&tracer))?;
        }
        out
    }
}
