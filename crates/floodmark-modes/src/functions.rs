//! Every call of torch by a program on a phantom GPU passes here; few are examined.
//!
//! torch calls `Functions` where a mode's `__torch_function__` would be called. It is native so that no Python
//! frame of ours lies on the stack while torch allocates, and so that calls on floats, nearly all, lose little.
//! Python decides what to do about values (`estimate/values/phantom_values.py`). It stands at functions and not
//! at operators (`__torch_dispatch__`): under a mode of that kind torch's derivative formulas and its choice of
//! attention kernels change, and allocate differently.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::call::PyCallArgs;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::own_work::OwnWork;

/// The treatment of a function.
#[pyclass(
    frozen,
    eq,
    from_py_object,
    rename_all = "SCREAMING_SNAKE_CASE",
    module = "floodmark._core"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// Its results alias its arguments, or do not matter: it is only run.
    Through,
    /// Its arguments and results are examined.
    Examine,
    /// It writes to an argument, or creates a tensor: `values` is always called.
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
    /// Whether this thread runs a function that is examined afterwards.
    static IS_LOOKED_AT: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a function whose result is examined afterwards.
pub(crate) fn is_looked_at() -> bool {
    IS_LOOKED_AT.get()
}

/// Calls a function that is examined afterwards.
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

/// Replaces a mode's `__torch_function__`.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct Functions {
    values: Py<PyAny>,
    own_work: Py<OwnWork>,
    tensor: Py<PyAny>,
    parameter: Py<PyAny>,
    /// The type of an attribute's getter: created for each call.
    getter: Py<PyAny>,
    /// The floating-point types.
    floats: Vec<usize>,
    /// The transform that runs (`torch.func`), or None.
    transform: Py<PyAny>,
    /// Whether a tensor belongs to a transform: it has no address.
    is_transformed: Py<PyAny>,
    /// Whether a byte of a device has a value.
    has_byte: Py<PyAny>,
    /// Classes of tensors that were seen: whether they are plain. They are retained as functions are.
    classes: Mutex<HashMap<usize, (bool, Py<PyType>)>>,
    /// Functions that were called. They are retained, so that the address by which one is found stays its own.
    known: Mutex<HashMap<usize, (FunctionKind, Py<PyAny>)>>,
}

#[pymethods]
impl Functions {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python makes it, once")]
    fn new(
        values: Py<PyAny>,
        own_work: Py<OwnWork>,
        tensor: Py<PyAny>,
        parameter: Py<PyAny>,
        getter: Py<PyAny>,
        floats: &Bound<'_, PyList>,
        transform: Py<PyAny>,
        is_transformed: Py<PyAny>,
        has_byte: Py<PyAny>,
    ) -> Self {
        let floats = floats.iter().map(|dtype| dtype.as_ptr() as usize).collect();
        Self {
            values,
            own_work,
            tensor,
            parameter,
            getter,
            floats,
            transform,
            is_transformed,
            has_byte,
            classes: Mutex::default(),
            known: Mutex::default(),
        }
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
        // Errors while examining a call are ignored: the call is then not examined.
        let mut kind = self.kind(func).unwrap_or(FunctionKind::Through);
        if kind != FunctionKind::Read && names_what_it_writes(kwargs).unwrap_or(false) {
            kind = FunctionKind::Write;
        }
        if matches!(kind, FunctionKind::Through | FunctionKind::Operator) {
            return func.call(args, kwargs);
        }
        if !self.are_plain(types).unwrap_or(false) {
            let out = func.call(args, kwargs)?;
            if matches!(kind, FunctionKind::Write | FunctionKind::Read) {
                self.ask(intern!(py, "after_unseen"), (func, args, kwargs, &out))?;
            }
            return Ok(out);
        }
        if self.is_in_transform(args.as_any()).unwrap_or(false) {
            // Its operators arrive at our kernels, with plain tensors.
            self.ask(intern!(py, "before_transform"), ())?;
            let out = func.call(args, kwargs)?;
            if kind == FunctionKind::Write {
                self.ask(intern!(py, "after_transform"), (args,))?;
            }
            return Ok(out);
        }
        if kind == FunctionKind::Read {
            if !self.has_device(args.as_any()).unwrap_or(false) {
                return func.call(args, kwargs);
            }
            let answer = self.ask(intern!(py, "before"), (func, args, kwargs))?;
            if !answer.is_none() {
                return answer.get_item(0);
            }
            let out = call_examined(func, args, kwargs);
            self.ask(intern!(py, "end_of_read"), ())?;
            return self.ask(intern!(py, "after"), (func, args, kwargs, out?));
        }
        let out = call_examined(func, args, kwargs)?;
        if self.is_examined(kind, args, kwargs, &out).unwrap_or(false) {
            return self.ask(intern!(py, "after"), (func, args, kwargs, out));
        }
        Ok(out)
    }
}

impl Functions {
    /// Calls a method of `values`, hidden from the program.
    fn ask<'py>(
        &self,
        method: &Bound<'py, PyString>,
        args: impl PyCallArgs<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = method.py();
        self.own_work.get().call(&self.values.bind(py).getattr(method)?, args)
    }

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

    /// Whether the result of a function may have a value, or lose one.
    fn is_examined<'py>(
        &self,
        kind: FunctionKind,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let (mut given, mut made) = (Vec::new(), Vec::new());
        self.each_tensor(args.as_any(), &mut given)?;
        if let Some(kwargs) = kwargs {
            // Functions of `torch.nn.init` pass the tensor that they write to by name.
            self.each_tensor(kwargs.values().as_any(), &mut given)?;
        }
        self.each_tensor(out, &mut made)?;
        let made_count = made.len();
        let given = on_device(given)?;
        let made = on_device(made)?;
        if kind == FunctionKind::Write {
            return Ok(!given.is_empty() || !made.is_empty());
        }
        if given.is_empty() {
            return any(&made, |tensor| Ok(!self.is_float(tensor)? || count(tensor)? <= SMALL));
        }
        if made.len() < made_count {
            // Something of a device was copied to the host.
            return Ok(true);
        }
        let most = if kind == FunctionKind::Elementwise { usize::MAX } else { SMALL };
        if made.is_empty() {
            return any(&given, |tensor| self.has_value(tensor, most));
        }
        // Floats computed from floats without a value have none.
        let has_value = any(&made, |tensor| Ok(!self.is_float(tensor)?))?
            || !any(&given, |tensor| Ok(!self.has_value(tensor, most)?))?;
        Ok(has_value && !is_view(&made, &given)?)
    }

    /// Whether these types are those of plain tensors. Others unwrap themselves.
    fn are_plain(&self, types: &Bound<'_, PyAny>) -> PyResult<bool> {
        for kind in types.try_iter()? {
            if !self.is_plain(kind?.cast::<PyType>()?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_tensor(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.is_plain(&value.get_type())
    }

    /// Whether values of a class are tensors whose numbers lie in a storage of their own.
    fn is_plain(&self, kind: &Bound<'_, PyType>) -> PyResult<bool> {
        if kind.is(&self.tensor) || kind.is(&self.parameter) {
            return Ok(true);
        }
        let key = kind.as_ptr() as usize;
        let classes = || self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(is_plain, _)) = classes().get(&key) {
            return Ok(is_plain);
        }
        let is_plain = self.ask(intern!(kind.py(), "is_plain"), (kind,))?.is_truthy()?;
        classes().insert(key, (is_plain, kind.clone().unbind()));
        Ok(is_plain)
    }

    /// The plain tensors in a value, and in its lists.
    fn each_tensor<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        found: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        if self.is_tensor(value)? {
            found.push(value.clone());
        } else if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
            for item in value.try_iter()? {
                let item = item?;
                if item.is_instance_of::<PyFloat>() || item.is_instance_of::<PyInt>() {
                    // A list of numbers may be long.
                    break;
                }
                self.each_tensor(&item, found)?;
            }
        }
        Ok(())
    }

    /// Whether a transform runs, and a tensor among these is its own.
    fn is_in_transform(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        if self.transform.bind(py).call0()?.is_none() {
            return Ok(false);
        }
        let mut found = Vec::new();
        self.each_tensor(value, &mut found)?;
        any(&found, |tensor| self.is_transformed.bind(py).call1((tensor,))?.is_truthy())
    }

    fn has_device(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut found = Vec::new();
        self.each_tensor(value, &mut found)?;
        any(&found, is_on_device)
    }

    fn is_float(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let dtype = tensor.getattr(intern!(tensor.py(), "dtype"))?.as_ptr() as usize;
        Ok(self.floats.contains(&dtype))
    }

    /// Whether a tensor of a device could have a value: integers, truth values, and at most `most` floats.
    fn has_value(&self, tensor: &Bound<'_, PyAny>, most: usize) -> PyResult<bool> {
        if !self.is_float(tensor)? {
            return Ok(true);
        }
        let py = tensor.py();
        if count(tensor)? > most {
            return Ok(false);
        }
        // Most have none, as their first byte shows.
        let first = tensor.call_method0(intern!(py, "data_ptr"))?;
        if !self.has_byte.bind(py).call1((first, 1))?.is_truthy()? {
            return Ok(false);
        }
        self.ask(intern!(py, "is_kept"), (tensor,))?.is_truthy()
    }
}

/// Whether a function writes to an argument: `out=` or `inplace=`.
fn names_what_it_writes(kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    let Some(kwargs) = kwargs else { return Ok(false) };
    let py = kwargs.py();
    Ok(kwargs.get_item(intern!(py, "out"))?.is_some_and(|out| !out.is_none())
        || kwargs
            .get_item(intern!(py, "inplace"))?
            .is_some_and(|is_so| is_so.is_truthy().unwrap_or(false)))
}

fn any<'py>(
    tensors: &[Bound<'py, PyAny>],
    is_so: impl Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
) -> PyResult<bool> {
    for tensor in tensors {
        if is_so(tensor)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn on_device(tensors: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let mut found = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        if is_on_device(&tensor)? {
            found.push(tensor);
        }
    }
    Ok(found)
}

fn is_on_device(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "is_cuda"))?.is_truthy()
}

/// The number of elements of a tensor. A tracer would record `numel`.
fn count(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    let number = |name| tensor.getattr(name)?.extract::<usize>();
    Ok(number(intern!(tensor.py(), "nbytes"))? / number(intern!(tensor.py(), "itemsize"))?.max(1))
}

/// Whether a function's result is a view of its argument.
fn is_view<'py>(made: &[Bound<'py, PyAny>], given: &[Bound<'py, PyAny>]) -> PyResult<bool> {
    let [made] = made else { return Ok(false) };
    let storage = |tensor: &Bound<'py, PyAny>| -> PyResult<usize> {
        let py = tensor.py();
        let storage = tensor.call_method0(intern!(py, "untyped_storage"))?;
        storage.call_method0(intern!(py, "data_ptr"))?.extract()
    };
    let address = storage(made)?;
    any(given, |tensor| Ok(tensor.is(made) || storage(tensor)? == address))
}
