//! Arguments and results of an operator, in the types of `floodmark-fake`.

use floodmark_fake::{DType, TensorInfo, Value};
use floodmark_trace::Device;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple};

/// A float tensor of at most this many numbers may have a value that is worth keeping.
const FEW: u64 = 1024;

/// Reads torch's objects.
#[derive(Debug)]
pub(crate) struct Reader {
    fake_tensor: Py<PyAny>,
    /// Element types by the address of torch's object for each; torch never frees them.
    dtypes: Vec<(usize, DType)>,
}

impl Reader {
    pub(crate) fn new(fake_tensor: Py<PyAny>, dtypes: &[(Bound<'_, PyAny>, String, u8)]) -> Self {
        let dtypes = dtypes
            .iter()
            .map(|(object, name, bytes)| (object.as_ptr() as usize, DType::named(name, *bytes)))
            .collect();
        Self { fake_tensor, dtypes }
    }

    /// Whether it is a fake tensor.
    pub(crate) fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        let fake = self.fake_tensor.bind(object.py());
        object.get_type().is(fake) || object.is_instance(fake).unwrap_or(false)
    }

    /// Every fake tensor in a result: itself, or in tuples and lists.
    pub(crate) fn each_tensor<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        found: &mut Vec<Bound<'py, PyAny>>,
    ) {
        if self.is_tensor(object) {
            found.push(object.clone());
        } else if let Ok(items) = object.cast::<PyTuple>() {
            for item in items {
                self.each_tensor(&item, found);
            }
        } else if let Ok(items) = object.cast::<PyList>() {
            for item in items {
                self.each_tensor(&item, found);
            }
        }
    }

    /// Whether a result may have a value that is worth following: whole numbers, or few of any kind.
    pub(crate) fn has_small(&self, object: &Bound<'_, PyAny>) -> bool {
        if self.is_tensor(object) {
            let py = object.py();
            let numel = || object.call_method0(intern!(py, "numel"))?.extract::<u64>();
            return !self.is_float(object) || numel().is_ok_and(|count| count <= FEW);
        }
        match (object.cast::<PyTuple>(), object.cast::<PyList>()) {
            (Ok(items), _) => items.iter().any(|item| self.has_small(&item)),
            (_, Ok(items)) => items.iter().any(|item| self.has_small(&item)),
            _ => false,
        }
    }

    fn is_float(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let Ok(dtype) = tensor.getattr(intern!(tensor.py(), "dtype")) else { return true };
        let dtype = dtype.as_ptr() as usize;
        let found = self.dtypes.iter().find(|(address, _)| *address == dtype);
        !found.is_some_and(|(_, dtype)| {
            use DType::{Bool, I8, I16, I32, I64, U8};
            matches!(dtype, Bool | U8 | I8 | I16 | I32 | I64)
        })
    }

    /// Arguments in the order of the schema's names.
    pub(crate) fn arguments(
        &self,
        names: &[String],
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Vec<Value> {
        let mut values: Vec<Value> = args.iter().map(|arg| self.value(&arg)).collect();
        for name in names.iter().skip(values.len()) {
            let given = kwargs.and_then(|kwargs| kwargs.get_item(name).ok().flatten());
            values.push(given.map_or(Value::None, |given| self.value(&given)));
        }
        values
    }

    /// The results of an operator, one by one.
    pub(crate) fn results(&self, result: &Bound<'_, PyAny>) -> Vec<Value> {
        match result.cast::<PyTuple>() {
            Ok(items) => items.iter().map(|item| self.value(&item)).collect(),
            Err(_) => vec![self.value(result)],
        }
    }

    fn value(&self, object: &Bound<'_, PyAny>) -> Value {
        if object.is_none() {
            return Value::None;
        }
        if let Some(tensor) = self.tensor(object) {
            return Value::Tensor(tensor);
        }
        if let Ok(truth) = object.cast::<PyBool>() {
            return Value::Bool(truth.is_true());
        }
        if object.is_instance_of::<PyInt>() {
            return object.extract().map_or(Value::Other, Value::Int);
        }
        if object.is_instance_of::<PyFloat>() {
            return object.extract().map_or(Value::Other, Value::Float);
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            return self.list(object);
        }
        Value::Other
    }

    fn list(&self, object: &Bound<'_, PyAny>) -> Value {
        let Ok(items) = object.try_iter() else { return Value::Other };
        let items: Vec<Bound<'_, PyAny>> = items.flatten().collect();
        let tensors: Vec<TensorInfo> = items.iter().filter_map(|item| self.tensor(item)).collect();
        if !tensors.is_empty() {
            return Value::Tensors(tensors);
        }
        if items.first().is_some_and(PyAnyMethods::is_instance_of::<PyBool>) {
            return object.extract().map_or(Value::Other, Value::Bools);
        }
        object.extract().map_or(Value::Other, Value::Ints)
    }

    fn tensor(&self, object: &Bound<'_, PyAny>) -> Option<TensorInfo> {
        if !self.is_tensor(object) {
            return None;
        }
        let py = object.py();
        let dtype = object.getattr(intern!(py, "dtype")).ok()?.as_ptr() as usize;
        let dtype = self.dtypes.iter().find(|(address, _)| *address == dtype)?.1;
        Some(TensorInfo {
            device: device_of(object)?,
            dtype,
            sizes: object.getattr(intern!(py, "shape")).ok()?.extract().ok()?,
            strides: object.call_method0(intern!(py, "stride")).ok()?.extract().ok()?,
        })
    }
}

/// The device of a fake tensor; `None` for `meta`.
pub(crate) fn device_of(tensor: &Bound<'_, PyAny>) -> Option<Device> {
    let py = tensor.py();
    device_from(&tensor.getattr(intern!(py, "fake_device")).ok()?)
}

/// A `torch.device`; `None` if its memory is not counted.
pub(crate) fn device_from(device: &Bound<'_, PyAny>) -> Option<Device> {
    let py = device.py();
    let kind = device.getattr(intern!(py, "type")).ok()?;
    let index: Option<i8> = device.getattr(intern!(py, "index")).ok()?.extract().ok()?;
    match kind.extract::<&str>().ok()? {
        "cpu" => Some(Device::CPU),
        "cuda" => Some(Device::cuda(index.unwrap_or(0))),
        _ => None,
    }
}
