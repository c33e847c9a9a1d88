//! The label of a tensor; of all gradients of some parameters.

use std::sync::{Mutex, PoisonError};

use floodmark_probe::LabelledTensor;
use floodmark_trace::{Category, Device};
use pyo3::prelude::*;

use crate::torch_objects::{self, Torch};

/// Finds the address of a fake tensor's storage: such tensors have no data.
static ADDRESS_FINDER: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Sets the native function that finds the storages of fake tensors. Returns the one before.
#[pyfunction]
pub fn set_address_finder(find: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
    let mut finder = ADDRESS_FINDER.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *finder, find)
}

fn address_finder(py: Python<'_>) -> Option<Py<PyAny>> {
    let finder = ADDRESS_FINDER.lock().unwrap_or_else(PoisonError::into_inner);
    finder.as_ref().map(|find| find.clone_ref(py))
}

/// Labels a tensor.
#[pyfunction]
pub fn label_tensor(tensor: &Bound<'_, PyAny>, category: &str, name: &str) {
    let category = Category::ALL.iter().find(|known| known.name() == category);
    let (Some(torch), Some(&category)) = (torch_objects::get(tensor.py()), category) else {
        return;
    };
    let found = torch.read(tensor.py(), || label_of(torch, tensor, category, name));
    floodmark_probe::label(found.ok().flatten().as_slice());
}

/// The address of a tensor's data in this process; 0 for a tensor without data.
pub(crate) fn address_of(torch: &Torch, local: &Bound<'_, PyAny>) -> Option<u64> {
    match address_finder(local.py()) {
        Some(find) => torch.fake_address(local, find.bind(local.py())).ok(),
        // torch would print a warning for this read.
        None if torch.is_fake(local) => None,
        None => torch.address(local),
    }
}

/// Defines the label of a tensor. Fake, meta and other tensors without a storage in this process have no
/// label.
pub(crate) fn label_of(
    torch: &Torch,
    tensor: &Bound<'_, PyAny>,
    category: Category,
    name: &str,
) -> Option<LabelledTensor> {
    let local = torch.local_part(tensor);
    let addr = address_of(torch, &local).filter(|&addr| addr != 0)?;
    let (kind, index) = torch.device(&local).ok()?;
    if !matches!(kind.as_str(), "cpu" | "cuda") {
        return None;
    }
    let (shape, dtype) = torch.shape_and_dtype(&local).ok()?;
    let label = floodmark_probe::define_label(category, name.to_owned(), shape, dtype);
    Some(LabelledTensor { device: Device::of_torch(&kind, index), addr, label })
}

/// The labels of the gradients of some parameters, in their order.
#[derive(Debug)]
pub(crate) struct GradientSet {
    labels: Vec<(Device, u32)>,
    has_label: Vec<bool>,
}

impl GradientSet {
    /// Of parameters with these names.
    pub(crate) fn new<'a, 'py: 'a>(
        torch: &Torch,
        named: impl Iterator<Item = (String, &'a Bound<'py, PyAny>)>,
    ) -> Self {
        let (mut labels, mut has_label) = (Vec::new(), Vec::new());
        for (name, parameter) in named {
            let gradient = torch.grad(parameter);
            let found =
                gradient.and_then(|gradient| label_of(torch, &gradient, Category::Gradient, &name));
            labels.push(
                found.map_or((Device::CPU, 0), |found| (found.device.canonical(), found.label)),
            );
            has_label.push(found.is_some());
        }
        Self { labels, has_label }
    }

    /// Whether the parameters are the same, and none has a gradient that it did not have before.
    pub(crate) fn fits(&self, gradients: &[Option<Bound<'_, PyAny>>]) -> bool {
        gradients.len() == self.has_label.len()
            && gradients
                .iter()
                .zip(&self.has_label)
                .all(|(gradient, has)| gradient.is_none() || *has)
    }

    /// Labels the gradients at their current addresses.
    pub(crate) fn label_tensors(&self, torch: &Torch, gradients: &[Option<Bound<'_, PyAny>>]) {
        let address = |(gradient, has_label): (&Option<Bound<'_, PyAny>>, &bool)| {
            // A sparse gradient has no label, and no address.
            let gradient = gradient.as_ref().filter(|_| *has_label)?;
            address_of(torch, &torch.local_part(gradient))
        };
        let found = gradients.iter().zip(&self.has_label).map(address);
        let addrs: Vec<u64> = found.map(|addr| addr.unwrap_or(0)).collect();
        floodmark_probe::label_each(&self.labels, &addrs);
    }
}
