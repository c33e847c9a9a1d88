//! Every call of torch by a program on a phantom GPU passes here; few are examined.
//!
//! torch calls `Functions` where a mode's `__torch_function__` would be called. It is native so that no Python
//! frame of ours lies on the stack while torch allocates, and so that calls on floats, nearly all, lose
//! little. What is to be done about values is decided in Python (`estimate/values/phantom_values.py`). It stands
//! at functions and not at operators (`__torch_dispatch__`): under a mode of that kind torch's own derivative
//! formulas and its choice of attention kernels take other ways, and allocate differently.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// What is done about a function.
#[pyclass(
    frozen,
    eq,
    from_py_object,
    rename_all = "SCREAMING_SNAKE_CASE",
    module = "floodmark._core"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// Its results lie in its arguments, or do not matter: it is only run.
    Through,
    /// Its arguments and results are examined.
    Examine,
    /// It writes to an argument, or creates a tensor: `values` is called, whatever the data are.
    Write,
    /// It reads values: `values` is called before and after.
    Read,
    /// Its operator has a kernel of ours (`kernels.rs`), which sees all but an `out=`.
    Operator,
    /// Each of its numbers is computed from one of each argument: large tensors are examined, too.
    Elementwise,
}

/// A float tensor of at most this many numbers may have a value that is worth keeping.
const SMALL: usize = 1024;

thread_local! {
    /// Whether this thread is in a function that is looked at afterwards.
    static IS_LOOKED_AT: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a function whose result is looked at afterwards.
pub(crate) fn is_looked_at() -> bool {
    IS_LOOKED_AT.get()
}

/// Calls a function that is looked at afterwards.
fn call_examined<'py>(
    func: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let before = IS_LOOKED_AT.replace(true);
    let out = func.call(args, kwargs);
    IS_LOOKED_AT.set(before);
    out
}

/// Stands where torch looks for a mode's `__torch_function__`.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct Functions {
    values: Py<PyAny>,
    tensor: Py<PyAny>,
    parameter: Py<PyAny>,
    /// What reads an attribute: made anew for each call.
    getter: Py<PyAny>,
    /// The floating-point types.
    floats: Vec<usize>,
    /// The transform that runs (`torch.func`), or None.
    transform: Py<PyAny>,
    /// Whether a tensor belongs to a transform: it has no address.
    is_transformed: Py<PyAny>,
    /// Functions that were called. They are retained, so that the address by which one is found stays its own.
    known: Mutex<HashMap<usize, (FunctionKind, Py<PyAny>)>>,
}

#[pymethods]
impl Functions {
    #[new]
    fn new(
        values: Py<PyAny>,
        tensor: Py<PyAny>,
        parameter: Py<PyAny>,
        getter: Py<PyAny>,
        floats: &Bound<'_, PyList>,
        transform: Py<PyAny>,
        is_transformed: Py<PyAny>,
    ) -> Self {
        let floats = floats.iter().map(|dtype| dtype.as_ptr() as usize).collect();
        let known = Mutex::default();
        Self { values, tensor, parameter, getter, floats, transform, is_transformed, known }
    }

    /// Called by torch for every function of its own.
    #[pyo3(signature = (_mode, func, types, args, kwargs=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        _mode: &Bound<'py, PyAny>,
        func: &Bound<'py, PyAny>,
        types: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // What goes wrong in looking is not the program's business: then it is not looked at.
        let kind = self.kind(func).unwrap_or(FunctionKind::Through);
        let is_seen_below = kind == FunctionKind::Operator && !has_out(kwargs).unwrap_or(false);
        if kind == FunctionKind::Through
            || is_seen_below
            || !self.are_ordinary_tensors(types).unwrap_or(false)
        {
            return func.call(args, kwargs);
        }
        let values = self.values.bind(py);
        if self.is_in_transform(args.as_any()).unwrap_or(false) {
            // Its operators arrive at our kernels, with plain tensors.
            values.call_method0(intern!(py, "before_transform"))?;
            let out = func.call(args, kwargs)?;
            if kind == FunctionKind::Write {
                values.call_method1(intern!(py, "after_transform"), (args,))?;
            }
            return Ok(out);
        }
        if kind == FunctionKind::Read {
            if !self.has_device(args.as_any()).unwrap_or(false) {
                return func.call(args, kwargs);
            }
            let answer = values.call_method1(intern!(py, "before"), (func, args, kwargs))?;
            if !answer.is_none() {
                return answer.get_item(0);
            }
            let out = call_examined(func, args, kwargs);
            values.call_method0(intern!(py, "end_of_read"))?;
            return values.call_method1(intern!(py, "after"), (func, args, kwargs, out?));
        }
        let out = call_examined(func, args, kwargs)?;
        let (all, named) = (args.as_any(), kwargs.map(PyDictMethods::values));
        let is_examined = || -> PyResult<bool> {
            let most = if kind == FunctionKind::Elementwise { usize::MAX } else { SMALL };
            // Functions of `torch.nn.init` give the tensor that they write to by name.
            let in_named = |is_so: &dyn Fn(&Bound<'_, PyAny>) -> PyResult<bool>| {
                named.as_ref().map_or(Ok(false), |named| is_so(named.as_any()))
            };
            Ok((kind == FunctionKind::Write
                && (self.has_device(all)?
                    || in_named(&|named| self.has_device(named))?
                    || self.has_device(&out)?))
                || self.has_value(all, most)?
                || in_named(&|named| self.has_value(named, most))?
                || self.has_value(&out, most)?
                || (!self.has_device(all)? && self.has_device(&out)? && is_small(&out))
                // Something of a device was copied to the host.
                || (self.is_tensor(&out) && !is_on_device(&out)? && self.has_device(all)?))
        };
        if is_examined().unwrap_or(false) {
            return values.call_method1(intern!(py, "after"), (func, args, kwargs, out));
        }
        Ok(out)
    }
}

impl Functions {
    fn kind(&self, func: &Bound<'_, PyAny>) -> PyResult<FunctionKind> {
        if func.get_type().is(&self.getter) {
            return Ok(FunctionKind::Through);
        }
        let key = func.as_ptr() as usize;
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(kind, _)) = known().get(&key) {
            return Ok(kind);
        }
        let py = func.py();
        let kind =
            self.values.bind(py).call_method1(intern!(py, "classify"), (func,))?.extract()?;
        known().insert(key, (kind, func.clone().unbind()));
        Ok(kind)
    }

    /// Whether no subclass of tensors is among the arguments: those take themselves apart.
    fn are_ordinary_tensors(&self, types: &Bound<'_, PyAny>) -> PyResult<bool> {
        types.try_iter()?.try_fold(true, |so_far, kind| Ok(so_far && self.is_plain(&kind?)))
    }

    fn is_tensor(&self, value: &Bound<'_, PyAny>) -> bool {
        self.is_plain(&value.get_type())
    }

    fn is_plain(&self, kind: &Bound<'_, PyAny>) -> bool {
        kind.is(&self.tensor) || kind.is(&self.parameter)
    }

    /// Whether any tensor in the value, or in its lists, is as `is_so` says.
    fn any_tensor<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        is_so: &impl Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
    ) -> PyResult<bool> {
        if self.is_tensor(value) {
            return is_so(value);
        }
        if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
            for item in value.try_iter()? {
                if self.any_tensor(&item?, is_so)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a transform runs, and a tensor among these is its own.
    fn is_in_transform(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        if self.transform.bind(py).call0()?.is_none() {
            return Ok(false);
        }
        self.any_tensor(value, &|tensor| self.is_transformed.bind(py).call1((tensor,))?.is_truthy())
    }

    fn has_device(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.any_tensor(value, &is_on_device)
    }

    /// Whether a tensor among these could have a value: integers, truth values, and at most `most` floats.
    fn has_value(&self, value: &Bound<'_, PyAny>, most: usize) -> PyResult<bool> {
        self.any_tensor(value, &|tensor| {
            if !is_on_device(tensor)? {
                return Ok(false);
            }
            let py = tensor.py();
            let dtype = tensor.getattr(intern!(py, "dtype"))?.as_ptr() as usize;
            if !self.floats.contains(&dtype) {
                return Ok(true);
            }
            let count: usize = tensor.call_method0(intern!(py, "numel"))?.extract()?;
            Ok(count <= most
                && self
                    .values
                    .bind(py)
                    .call_method1(intern!(py, "is_kept"), (tensor,))?
                    .is_truthy()?)
        })
    }
}

fn has_out(kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    kwargs.map_or(Ok(false), |kwargs| kwargs.contains(intern!(kwargs.py(), "out")))
}

fn is_on_device(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "is_cuda"))?.is_truthy()
}

/// Whether a new tensor is so small that it may be worth a value.
fn is_small(out: &Bound<'_, PyAny>) -> bool {
    let count = out.call_method0(intern!(out.py(), "numel"));
    count.and_then(|count| count.extract::<usize>()).is_ok_and(|count| count <= SMALL)
}
