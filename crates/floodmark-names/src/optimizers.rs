//! Steps of optimizers, and their states.
//!
//! The hooks run once for every `step` of any `torch.optim.Optimizer`. They record that the phase begins and
//! ends, which ends a training step, and label gradients and states by their storages.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use floodmark_trace::Category;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyWeakrefMethods};

use crate::gradients;
use crate::names::{Weak, leads_to, name_of, weak};
use crate::running_steps::RunningSteps;
use crate::tensor_labels::{GradientSet, label_of};
use crate::torch_objects::{self, Torch};

/// Most states are allocated in the first step; the second one finds the rest.
const STEPS_WITH_STATES: u32 = 2;

/// An optimizer that has stepped.
struct Stepped {
    optimizer: Weak,
    steps: u32,
    gradients: Option<GradientSet>,
}

/// The functions that torch calls before and after each step of an optimizer.
#[pyclass(frozen, module = "floodmark._core")]
#[derive(Debug)]
pub struct OptimizerHooks {
    /// By address. Locked with `try_lock` only: Python code may run where a tensor is destroyed.
    stepped: Mutex<BTreeMap<usize, Stepped>>,
    running: RunningSteps,
}

impl std::fmt::Debug for Stepped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} steps", self.steps)
    }
}

#[pymethods]
impl OptimizerHooks {
    /// Starts to label gradients, after backward passes and in these hooks.
    #[new]
    fn new() -> Self {
        gradients::listen(true);
        Self { stepped: Mutex::default(), running: RunningSteps::default() }
    }

    /// Stops labelling gradients.
    #[expect(clippy::unused_self, reason = "a method of what listens")]
    fn remove(&self) {
        gradients::listen(false);
    }

    /// A step begins.
    fn before(
        &self,
        optimizer: &Bound<'_, PyAny>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: &Bound<'_, PyDict>,
    ) {
        for _raised in 0..self.running.begin(optimizer.py(), 0) {
            floodmark_probe::note_optimizer(false);
        }
        floodmark_probe::note_optimizer(true);
        self.label(optimizer, Self::label_gradients);
    }

    /// A step has ended.
    fn after(
        &self,
        optimizer: &Bound<'_, PyAny>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: &Bound<'_, PyDict>,
    ) {
        self.label(optimizer, Self::label_states);
        for _ended in 0..self.running.end(optimizer.py(), 0) {
            floodmark_probe::note_optimizer(false);
        }
    }
}

impl OptimizerHooks {
    /// Labels tensors of an optimizer. Errors are ignored: the labels are then missing.
    fn label(
        &self,
        optimizer: &Bound<'_, PyAny>,
        work: fn(&Torch, &Bound<'_, PyAny>, &mut Stepped),
    ) {
        let Some(torch) = torch_objects::get(optimizer.py()) else { return };
        let Ok(mut stepped) = self.stepped.try_lock() else { return };
        // A panic must not become an exception of the program.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let stepped = stepped_of(&mut stepped, optimizer)?;
            torch.read(optimizer.py(), || work(torch, optimizer, stepped))
        }));
    }

    /// Runs in every step, since gradients are allocated in every step.
    fn label_gradients(torch: &Torch, optimizer: &Bound<'_, PyAny>, stepped: &mut Stepped) {
        let groups = torch.groups(optimizer);
        let gradients: Vec<_> = groups.iter().flatten().map(|one| torch.grad(one)).collect();
        let known = stepped.gradients.take().filter(|set| set.fits(&gradients));
        let set = known.unwrap_or_else(|| {
            gradients::leave_to_optimizer(groups.iter().flatten());
            GradientSet::new(torch, named(&groups))
        });
        set.label_tensors(torch, &gradients);
        stepped.gradients = Some(set);
    }

    fn label_states(torch: &Torch, optimizer: &Bound<'_, PyAny>, stepped: &mut Stepped) {
        stepped.steps = stepped.steps.saturating_add(1);
        if stepped.steps > STEPS_WITH_STATES {
            return;
        }
        let states: BTreeMap<_, _> = torch.states(optimizer).into_iter().collect();
        let mut labels = Vec::new();
        for (name, parameter) in named(&torch.groups(optimizer)) {
            labels.extend(label_of(torch, parameter, Category::Parameter, &name));
            for (key, value) in states.get(&(parameter.as_ptr() as usize)).into_iter().flatten() {
                let name = format!("{name}.{key}");
                labels.extend(label_of(torch, value, Category::OptimizerState, &name));
            }
        }
        floodmark_probe::label(&labels);
    }
}

/// The entry of an optimizer; a new one for an optimizer that has not stepped.
fn stepped_of<'a>(
    known: &'a mut BTreeMap<usize, Stepped>,
    optimizer: &Bound<'_, PyAny>,
) -> PyResult<&'a mut Stepped> {
    let addr = optimizer.as_ptr() as usize;
    let is_known = known.get(&addr).is_some_and(|found| leads_to(&found.optimizer, optimizer));
    if !is_known {
        known.retain(|_, stepped| stepped.optimizer.bind(optimizer.py()).upgrade().is_some());
        known.remove(&addr);
    }
    let new = Stepped { optimizer: weak(optimizer)?, steps: 0, gradients: None };
    Ok(known.entry(addr).or_insert(new))
}

/// The parameters of an optimizer, with their qualified names or their positions.
fn named<'a, 'py>(
    groups: &'a [Vec<Bound<'py, PyAny>>],
) -> impl Iterator<Item = (String, &'a Bound<'py, PyAny>)> {
    groups.iter().enumerate().flat_map(|(number, group)| {
        group.iter().enumerate().map(move |(position, parameter)| {
            let position = || format!("param_groups[{number}][{position}]");
            (name_of(parameter).unwrap_or_else(position), parameter)
        })
    })
}
