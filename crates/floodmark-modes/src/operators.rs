//! Examines the results of every operator that a program of fake tensors calls.
//!
//! torch calls `Operators` where a mode's `__torch_dispatch__` would be called. Below it lies torch's own
//! `FakeTensorMode`, which computes the shapes. Storages are identified by the address of their C++ object, and a
//! weak reference reports their destruction. `estimate/fake/engine.py` reports the properties of operators, and
//! what replaces them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use floodmark_allocator::{AllocatorConfig, TorchVersion};
use floodmark_fake::{CallFacts, Level, Machine, Memory, OutOfMemory, hidden, takes_memory};
use floodmark_trace::Device;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::values::{Reader, device_from, device_of};

/// The effect of an operator on storages.
#[pyclass(
    frozen,
    eq,
    from_py_object,
    rename_all = "SCREAMING_SNAKE_CASE",
    module = "floodmark._core"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorKind {
    /// Its results may have new storages.
    Plain,
    /// Its results alias its arguments.
    View,
    /// It may change the size of an argument's storage.
    Resize,
    /// It returns the address of a tensor.
    Device,
}

#[derive(Debug)]
struct Operator {
    /// `aten::add.Tensor`.
    name: String,
    kind: OperatorKind,
    /// The names of its arguments.
    names: Vec<String>,
    /// It writes to its arguments and returns nothing.
    is_mute: bool,
    /// Whether `front` can compute the hidden memory of its kernel.
    is_measured: bool,
    /// Whether its kernel, or a library that it calls, takes memory beside its results.
    has_rule: bool,
    /// The function that replaces torch's, if any.
    answer: Option<Py<PyAny>>,
    /// Retained, so that the operator's address, by which it is found, stays unique.
    func: Py<PyAny>,
}

/// Replaces a mode's `__torch_dispatch__`.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct Operators {
    memory: Mutex<Memory>,
    reader: Reader,
    /// `_fake.Front`: `describe`, `is_foreign`, `out_of_memory`, `follow`.
    front: Py<PyAny>,
    /// `weakref.ref`.
    reference: Py<PyAny>,
    known: Mutex<HashMap<usize, Arc<Operator>>>,
    /// Types of arguments, and whether they unwrap to tensors of their own.
    types: Mutex<HashMap<usize, (bool, Py<PyAny>)>>,
    /// Weak references to storages: dropped with their storage.
    watched: Mutex<HashMap<usize, Py<PyAny>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Operators {
    /// `torch` is its version, `capacity` what torch may have of each device (none for no limit).
    #[new]
    #[pyo3(signature = (front, fake_tensor, reference, dtypes, *, torch, capability, multiprocessors, capacity, config, cublas))]
    #[expect(clippy::too_many_arguments, reason = "keywords on the Python side")]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
    fn new(
        front: Py<PyAny>,
        fake_tensor: Py<PyAny>,
        reference: Py<PyAny>,
        dtypes: Vec<(Bound<'_, PyAny>, String, u8)>,
        torch: (u32, u32),
        capability: u32,
        multiprocessors: u32,
        capacity: Option<u64>,
        config: &str,
        cublas: Option<&str>,
    ) -> PyResult<Self> {
        let version = TorchVersion::new(torch.0, torch.1);
        let config = AllocatorConfig::parse(config, version)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let cublas_workspace = cublas.and_then(hidden::workspace_bytes);
        let machine = Machine { torch, capability, multiprocessors, cublas_workspace };
        Ok(Self {
            memory: Mutex::new(Memory::new(machine, config, capacity)),
            reader: Reader::new(fake_tensor, &dtypes),
            front,
            reference,
            known: Mutex::default(),
            types: Mutex::default(),
            watched: Mutex::default(),
        })
    }

    /// Called by torch for every operator.
    #[pyo3(signature = (_mode, func, types, args, kwargs=None))]
    fn __call__<'py>(
        this: &Bound<'py, Self>,
        _mode: &Bound<'py, PyAny>,
        func: &Bound<'py, PyAny>,
        types: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let own = this.get();
        if own.has_foreign(types)? {
            // For a tensor that consists of others, those are looked up.
            return Ok(py.NotImplemented().into_bound(py));
        }
        let operator = own.operator(func)?;
        if operator.kind == OperatorKind::Device {
            return args.get_item(0)?.getattr(intern!(py, "fake_device"));
        }
        let result = match &operator.answer {
            Some(answer) => answer.bind(py).call1((func, args, kwargs))?,
            None => func.call(args, kwargs)?,
        };
        if operator.kind != OperatorKind::View {
            own.allocate_results(this, &operator, args, kwargs, &result)?;
        }
        if operator.is_mute || own.reader.has_small(&result) {
            let follow = intern!(py, "follow");
            // Errors while tracking a value are ignored: the value is then unknown.
            let followed = own.front.bind(py).call_method1(follow, (func, args, kwargs, &result));
            drop(followed);
        }
        Ok(result)
    }

    /// A storage was resized without an operator.
    fn resized(this: &Bound<'_, Self>, storage: &Bound<'_, PyAny>) -> PyResult<()> {
        let own = this.get();
        let (key, bytes) = storage_facts(storage)?;
        let mut memory = lock(&own.memory);
        let Some(device) = memory.device_of(key) else { return Ok(()) };
        let placed = memory.place(key, device, bytes, "resize_");
        drop(memory);
        placed.map_err(|error| own.raise(storage.py(), &error))
    }

    /// Registers the storage of a tensor that no operator created.
    fn adopt(this: &Bound<'_, Self>, tensor: &Bound<'_, PyAny>, op: &str) -> PyResult<()> {
        let own = this.get();
        let placed = own.allocate_storage(this, tensor, None, op);
        placed?.map_err(|error| own.raise(tensor.py(), &error))
    }

    /// The address of a storage's block, by the address of its C++ object; 0 for none.
    fn address(&self, storage: usize) -> u64 {
        lock(&self.memory).address_of(storage)
    }

    /// Allocated, its peak, reserved, its peak, on a `torch.device`.
    fn level(&self, device: &Bound<'_, PyAny>) -> PyResult<(u64, u64, u64, u64)> {
        let device = device_from(device)
            .ok_or_else(|| PyValueError::new_err("memory is counted on `cpu` and `cuda`"))?;
        let Level { allocated, peak_allocated, reserved, peak_reserved } =
            lock(&self.memory).level(device);
        Ok((allocated, peak_allocated, reserved, peak_reserved))
    }

    /// What CUDA's libraries hold outside torch on a `torch.device`, by their names.
    fn libraries(&self, device: &Bound<'_, PyAny>) -> Vec<(&'static str, u64)> {
        device_from(device).map_or_else(Vec::new, |device| lock(&self.memory).libraries(device))
    }

    /// `torch.cuda.reset_peak_memory_stats()`.
    fn reset_peaks(&self) {
        lock(&self.memory).reset_peaks();
    }

    /// `torch.cuda.empty_cache()`.
    fn empty_cache(&self) {
        lock(&self.memory).empty_cache();
    }

    /// Clears the cached properties of operators: a replacement has changed.
    fn forget(&self) {
        // Dropped outside the lock: dropping may call Python.
        let known = std::mem::take(&mut *lock(&self.known));
        drop(known);
    }

    /// Stops tracking storages.
    fn close(&self) {
        let watched = std::mem::take(&mut *lock(&self.watched));
        drop(watched);
    }
}

impl Operators {
    fn has_foreign(&self, types: &Bound<'_, PyAny>) -> PyResult<bool> {
        for kind in types.try_iter()? {
            let kind = kind?;
            let key = kind.as_ptr() as usize;
            let known = lock(&self.types).get(&key).map(|(is_foreign, _)| *is_foreign);
            let is_foreign = if let Some(known) = known {
                known
            } else {
                let front = self.front.bind(types.py());
                let answer = front.call_method1(intern!(types.py(), "is_foreign"), (&kind,))?;
                let answer = answer.extract()?;
                lock(&self.types).insert(key, (answer, kind.unbind()));
                answer
            };
            if is_foreign {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn operator(&self, func: &Bound<'_, PyAny>) -> PyResult<Arc<Operator>> {
        let key = func.as_ptr() as usize;
        if let Some(known) = lock(&self.known).get(&key) {
            return Ok(Arc::clone(known));
        }
        let py = func.py();
        let described = self.front.bind(py).call_method1(intern!(py, "describe"), (func,))?;
        let (name, kind, is_mute, names, answer): (String, _, _, _, Option<Py<PyAny>>) =
            described.extract()?;
        let is_measured =
            self.front.bind(py).call_method1(intern!(py, "is_measured"), (func,))?.extract()?;
        let has_rule = takes_memory(&name);
        let func = func.clone().unbind();
        let operator =
            Arc::new(Operator { name, kind, names, is_mute, is_measured, has_rule, answer, func });
        lock(&self.known).insert(key, Arc::clone(&operator));
        Ok(operator)
    }

    /// Gives blocks to what a call made.
    fn allocate_results(
        &self,
        this: &Bound<'_, Self>,
        operator: &Operator,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = this.py();
        let mut tensors = Vec::new();
        self.reader.each_tensor(result, &mut tensors);
        if operator.kind == OperatorKind::Resize {
            self.reader.each_tensor(args.as_any(), &mut tensors);
            if let Some(kwargs) = kwargs {
                self.reader.each_tensor(kwargs.values().as_any(), &mut tensors);
            }
        }
        floodmark_probe::begin_fake_op_call();
        let mut held = None;
        if (operator.has_rule || operator.is_measured)
            && let Some(device) = self.gpu_of(args, &tensors)
        {
            let call = CallFacts {
                op: &operator.name,
                args: &self.reader.arguments(&operator.names, args, kwargs),
                results: &self.reader.results(result),
                is_backward: floodmark_probe::is_backward(),
            };
            let own_bytes =
                if operator.is_measured { self.own_bytes(operator, args, kwargs) } else { None };
            let taken = lock(&self.memory).take_hidden(&call, own_bytes, device);
            held = Some(taken.map_err(|error| self.raise(py, &error))?);
        }
        let mut placed = Ok(());
        for tensor in &tensors {
            let at = held.as_ref().and_then(|_| position(result, tensor));
            let real_bytes = at.zip(held.as_ref()).and_then(|(at, held)| held.bytes_of_result(at));
            // One without a storage (sparse, or of a kind of its own) consists of others, which have one.
            if let Ok(Err(error)) = self.allocate_storage(this, tensor, real_bytes, &operator.name)
            {
                placed = Err(error);
            }
        }
        if let Some(held) = held {
            placed = placed.and(lock(&self.memory).free_hidden(held, &operator.name));
        }
        placed.map_err(|error| self.raise(py, &error))
    }

    /// The memory that a kernel's own host code reports.
    fn own_bytes(
        &self,
        operator: &Operator,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Option<u64> {
        let py = args.py();
        let front = self.front.bind(py);
        let found = front.call_method1(intern!(py, "own_bytes"), (&operator.func, args, kwargs));
        found.ok()?.extract().ok()?
    }

    /// The GPU on which a call ran.
    fn gpu_of(&self, args: &Bound<'_, PyTuple>, results: &[Bound<'_, PyAny>]) -> Option<Device> {
        let is_gpu = |device: &Device| !device.is_cpu();
        let mut tensors = Vec::new();
        results.iter().find_map(|tensor| device_of(tensor).filter(is_gpu)).or_else(|| {
            self.reader.each_tensor(args.as_any(), &mut tensors);
            tensors.iter().find_map(|tensor| device_of(tensor).filter(is_gpu))
        })
    }

    /// Gives a tensor's storage a block for its size, and watches it.
    fn allocate_storage(
        &self,
        this: &Bound<'_, Self>,
        tensor: &Bound<'_, PyAny>,
        real_bytes: Option<u64>,
        op: &str,
    ) -> PyResult<Result<(), OutOfMemory>> {
        let py = this.py();
        let Some(device) = device_of(tensor) else { return Ok(Ok(())) };
        let storage = tensor.call_method0(intern!(py, "untyped_storage"))?;
        let (key, bytes) = storage_facts(&storage)?;
        let mut memory = lock(&self.memory);
        let is_new = memory.bytes_of(key).is_none();
        let placed = memory.place_as(key, device, bytes, real_bytes.unwrap_or(bytes), op);
        drop(memory);
        if is_new && placed.is_ok() {
            let gone = Bound::new(py, Gone { operators: this.clone().unbind(), key })?;
            let reference = self.reference.bind(py).call1((storage, gone))?.unbind();
            let before = lock(&self.watched).insert(key, reference);
            drop(before);
        }
        Ok(placed)
    }

    fn raise(&self, py: Python<'_>, error: &OutOfMemory) -> PyErr {
        let message = (error.to_string(),);
        let raised = self.front.bind(py).call_method1(intern!(py, "out_of_memory"), message);
        match raised {
            Ok(raised) => PyErr::from_value(raised),
            Err(failed) => failed,
        }
    }
}

/// The index of a tensor among an operator's results.
fn position(result: &Bound<'_, PyAny>, tensor: &Bound<'_, PyAny>) -> Option<usize> {
    match result.cast::<PyTuple>() {
        Ok(results) => results.iter().position(|result| result.is(tensor)),
        Err(_) => result.is(tensor).then_some(0),
    }
}

/// The address of a storage's C++ object, and its bytes.
fn storage_facts(storage: &Bound<'_, PyAny>) -> PyResult<(usize, u64)> {
    let py = storage.py();
    let key = storage.getattr(intern!(py, "_cdata"))?.extract()?;
    let bytes = storage.call_method0(intern!(py, "nbytes"))?.extract()?;
    Ok((key, bytes))
}

/// Called when a storage dies.
#[pyclass(frozen, module = "floodmark._core")]
struct Gone {
    operators: Py<Operators>,
    key: usize,
}

#[pymethods]
impl Gone {
    fn __call__(&self, _reference: &Bound<'_, PyAny>) {
        let operators = self.operators.get();
        lock(&operators.memory).remove(self.key);
        let reference = lock(&operators.watched).remove(&self.key);
        drop(reference);
    }
}
