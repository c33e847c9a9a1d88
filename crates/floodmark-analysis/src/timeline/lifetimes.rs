//! When tensors were allocated, saved for backward, last used and freed: the largest of a stretch of time, by module;
//! or all of a trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use floodmark_trace::{AllocationId, Bytes, Category, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::allocation::location::allocation_location;
use crate::allocation::tensor_module::TensorModules;
use crate::allocation::use_times::{freed, last_use_seconds, saved_seconds};
use crate::grouping::by_module::Tree;
use crate::index::TraceIndex;
use crate::index::moment_index::{MomentIndex, allocations_before};
use crate::moment::events_until;
use crate::question_error::QuestionError;

/// The life of one tensor.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Lifetime {
    /// Which allocation.
    pub id: u32,
    /// Its name where it has one, otherwise the line that allocated it.
    pub name: String,
    /// Its size.
    pub bytes: Bytes,
    /// What it is to the program.
    #[schemars(with = "Category")]
    pub category: &'static str,
    /// The phase in which it was allocated; null for what was live before the recording.
    pub phase: Option<String>,
    /// When it was allocated, in seconds since the recording began; 0 for what was live before.
    pub allocated_seconds: f64,
    /// When autograd first saved it for the backward pass; null where it did not.
    pub saved_seconds: Option<f64>,
    /// When the backward pass began that an activation was retained for.
    pub retained_until_seconds: Option<f64>,
    /// When the backward pass last read what autograd had saved of it: its last use that is known.
    pub last_use_seconds: Option<f64>,
    /// When it was freed; null for what was live at the end.
    pub freed_seconds: Option<f64>,
}

/// The tensors of one module, in the order in which they were allocated.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LifetimeRow {
    /// Its qualified name.
    pub module: String,
    /// Its tensors.
    pub tensors: Vec<Lifetime>,
}

/// What is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// How many tensors.
    pub count: usize,
    /// Their sizes together, also where they were not live at the same time.
    pub bytes: Bytes,
}

/// The largest tensors of a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Lifetimes {
    /// By module, in the order of their first tensors.
    pub rows: Vec<LifetimeRow>,
    /// The smaller ones.
    pub left_out: LeftOut,
}

/// The largest `top` tensors that were live between two times. Both indexes must be of this trace.
pub fn lifetimes(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    from: f64,
    to: f64,
    top: usize,
) -> Result<Lifetimes, QuestionError> {
    let end = trace.end();
    if from > end.as_seconds() {
        return Err(QuestionError::AfterEnd { seconds: from, end });
    }
    let (first, last) = (events_until(trace, from), events_until(trace, to.max(from)));
    let made = allocations_before(trace, first)..allocations_before(trace, last);
    let is_here = |id: &AllocationId| trace.allocations[id.index()].device == moments.device();
    let made = made.map(AllocationId).filter(is_here);
    let mut largest = Largest { top, heap: BinaryHeap::new(), left_out: LeftOut::default() };
    for id in moments.live(trace, first).into_iter().chain(made) {
        largest.offer(trace.allocations[id.index()].rounded, id);
    }
    let mut found: Vec<AllocationId> =
        largest.heap.into_iter().map(|Reverse((_, Reverse(id)))| id).collect();
    found.sort_unstable();
    let left_out = largest.left_out;
    Ok(Lifetimes { rows: rows(trace, index, &found), left_out })
}

/// A tensor, and the module that it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TensorLifetime {
    /// Its device.
    pub device: Device,
    /// The address there: while it is live, that of the tensor's storage.
    pub address: u64,
    /// The qualified name of its module; null where it belongs to none.
    pub module: Option<String>,
    /// The step in which it was allocated, where there are steps.
    pub step: Option<u32>,
    /// Its life.
    #[serde(flatten)]
    pub life: Lifetime,
}

/// Every tensor of a device, or of all, in the order in which they were allocated.
pub fn tensor_lifetimes(trace: &Trace, device: Option<Device>) -> Vec<TensorLifetime> {
    let index = TraceIndex::new(trace);
    let modules = TensorModules::new(trace);
    let ids = (0_u32..).map(AllocationId).zip(&trace.allocations);
    let is_asked_for = |of: Device| device.is_none_or(|device| device == of);
    ids.filter(|(_, allocation)| is_asked_for(allocation.device))
        // An allocation whose part of the file is lost has no event: nothing is known of it.
        .filter(|(_, allocation)| trace.events.get(allocation.made_at as usize).is_some())
        .map(|(id, allocation)| TensorLifetime {
            device: allocation.device,
            address: allocation.addr.0,
            module: modules.module_of(allocation).map(str::to_owned),
            step: index.context.step(allocation.made_at).filter(|_| !allocation.before_recording),
            life: lifetime(trace, &index, id),
        })
        .collect()
}

/// The largest so far; of equals the first.
struct Largest {
    top: usize,
    /// The smallest of them first.
    heap: BinaryHeap<Reverse<(Bytes, Reverse<AllocationId>)>>,
    left_out: LeftOut,
}

impl Largest {
    fn offer(&mut self, bytes: Bytes, id: AllocationId) {
        let one = Reverse((bytes, Reverse(id)));
        let is_full = self.heap.len() >= self.top;
        let gone = if is_full && self.heap.peek().is_none_or(|smallest| one >= *smallest) {
            Some(bytes)
        } else {
            self.heap.push(one);
            is_full.then(|| self.heap.pop()).flatten().map(|Reverse((bytes, _))| bytes)
        };
        if let Some(bytes) = gone {
            self.left_out.count += 1;
            self.left_out.bytes += bytes;
        }
    }
}

fn rows(trace: &Trace, index: &TraceIndex, found: &[AllocationId]) -> Vec<LifetimeRow> {
    let mut tree = Tree::new(trace);
    let mut rows: Vec<(usize, LifetimeRow)> = Vec::new();
    for &id in found {
        let node = tree.node_of(&trace.allocations[id.index()]);
        let tensor = lifetime(trace, index, id);
        if let Some((_, row)) = rows.iter_mut().find(|(known, _)| *known == node) {
            row.tensors.push(tensor);
        } else {
            let module = tree.paths().nth(node).unwrap_or("?").to_owned();
            rows.push((node, LifetimeRow { module, tensors: vec![tensor] }));
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

fn lifetime(trace: &Trace, index: &TraceIndex, id: AllocationId) -> Lifetime {
    let allocation = &trace.allocations[id.index()];
    let context: &Context = &index.context;
    let label = trace.label(allocation.label).filter(|label| !label.name.is_empty());
    let seconds = |event: u32| Some(trace.events.get(event as usize)?.time.as_seconds());
    let category = index.category(id);
    let is_activation = category == Category::Activation;
    let backward = context.next_backward(allocation.made_at).filter(|_| is_activation);
    let allocated = if allocation.before_recording { None } else { seconds(allocation.made_at) };
    Lifetime {
        id: id.0,
        name: label
            .map_or_else(|| allocation_location(trace, allocation), |label| label.name.clone()),
        bytes: allocation.rounded,
        category: category.name(),
        phase: context.phase(trace, id).map(|phase| phase.name(trace).to_owned()),
        allocated_seconds: allocated.unwrap_or(0.0),
        saved_seconds: saved_seconds(trace, id),
        retained_until_seconds: backward.and_then(seconds),
        last_use_seconds: last_use_seconds(trace, id),
        freed_seconds: freed(allocation).and_then(seconds),
    }
}
