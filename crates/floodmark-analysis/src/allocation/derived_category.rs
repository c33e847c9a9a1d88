//! Categories of a torch snapshot, which records none: derived from stacks, lifetimes and sizes.
//!
//! - `parameter`: allocated while a model is built or loaded (`__init__`, `_apply`, `from_pretrained`, …) and
//!   live from then on.
//! - `optimizer state`: allocated in an optimizer's `step`, and live after it; or allocated by its `__init__`.
//! - `workspace`: the first allocation of a stream in forward or in backward that has the size of a workspace
//!   of cuBLAS and is never freed.
//! - `gradient`: allocated in backward, live after it, and as large as a parameter. Where no parameter is known,
//!   every size counts.
//!
//! Everything else is judged as in a recording. Buffers cannot be distinguished from parameters.

use floodmark_trace::{
    Allocation, AllocationId, Category, CodeId, Device, EventNumber, HandleId, StackId, Trace,
    stack_flags,
};
use hashbrown::HashSet;

use crate::allocation::context::{Context, Phase};

const MIB: u64 = 1 << 20;
/// What torch gives cuBLAS: on Hopper and later GPUs, on others, and to cuBLASLt.
const WORKSPACES: [u64; 3] = [32 * MIB, 8 * MIB + MIB / 8, MIB];
/// Functions that build or load a model; in `torch/optim`, an optimizer.
const BUILDERS: [&str; 6] =
    ["__init__", "_apply", "to_empty", "load_state_dict", "from_pretrained", "from_config"];
/// Files whose objects hold tensors that are not parameters.
const OTHER_HOLDERS: [&str; 2] = ["data", "cache"];

/// Per allocation the category that stacks, lifetimes and sizes give it, if they do.
pub(crate) fn derive(trace: &Trace, context: &Context) -> Vec<Option<Category>> {
    let roles = roles(trace);
    let mut workspaces = Workspaces::default();
    let mut parameters = HashSet::new();
    let mut derived: Vec<Option<Category>> = (0_u32..)
        .map(AllocationId)
        .zip(&trace.allocations)
        .map(|(id, allocation)| {
            let role = roles.get(allocation.stack.index()).copied().unwrap_or(Role::Other);
            let found = stable(trace, context, (id, allocation), role)
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
    match role {
        Role::ModelBuilder if is_outside && lives_on => Some(Category::Parameter),
        Role::OptimizerBuilder if is_outside && lives_on => Some(Category::OptimizerState),
        Role::Other | Role::ModelBuilder | Role::OptimizerBuilder | Role::Holder => None,
    }
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
    /// A handle has its workspace from its first product on, so a later allocation of that size is another thing.
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

/// Per stack: what its frames build.
fn roles(trace: &Trace) -> Vec<Role> {
    let mut codes: Vec<Option<Role>> = Vec::new();
    let mut roles: Vec<Role> = vec![Role::Other];
    for id in (1_u32..).take(trace.stack_count().saturating_sub(1)) {
        let stack = trace.stack(StackId(id));
        let at = stack.code.index();
        if codes.len() <= at {
            codes.resize(at + 1, None);
        }
        let own = *codes[at].get_or_insert_with(|| role(trace, stack.code));
        let above = roles.get(stack.parent.index()).copied().unwrap_or(Role::Other);
        roles.push(own.max(above));
    }
    roles
}

/// What a frame builds, the later the more it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Other,
    ModelBuilder,
    OptimizerBuilder,
    Holder,
}

fn role(trace: &Trace, code: CodeId) -> Role {
    let Some(code) = trace.code(code) else { return Role::Other };
    let file = code.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = code.name.rsplit('.').next().unwrap_or_default();
    if !BUILDERS.contains(&name) {
        Role::Other
    } else if OTHER_HOLDERS.iter().any(|word| file.contains(word)) {
        Role::Holder
    } else if code.file.contains("/optim/") {
        Role::OptimizerBuilder
    } else {
        Role::ModelBuilder
    }
}
