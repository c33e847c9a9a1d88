//! Names of modules and parameters.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use floodmark_probe::LabelledTensor;
use floodmark_trace::Category;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyTuple, PyWeakrefMethods, PyWeakrefReference};

use crate::tensor_labels::label_of;
use crate::torch_objects::{self, Torch};

/// Modules in one model, with each of their names.
const MOST_MODULES: usize = 1_000_000;

/// A weak reference to a Python object.
pub(crate) type Weak = Py<PyWeakrefReference>;

/// A weak reference.
pub(crate) fn weak(object: &Bound<'_, PyAny>) -> PyResult<Weak> {
    PyWeakrefReference::new(object).map(Bound::unbind)
}

/// Whether a weak reference leads to this object.
pub(crate) fn leads_to(reference: &Weak, object: &Bound<'_, PyAny>) -> bool {
    reference.bind(object.py()).upgrade().is_some_and(|found| found.is(object))
}

/// Named modules by address, with the weak reference whose callback removes them.
static MODULES: Mutex<BTreeMap<usize, Weak>> = Mutex::new(BTreeMap::new());

/// Names of parameters, in the order in which they got them.
#[derive(Default)]
struct Parameters {
    named: Vec<(Weak, String)>,
    /// The index of each in `named`, by address.
    at: HashMap<usize, usize>,
}

static PARAMETERS: Mutex<Option<Parameters>> = Mutex::new(None);
/// Incremented when a parameter gets a name.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// No Python object is destroyed, and the GIL is not released, while either lock is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Clears all names.
pub(crate) fn forget_all(_: Python<'_>) {
    let modules = std::mem::take(&mut *lock(&MODULES));
    let parameters = lock(&PARAMETERS).take();
    drop((modules, parameters));
}

/// Names the modules that run without a name.
pub(crate) fn name_seen_modules(py: Python<'_>) {
    let seen = floodmark_probe::pin_running_code();
    let Some(torch) = torch_objects::get(py) else { return };
    let mut roots: Vec<usize> = seen.iter().map(|(root, _)| *root).collect();
    roots.sort_unstable();
    roots.dedup();
    if roots.is_empty() {
        return;
    }
    let _ = torch.read(py, || {
        for addr in roots {
            // The address was read from a running frame, and the GIL was held since.
            if let Ok(root) = torch.object_at(py, addr) {
                name_modules(torch, &root);
            }
        }
    });
}

/// Gives `root` and all modules inside it their names, and labels their tensors.
fn name_modules(torch: &Torch, root: &Bound<'_, PyAny>) {
    let mut named = Vec::new();
    let mut labels: Vec<LabelledTensor> = Vec::new();
    let mut labelled = HashSet::new();
    let mut visited = HashSet::new();
    let mut waiting = vec![(String::new(), root.clone())];
    while let Some((prefix, module)) = waiting.pop() {
        let addr = module.as_ptr() as usize;
        if visited.len() > MOST_MODULES || !visited.insert((addr, prefix.clone())) {
            continue;
        }
        let class = class_name(&module);
        watch(&module, addr);
        // In torch's own order, so that a shared tensor gets the name that torch gives it.
        for (name, child) in torch.members(&module, "_modules").into_iter().rev() {
            // Wrappers add nothing to a name.
            let is_wrapped = torch.wrapped_name(&class) == Some(name.as_str());
            waiting.push((if is_wrapped { prefix.clone() } else { below(&prefix, &name) }, child));
        }
        for (category, dict) in
            [(Category::Parameter, "_parameters"), (Category::Buffer, "_buffers")]
        {
            for (name, tensor) in torch.members(&module, dict) {
                if labelled.insert(tensor.as_ptr() as usize) {
                    let qualified = below(&prefix, &name);
                    if category == Category::Parameter {
                        remember(&tensor, &qualified);
                    }
                    labels.extend(label_of(torch, &tensor, category, &qualified));
                }
            }
        }
        named.push((addr, prefix, class));
    }
    floodmark_probe::name_modules(root.as_ptr() as usize, &named);
    floodmark_probe::label(&labels);
}

fn below(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn class_name(object: &Bound<'_, PyAny>) -> String {
    object
        .get_type()
        .name()
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// Removes the module when it is destroyed: another one may get its address.
fn watch(module: &Bound<'_, PyAny>, addr: usize) {
    if lock(&MODULES).contains_key(&addr) {
        return;
    }
    let died = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, pyo3::types::PyDict>>| {
        let reference = lock(&MODULES).remove(&addr);
        floodmark_probe::forget_module(addr);
        drop(reference);
    };
    let died = PyCFunction::new_closure(module.py(), None, None, died);
    let reference = died.and_then(|died| PyWeakrefReference::new_with(module, died));
    if let Ok(reference) = reference {
        let before = lock(&MODULES).insert(addr, reference.unbind());
        drop(before);
    }
}

fn remember(tensor: &Bound<'_, PyAny>, name: &str) {
    let Ok(reference) = weak(tensor) else { return };
    let mut parameters = lock(&PARAMETERS);
    let parameters = parameters.get_or_insert_default();
    let addr = tensor.as_ptr() as usize;
    let Some(&at) = parameters.at.get(&addr) else {
        parameters.at.insert(addr, parameters.named.len());
        parameters.named.push((reference, name.to_owned()));
        COUNT.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let is_new = !leads_to(&parameters.named[at].0, tensor);
    // A model may run its submodules before it is called itself: names below the model are longer, and replace theirs.
    let is_longer =
        name.strip_suffix(&parameters.named[at].1).is_some_and(|rest| rest.ends_with('.'));
    if is_new || is_longer {
        // It has no callback: dropping it runs no code.
        parameters.named[at] = (reference, name.to_owned());
        COUNT.fetch_add(usize::from(is_new), Ordering::Relaxed);
    }
}

/// The parameters of named modules, with their names.
pub(crate) fn parameters(py: Python<'_>) -> Vec<(String, Bound<'_, PyAny>)> {
    let parameters = lock(&PARAMETERS);
    let live =
        |(reference, name): &(Weak, String)| Some((name.clone(), reference.bind(py).upgrade()?));
    parameters.iter().flat_map(|parameters| &parameters.named).filter_map(live).collect()
}

/// A number that is incremented when a parameter gets a name.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// The qualified name of a parameter, where a named module has it.
pub(crate) fn name_of(tensor: &Bound<'_, PyAny>) -> Option<String> {
    let parameters = lock(&PARAMETERS);
    let parameters = parameters.as_ref()?;
    let (reference, name) = &parameters.named[*parameters.at.get(&(tensor.as_ptr() as usize))?];
    leads_to(reference, tensor).then(|| name.clone())
}
