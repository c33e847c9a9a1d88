//! Categories of a torch snapshot, which records none: derived from stacks, lifetimes and sizes.
//!
//! The frames that name a category in a recording name it here, too. What is added:
//!
//! - `parameter`: allocated below any function that usually builds or loads a model (`__init__`, `from_pretrained`,
//!   …) and live from then on.
//! - `optimizer state`: allocated in an optimizer's `step`, and live after it.
//! - `workspace`: the first allocation of a stream in forward or in backward that has the size of a workspace
//!   of cuBLAS and is never freed.
//! - `gradient`: allocated in backward, live after it, and as large as a parameter. Where no parameter is known,
//!   every size counts.
//!
//! Everything else is judged as in a recording. Buffers cannot be distinguished from parameters.

use floodmark_trace::{
    Allocation, AllocationId, Category, Device, EventNumber, HandleId, Trace, stack_flags,
};
use hashbrown::HashSet;

use crate::allocation::category::by_frames;
use crate::allocation::context::{Context, Phase};
use crate::allocation::frame_rules::Role;

const MIB: u64 = 1 << 20;
/// The sizes of torch's workspaces: for cuBLAS on Hopper and later GPUs, on others, and for
/// cuBLASLt.
const WORKSPACES: [u64; 3] = [32 * MIB, 8 * MIB + MIB / 8, MIB];

/// Per allocation the category derived from stacks, lifetimes and sizes, if any.
pub(crate) fn derive(trace: &Trace, context: &Context) -> Vec<Option<Category>> {
    let mut workspaces = Workspaces::default();
    let mut parameters = HashSet::new();
    let mut derived: Vec<Option<Category>> = (0_u32..)
        .map(AllocationId)
        .zip(&trace.allocations)
        .map(|(id, allocation)| {
            let role = context.roles().of_stack(allocation.stack);
            let found = by_frames(context, id, allocation, role)
                .or_else(|| stable(trace, context, (id, allocation), role))
                .or_else(|| workspaces.find(context, id, allocation));
            if found == Some(Category::Parameter) {
                parameters.insert(allocation.requested);
            }
            found
        })
        .collect();
    for (id, (allocation, category)) in
        (0_u32..).map(AllocationId).zip(trace.allocations.iter().zip(&mut derived))
    {
        let is_known = parameters.is_empty() || parameters.contains(&allocation.requested);
        if category.is_none() && is_known && survives_backward(context, id, allocation) {
            *category = Some(Category::Gradient);
        }
    }
    derived
}

/// Parameters and the state of optimizers.
fn stable(
    trace: &Trace,
    context: &Context,
    (id, allocation): (AllocationId, &Allocation),
    role: Role,
) -> Option<Category> {
    let in_optimizer = trace.stack(allocation.stack).flags & stack_flags::OPTIMIZER != 0;
    let work = context.work(id);
    if in_optimizer || work == Phase::Optimizer {
        let stays = allocation.before_recording || !context.is_passing(allocation);
        return stays.then_some(Category::OptimizerState);
    }
    let is_outside = allocation.before_recording || work == Phase::Outside;
    let lives_on = allocation
        .freed_at
        .map(EventNumber::get)
        .is_none_or(|freed| context.last_stretch().is_some_and(|last| last < freed));
    (role == Role::Builder && is_outside && lives_on).then_some(Category::Parameter)
}

fn survives_backward(context: &Context, id: AllocationId, allocation: &Allocation) -> bool {
    !allocation.before_recording
        && context.work(id) == Phase::Backward
        && !context.is_passing(allocation)
}

/// Which workspaces of cuBLAS were found: one for each stream, in forward and in backward.
#[derive(Debug, Default)]
struct Workspaces {
    found: HashSet<(Device, HandleId, bool, u64)>,
}

impl Workspaces {
    /// A handle has its workspace from its first product on, so a later allocation of that size is
    /// not a workspace.
    fn find(
        &mut self,
        context: &Context,
        id: AllocationId,
        allocation: &Allocation,
    ) -> Option<Category> {
        let bytes = allocation.requested.0;
        let is_backward = match context.work(id) {
            Phase::Forward => false,
            Phase::Backward => true,
            Phase::Optimizer | Phase::Named(_) | Phase::Outside => return None,
        };
        let is_one = WORKSPACES.contains(&bytes)
            && allocation.freed_at.is_none()
            && context.is_in_first_step(allocation.made_at);
        let key = (allocation.device, allocation.stream, is_backward, bytes);
        (is_one && self.found.insert(key)).then_some(Category::Workspace)
    }
}
