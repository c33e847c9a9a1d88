//! Modules, tensors and optimizers, read by C functions alone.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple, PyType};

/// A list of names and objects.
pub(crate) type Named<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// The parts of torch and of Python that are used. `torch_private.py` lists and finds them.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Torch {
    /// `torch.Tensor`, `torch.nn.Parameter` and the base of both.
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    tensor_base: Py<PyType>,
    optimizer: Py<PyType>,
    /// Each reads an attribute of a tensor, whatever its class has in its place.
    grad: Py<PyAny>,
    device: Py<PyAny>,
    shape: Py<PyAny>,
    dtype: Py<PyAny>,
    requires_grad: Py<PyAny>,
    is_leaf: Py<PyAny>,
    /// Methods of a tensor.
    data_ptr: Py<PyAny>,
    storage: Py<PyAny>,
    storage_offset: Py<PyAny>,
    element_size: Py<PyAny>,
    /// Reads the address of a storage's C++ object.
    storage_id: Py<PyAny>,
    /// A context in which no `__torch_function__` is called.
    without_functions: Py<PyAny>,
    /// `object.__getattribute__` and `type.__subclasses__`.
    attribute: Py<PyAny>,
    subclasses: Py<PyAny>,
    /// The object at an address, as `ctypes` finds it.
    cast: Py<PyAny>,
    py_object: Py<PyAny>,
    /// `gc.get_objects`, `sys._current_frames`, `sys.modules`.
    all_objects: Py<PyAny>,
    current_frames: Py<PyAny>,
    imported: Py<PyDict>,
    /// Classes of modules that wrap another one, and the name by which each has it.
    wrapped_modules: HashMap<String, String>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

/// torch is imported. It is not imported twice.
pub(crate) fn set(py: Python<'_>, torch: Torch) {
    let _ = TORCH.set(py, torch);
}

/// torch, once it is imported.
pub(crate) fn get(py: Python<'_>) -> Option<&'static Torch> {
    TORCH.get(py)
}

impl Torch {
    /// Runs `work` without calling `__torch_function__` of a tensor class or a mode.
    pub(crate) fn read<R>(&self, py: Python<'_>, work: impl FnOnce() -> R) -> PyResult<R> {
        let context = self.without_functions.bind(py).call0()?;
        context.call_method0(intern!(py, "__enter__"))?;
        let found = work();
        let none = py.None();
        context.call_method1(intern!(py, "__exit__"), (&none, &none, &none))?;
        Ok(found)
    }

    /// The object at an address, which must be alive.
    pub(crate) fn object_at<'py>(
        &self,
        py: Python<'py>,
        addr: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cast = self.cast.bind(py).call1((addr, addr, &self.py_object))?;
        cast.getattr(intern!(py, "value"))
    }

    /// A dictionary among an object's own attributes.
    pub(crate) fn own_dict<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        name: &str,
    ) -> Option<Bound<'py, PyDict>> {
        self.own_attribute(object, name)?.cast_into().ok()
    }

    fn own_attribute<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        name: &str,
    ) -> Option<Bound<'py, PyAny>> {
        let py = object.py();
        let own = self.attribute.bind(py).call1((object, intern!(py, "__dict__"))).ok()?;
        own.cast::<PyDict>().ok()?.get_item(name).ok()?
    }

    /// The objects in one of a module's dictionaries, with their names.
    pub(crate) fn members<'py>(&self, module: &Bound<'py, PyAny>, name: &str) -> Named<'py> {
        self.own_dict(module, name).map_or_else(Vec::new, |found| text_items(&found))
    }

    /// The name by which a module of this class has the module that it wraps.
    pub(crate) fn wrapped_name(&self, class: &str) -> Option<&str> {
        self.wrapped_modules.get(class).map(String::as_str)
    }

    /// Whether it is a tensor.
    pub(crate) fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        has_class(object, self.tensor_base.bind(object.py()))
    }

    /// Whether a tensor is a parameter, by its class or by its attribute `_is_param`.
    pub(crate) fn is_parameter(&self, tensor: &Bound<'_, PyAny>) -> bool {
        has_class(tensor, self.parameter.bind(tensor.py()))
            || self
                .own_attribute(tensor, "_is_param")
                .is_some_and(|value| value.is_truthy().unwrap_or(false))
    }

    /// Whether its class is one of torch's two own ones.
    fn is_plain(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let class = tensor.get_type();
        class.is(&self.parameter) || class.is(&self.tensor)
    }

    /// The plain tensor that holds a tensor's storage in this process.
    pub(crate) fn local_part<'py>(&self, tensor: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        let name = "_local_tensor";
        let found = if self.is_plain(tensor) {
            None
        } else if let Some(found) = self.own_attribute(tensor, name) {
            Some(found)
        } else {
            // The slot of a DTensor.
            let py = tensor.py();
            let slot = tensor.get_type().getattr(name).ok();
            slot.and_then(|slot| slot.call_method1(intern!(py, "__get__"), (tensor,)).ok())
        };
        found.unwrap_or_else(|| tensor.clone())
    }

    /// Whether it is a fake tensor; where torch has not loaded them there are none.
    pub(crate) fn is_fake(&self, tensor: &Bound<'_, PyAny>) -> bool {
        if self.is_plain(tensor) {
            return false;
        }
        let py = tensor.py();
        let module = self.imported.bind(py).get_item("torch._subclasses.fake_tensor");
        let class = module.ok().flatten().and_then(|found| found.getattr("FakeTensor").ok());
        class
            .and_then(|class| class.cast_into().ok())
            .is_some_and(|class| has_class(tensor, &class))
    }

    /// The gradient of a tensor.
    pub(crate) fn grad<'py>(&self, tensor: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let found = self.grad.bind(tensor.py()).call1((tensor,)).ok()?;
        (!found.is_none()).then_some(found)
    }

    /// Whether reading the gradient of a tensor prints no warning, and it may have one.
    pub(crate) fn is_leaf(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let is = |what: &Py<PyAny>| {
            what.bind(tensor.py())
                .call1((tensor,))
                .is_ok_and(|found| found.is_truthy().unwrap_or(false))
        };
        is(&self.requires_grad) && is(&self.is_leaf)
    }

    /// Where a tensor's data begin.
    pub(crate) fn address(&self, tensor: &Bound<'_, PyAny>) -> Option<u64> {
        self.data_ptr.bind(tensor.py()).call1((tensor,)).ok()?.extract().ok()
    }

    /// The address of a fake tensor, by the function that finds that of its storage.
    pub(crate) fn fake_address(
        &self,
        tensor: &Bound<'_, PyAny>,
        find: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let py = tensor.py();
        let storage = self.storage.bind(py).call1((tensor,))?;
        let id = self.storage_id.bind(py).call1((storage,))?;
        let start: u64 = find.call1((id,))?.extract()?;
        let offset: u64 = self.storage_offset.bind(py).call1((tensor,))?.extract()?;
        let element: u64 = self.element_size.bind(py).call1((tensor,))?.extract()?;
        Ok(if start == 0 { 0 } else { start + offset * element })
    }

    /// The type and the index of a tensor's device.
    pub(crate) fn device(&self, tensor: &Bound<'_, PyAny>) -> PyResult<(String, i32)> {
        let py = tensor.py();
        let device = match self.own_attribute(tensor, "fake_device") {
            Some(device) => device,
            None => self.device.bind(py).call1((tensor,))?,
        };
        let kind = device.getattr(intern!(py, "type"))?.extract()?;
        let index: Option<i32> = device.getattr(intern!(py, "index"))?.extract()?;
        Ok((kind, index.unwrap_or(0)))
    }

    /// The shape as Python prints it, and the element type.
    pub(crate) fn shape_and_dtype(&self, tensor: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
        let py = tensor.py();
        let shape = self.shape.bind(py).call1((tensor,))?;
        let mut sizes = Vec::new();
        for size in shape.cast::<PyTuple>()? {
            // Reading the number of a symbolic size would specialize it.
            let number = size.cast::<PyInt>().ok().and_then(|size| size.extract::<u64>().ok());
            sizes.push(number.map_or_else(|| printed(&size), |number| Ok(number.to_string()))?);
        }
        let shape = format!("({}{})", sizes.join(", "), if sizes.len() == 1 { "," } else { "" });
        let dtype = printed(&self.dtype.bind(py).call1((tensor,))?)?;
        Ok((shape, dtype.trim_start_matches("torch.").to_owned()))
    }

    /// The parameters of an optimizer, group by group.
    pub(crate) fn groups<'py>(&self, optimizer: &Bound<'py, PyAny>) -> Vec<Vec<Bound<'py, PyAny>>> {
        let groups = self.own_attribute(optimizer, "param_groups");
        let groups = groups.and_then(|groups| groups.cast_into::<PyList>().ok());
        let parameters = |group: Bound<'py, PyAny>| {
            let found = group.cast::<PyDict>().ok()?.get_item("params").ok()??;
            Some(found.cast::<PyList>().ok()?.iter().collect())
        };
        groups.map_or_else(Vec::new, |groups| {
            groups.iter().map(|group| parameters(group).unwrap_or_default()).collect()
        })
    }

    /// The tensors that an optimizer keeps for its parameters: the address of the parameter's object, and their names.
    pub(crate) fn states<'py>(&self, optimizer: &Bound<'py, PyAny>) -> Vec<(usize, Named<'py>)> {
        let Some(states) = self.own_dict(optimizer, "state") else { return Vec::new() };
        // Looked up by a parameter, its `__hash__` would run, which is Python code of torch.
        let of_parameter = |(parameter, state): (Bound<'py, PyAny>, Bound<'py, PyAny>)| {
            let state = state.cast::<PyDict>().ok()?;
            let tensors = text_items(state).into_iter().filter(|(_, value)| self.is_tensor(value));
            Some((parameter.as_ptr() as usize, tensors.collect()))
        };
        states.iter().filter_map(of_parameter).collect()
    }

    /// Whether the program has created an optimizer: the first one of a class wraps its `step`.
    pub(crate) fn has_made_optimizer(&self, py: Python<'_>) -> bool {
        self.with_subclasses(&self.optimizer, py).iter().any(|class| {
            let hooked = class.getattr("step").and_then(|step| step.getattr("hooked"));
            hooked.is_ok_and(|hooked| hooked.is_truthy().unwrap_or(false))
        })
    }

    /// A class, and every class below it.
    fn with_subclasses<'py>(&self, class: &Py<PyType>, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let mut found = vec![class.bind(py).as_any().clone()];
        let mut at = 0;
        while at < found.len() {
            let below = self.subclasses.bind(py).call1((&found[at],)).ok();
            let below = below.and_then(|below| below.cast_into::<PyList>().ok());
            found.extend(below.into_iter().flatten());
            at += 1;
        }
        found
    }

    /// Every tensor that Python's garbage collector lists.
    ///
    /// The list also has tensors that only C++ retains. Another thread may be destroying one of them, without the
    /// GIL, and a reference to it would free it twice. So the list is empty while another thread of Python runs.
    pub(crate) fn listed_tensors<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if self.current_frames.bind(py).call0()?.len()? > 1 {
            return Ok(Vec::new());
        }
        let classes = self.with_subclasses(&self.tensor, py);
        let mut classes: Vec<_> = classes.iter().map(|class| class.as_ptr() as usize).collect();
        classes.sort_unstable();
        let objects = self.all_objects.bind(py).call0()?.cast_into::<PyList>()?;
        let is_tensor = |object: &Bound<'py, PyAny>| {
            classes.binary_search(&(object.get_type_ptr() as usize)).is_ok()
        };
        Ok(objects.iter().filter(is_tensor).collect())
    }
}

/// The text of an object. Not by `str`, which runs signal handlers first.
fn printed(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = object.call_method0(intern!(object.py(), "__repr__"))?;
    Ok(text.cast::<PyString>()?.to_string_lossy().into_owned())
}

/// Whether an object's class is `class` or a subclass. Does not call its metaclass.
fn has_class(object: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> bool {
    object.get_type().mro().iter().any(|base| base.is(class))
}

/// The entries of a dictionary whose keys are text, without those that are None.
fn text_items<'py>(dict: &Bound<'py, PyDict>) -> Named<'py> {
    let named = |(name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>)| {
        let name = name.cast::<PyString>().ok()?.to_string_lossy().into_owned();
        (!value.is_none()).then_some((name, value))
    };
    dict.iter().filter_map(named).collect()
}
