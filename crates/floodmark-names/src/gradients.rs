//! Names of gradients.
//!
//! The recorder labels the block of every gradient that autograd adds to a `.grad`. This module gives gradients the names of
//! their parameters when a backward pass has returned or raised, before the program continues. Parameters of an
//! optimizer that steps are named by its hooks, once for each step.

use std::collections::HashMap;
use std::sync::Mutex;

use floodmark_trace::Category;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefMethods;

use crate::names::{self, Weak, leads_to, weak};
use crate::tensor_labels::{GradientSet, label_of};
use crate::torch_objects::{self, Torch};

/// A search takes about 30 ms. Most parameters exist at the first one; the later ones find the rest.
const PASSES_WITH_SEARCH: [u64; 4] = [1, 2, 8, 64];

/// The gradients that are labelled after a pass.
#[derive(Default)]
struct Gradients {
    passes: u64,
    /// Parameters of optimizers that have stepped, by address.
    of_optimizers: HashMap<usize, Weak>,
    /// Tensors with a gradient that no module has.
    loose: Vec<Weak>,
    /// The parameters that are labelled here, as long as nothing changes.
    own: Option<Vec<Weak>>,
    set: Option<GradientSet>,
    seen_names: usize,
}

/// `None` while gradients are not labelled. Locked with `try_lock` only: Python code may run where a tensor is destroyed.
static GRADIENTS: Mutex<Option<Gradients>> = Mutex::new(None);

/// Starts or stops naming gradients.
pub(crate) fn listen(does: bool) {
    if let Ok(mut gradients) = GRADIENTS.try_lock() {
        *gradients = does.then(Gradients::default);
    }
}

/// An optimizer steps: its hooks label the gradients of its parameters.
pub(crate) fn leave_to_optimizer<'a, 'py: 'a>(
    parameters: impl Iterator<Item = &'a Bound<'py, PyAny>>,
) {
    let Ok(mut gradients) = GRADIENTS.try_lock() else { return };
    let Some(gradients) = gradients.as_mut() else { return };
    for parameter in parameters {
        if let Ok(reference) = weak(parameter) {
            gradients.of_optimizers.insert(parameter.as_ptr() as usize, reference);
        }
    }
    gradients.own = None;
}

/// Names the gradients that no optimizer's hooks will name; after a failure, all.
pub(crate) fn after_backward(py: Python<'_>, has_failed: bool) {
    let Some(torch) = torch_objects::get(py) else { return };
    let Ok(mut gradients) = GRADIENTS.try_lock() else { return };
    let Some(gradients) = gradients.as_mut() else { return };
    let _ = torch.read(py, || {
        if has_failed { gradients.name_all(py, torch) } else { gradients.name_own(py, torch) }
    });
}

impl Gradients {
    fn everything<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyAny>)> {
        let loose = live(py, &self.loose).map(|tensor| (String::new(), tensor));
        names::parameters(py).into_iter().chain(loose).collect()
    }

    fn name_all(&self, py: Python<'_>, torch: &Torch) {
        let everything = self.everything(py);
        let named = everything.iter().map(|(name, parameter)| (name.clone(), parameter));
        let gradients: Vec<_> = everything.iter().map(|(_, one)| torch.grad(one)).collect();
        GradientSet::new(torch, named).label_tensors(torch, &gradients);
    }

    fn name_own(&mut self, py: Python<'_>, torch: &Torch) {
        self.passes += 1;
        if PASSES_WITH_SEARCH.contains(&self.passes) && !torch.has_made_optimizer(py) {
            self.find_loose(py, torch);
        }
        let parameters = self.parameters(py);
        if parameters.is_empty() {
            return;
        }
        let gradients: Vec<_> = parameters.iter().map(|one| torch.grad(one)).collect();
        let set = self.set.take().filter(|set| set.fits(&gradients)).unwrap_or_else(|| {
            let name = |parameter| names::name_of(parameter).unwrap_or_default();
            GradientSet::new(torch, parameters.iter().map(|one| (name(one), one)))
        });
        set.label_tensors(torch, &gradients);
        self.set = Some(set);
    }

    /// The parameters that are labelled here.
    fn parameters<'py>(&mut self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        if let Some(own) = self.own.as_ref().filter(|_| self.seen_names == names::count()) {
            let found: Vec<_> = live(py, own).collect();
            if found.len() == own.len() {
                return found;
            }
        }
        let mut found: Vec<_> = self.everything(py).into_iter().map(|(_, one)| one).collect();
        found.retain(|parameter| !self.is_left(parameter));
        self.own = Some(found.iter().filter_map(|parameter| weak(parameter).ok()).collect());
        self.seen_names = names::count();
        self.set = None;
        found
    }

    fn is_left(&self, parameter: &Bound<'_, PyAny>) -> bool {
        let known = self.of_optimizers.get(&(parameter.as_ptr() as usize));
        known.is_some_and(|reference| leads_to(reference, parameter))
    }

    /// Finds tensors with a gradient that belong to no module, as in programs without modules.
    fn find_loose(&mut self, py: Python<'_>, torch: &Torch) {
        let mut labels = Vec::new();
        let mut found = Vec::new();
        for tensor in torch.listed_tensors(py).unwrap_or_default() {
            let is_loose = torch.is_leaf(&tensor)
                && torch.grad(&tensor).is_some()
                && names::name_of(&tensor).is_none();
            if is_loose && let Ok(reference) = weak(&tensor) {
                found.push(reference);
                if torch.is_parameter(&tensor) {
                    labels.extend(label_of(torch, &tensor, Category::Parameter, ""));
                }
            }
        }
        floodmark_probe::label(&labels);
        self.loose = found;
        self.own = None;
    }
}

fn live<'py>(py: Python<'py>, references: &[Weak]) -> impl Iterator<Item = Bound<'py, PyAny>> {
    references.iter().filter_map(move |reference| reference.bind(py).upgrade())
}
