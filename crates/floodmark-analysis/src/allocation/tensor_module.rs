//! The module that a tensor belongs to.
//!
//! An allocation belongs to the innermost module on its stack. A parameter, buffer, gradient or optimizer
//! state that was made outside every module belongs to the one that its name begins with.

use floodmark_trace::{Allocation, Category, Label, Trace};
use hashbrown::HashSet;

/// The modules of labelled tensors.
#[derive(Debug)]
pub struct TensorModules<'a> {
    trace: &'a Trace,
    parameters: HashSet<&'a str>,
}

impl<'a> TensorModules<'a> {
    /// Reads the labels once.
    pub fn new(trace: &'a Trace) -> Self {
        let parameters = trace.labels().filter(|label| label.category == Category::Parameter);
        Self { trace, parameters: parameters.map(|label| label.name.as_str()).collect() }
    }

    /// The qualified name of the module that an allocation belongs to.
    pub fn module_of(&self, allocation: &Allocation) -> Option<&'a str> {
        let by_label = || self.module_of_label(self.trace.label(allocation.label)?);
        self.trace.module_path(allocation.stack).or_else(by_label)
    }

    /// The module whose parameter, buffer, gradient or state has this label.
    pub(crate) fn module_of_label(&self, label: &'a Label) -> Option<&'a str> {
        match label.category {
            Category::Parameter | Category::Buffer | Category::Gradient => parent(&label.name),
            Category::OptimizerState => parent(self.parameter_of(&label.name)),
            Category::Activation
            | Category::Input
            | Category::Temporary
            | Category::Workspace
            | Category::Communication
            | Category::KvCache
            | Category::Unknown => None,
        }
    }

    /// `layers.0.weight` of `layers.0.weight.exp_avg`: the longest part that is a parameter's name.
    fn parameter_of(&self, state: &'a str) -> &'a str {
        let mut name = state;
        loop {
            if self.parameters.contains(name) {
                return name;
            }
            match parent(name) {
                Some(shorter) => name = shorter,
                None => return state,
            }
        }
    }
}

/// No program nests modules deeper; a file with deeper ones is damaged.
const MAX_DEPTH: usize = 64;

/// `a.b` of `a.b.c`, and of `a.b.<C>`: a module without a name is named by its class, which may
/// contain dots.
pub(crate) fn parent(path: &str) -> Option<&str> {
    let unnamed = path.ends_with('>').then(|| path.rsplit_once(".<")).flatten();
    let (parent, _) = unnamed.or_else(|| path.rsplit_once('.'))?;
    (parent.matches('.').count() < MAX_DEPTH).then_some(parent)
}
