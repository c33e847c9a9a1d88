//! The shared state of many questions about one trace, computed once.
//!
//! A report is computed once, and reads the events itself. A page has many questions about one trace,
//! one with every move of the cursor; its server keeps one of these beside the trace.

pub(crate) mod growing_index;
pub(crate) mod moment_index;

use floodmark_trace::{AllocationId, Category, Trace};

use crate::allocation::category::category;
use crate::allocation::context::Context;

/// Steps, phases and categories of a trace: about nine bytes an allocation.
#[derive(Debug, Clone, Default)]
pub struct TraceIndex {
    pub(crate) context: Context,
    /// Per allocation.
    categories: Vec<Category>,
}

impl TraceIndex {
    /// Reads the events once, and finds the category of every allocation.
    pub fn new(trace: &Trace) -> Self {
        let context = Context::new(trace);
        let ids = (0_u32..).map(AllocationId).zip(&trace.allocations).map(|(id, _)| id);
        let categories = ids.map(|id| category(trace, &context, id)).collect();
        Self { context, categories }
    }

    /// Steps and phases.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The category of an allocation.
    pub fn category(&self, id: AllocationId) -> Category {
        self.categories.get(id.index()).copied().unwrap_or(Category::Unknown)
    }
}
