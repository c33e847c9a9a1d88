//! Kernels of ours below autograd, in front of the device's own.
//!
//! Some operators read a number from the device to know how much to allocate: the rows of a mask, the distinct
//! elements of a tensor. C++ calls them, too: derivative formulas, transforms, compiled code. So the number is
//! supplied here, where every call arrives with plain tensors, and not at torch's Python functions. The same
//! holds for the operators that make masks. A kernel at this key (`BackendSelect`) is invisible to torch's own
//! choices, unlike a dispatch mode. It is native so that no Python frame of ours lies on the stack while torch
//! allocates.

use pyo3::call::PyCallArgs;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::functions::is_looked_at;
use crate::own_work::OwnWork;

/// Stands in front of the device's kernel of one operator.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct Kernel {
    values: Py<PyAny>,
    own_work: Py<OwnWork>,
    operator: Py<PyAny>,
    /// Calls the operator's next kernel.
    redispatch: Py<PyAny>,
    /// Makes a tensor on the host of a number.
    tensor_of: Py<PyAny>,
    /// The positions of the arguments that are tensors.
    tensors: Vec<usize>,
    /// The keys below ours.
    below: Py<PyAny>,
    /// The keys of CUDA's tensors.
    devices: Vec<Py<PyAny>>,
    /// The floating-point types.
    floats: Vec<usize>,
    kind: KernelKind,
}

/// The action of a kernel, in addition to calling the device's.
#[pyclass(
    frozen,
    eq,
    from_py_object,
    rename_all = "SCREAMING_SNAKE_CASE",
    module = "floodmark._core"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// It supplies the number that the device's kernel reads.
    Count,
    /// The result gets its value.
    Follow,
    /// The same, unless the calling function is examined.
    FollowUnseen,
}

#[pymethods]
impl Kernel {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python makes it, once for an operator")]
    fn new(
        values: Py<PyAny>,
        own_work: Py<OwnWork>,
        operator: Py<PyAny>,
        redispatch: Py<PyAny>,
        tensor_of: Py<PyAny>,
        tensors: Vec<usize>,
        below: Py<PyAny>,
        devices: Vec<Py<PyAny>>,
        floats: &Bound<'_, PyList>,
        kind: KernelKind,
    ) -> Self {
        let floats = floats.iter().map(|dtype| dtype.as_ptr() as usize).collect();
        Self {
            values,
            own_work,
            operator,
            redispatch,
            tensor_of,
            tensors,
            below,
            devices,
            floats,
            kind,
        }
    }

    /// Called by torch's dispatcher, with the keys of the call.
    #[pyo3(signature = (keys, *args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args = &self.with_tensors(args)?;
        let next = || -> PyResult<Bound<'py, PyAny>> {
            let below = keys.bitand(self.below.bind(py))?;
            let mut all = Vec::with_capacity(args.len() + 1);
            all.push(below);
            all.extend(args.iter());
            self.redispatch.bind(py).call(PyTuple::new(py, all)?, kwargs)
        };
        if !self.is_on_device(keys)? || (self.kind == KernelKind::FollowUnseen && is_looked_at()) {
            return next();
        }
        let operator = self.operator.bind(py);
        if self.kind == KernelKind::Count {
            let plan = self.ask(intern!(py, "before_count"), (operator, args, kwargs))?;
            let out = next();
            if plan.is_none() {
                return out;
            }
            self.ask(intern!(py, "after_count"), (plan, out.as_ref().ok()))?;
            return out;
        }
        let out = next()?;
        if !self.is_float(&out).unwrap_or(true) {
            self.ask(intern!(py, "follow"), (operator, args, kwargs, &out))?;
        }
        Ok(out)
    }
}

impl Kernel {
    /// Calls a method of `values`, hidden from the program.
    fn ask<'py>(
        &self,
        method: &Bound<'py, PyString>,
        args: impl PyCallArgs<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = method.py();
        self.own_work.get().call(&self.values.bind(py).getattr(method)?, args)
    }

    /// The arguments with tensors for numbers: a tensor that C++ created from a number arrives as
    /// the number.
    fn with_tensors<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let py = args.py();
        let is_number = |item: &Bound<'py, PyAny>| {
            item.is_instance_of::<PyInt>() || item.is_instance_of::<PyFloat>()
        };
        let mut items: Vec<Bound<'py, PyAny>> = args.iter().collect();
        for &at in &self.tensors {
            let Some(item) = items.get_mut(at) else { continue };
            if is_number(item) {
                *item = self.own_work.get().call(self.tensor_of.bind(py), (&*item,))?;
            }
        }
        PyTuple::new(py, items)
    }

    fn is_on_device(&self, keys: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = keys.py();
        for device in &self.devices {
            if keys.call_method1(intern!(py, "has"), (device,))?.is_truthy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_float(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let dtype = tensor.getattr(intern!(tensor.py(), "dtype"))?.as_ptr() as usize;
        Ok(self.floats.contains(&dtype))
    }
}
