//! Avoidable memory at a time: gradients that are not read again, and an optimizer's temporaries. The
//! answers name the allocations, so that the program can be simulated without them.

use floodmark_trace::{Allocation, AllocationId, Bytes, Category, Trace};
use hashbrown::HashSet;
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category;
use crate::allocation::context::{Context, Phase};
use crate::grouping::live_groups::Live;
use crate::moment::Moment;

/// Avoidable allocations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Avoidable {
    /// How much they are.
    pub bytes: Bytes,
    /// How many.
    pub count: u64,
    /// Which, oldest first.
    #[serde(skip)]
    pub allocations: Vec<AllocationId>,
}

impl Avoidable {
    fn from_live(live: &Live<'_>, is_avoidable: impl Fn(AllocationId) -> bool) -> Self {
        let ids = live.allocations.iter().copied().filter(|&id| is_avoidable(id));
        let allocations: Vec<AllocationId> = ids.collect();
        Self {
            bytes: allocations.iter().map(|&id| live.get(id).rounded).sum(),
            count: allocations.len() as u64,
            allocations,
        }
    }
}

/// Gradients that an optimizer has used already and that the backward pass has not reached again:
/// `zero_grad(set_to_none=True)` before the forward pass would have freed them.
///
/// They were allocated before the last `step` of an optimizer ended. Since then the backward pass
/// allocated nothing in the module that their name begins with; a parameter that another module uses too
/// (tied weights) counts as long as its own has not run. Inside an optimizer's `step` there are none.
pub fn stale_gradients(trace: &Trace, context: &Context, moment: &Moment) -> Avoidable {
    let live = Live::at(trace, moment);
    let Some(used) = context.last_optimizer_end(moment.after) else { return Avoidable::default() };
    let since = since(trace, used, moment.after);
    let last = since.clone().filter(|(_, made)| made.device == moment.device).last();
    if last.is_some_and(|(id, _)| context.work(id) == Phase::Optimizer) {
        return Avoidable::default();
    }
    let backward = since.filter(|&(id, _)| context.work(id) == Phase::Backward);
    let reached: HashSet<Option<&str>> =
        backward.map(|(_, allocation)| trace.module_path(allocation.stack)).collect();
    Avoidable::from_live(&live, |id| {
        let allocation = live.get(id);
        let is_used = allocation.before_recording || allocation.made_at < used;
        if !is_used || category(trace, context, id) != Category::Gradient {
            return false;
        }
        let module = live.name(id).and_then(|name| name.rsplit_once('.'));
        match module {
            Some((module, _)) => !reached.contains(&Some(module)),
            // Its module is unknown: it counts while no backward pass runs.
            None => reached.is_empty(),
        }
    })
}

/// The temporaries of an optimizer's `step` that are live at the time: mostly the lists of `foreach`
/// implementations.
pub fn optimizer_temporaries(trace: &Trace, context: &Context, moment: &Moment) -> Avoidable {
    let live = Live::at(trace, moment);
    Avoidable::from_live(&live, |id| is_optimizer_temporary(trace, context, id))
}

/// Whether an optimizer's `step` allocated it and freed it.
pub(crate) fn is_optimizer_temporary(trace: &Trace, context: &Context, id: AllocationId) -> bool {
    context.work(id) == Phase::Optimizer && category(trace, context, id) == Category::Temporary
}

/// The allocations after one event and before another.
fn since(
    trace: &Trace,
    after: u32,
    before: u32,
) -> impl Iterator<Item = (AllocationId, &Allocation)> + Clone {
    let ids = (0_u32..).map(AllocationId).zip(&trace.allocations);
    ids.filter(move |(_, allocation)| (after + 1..before).contains(&allocation.made_at))
}
