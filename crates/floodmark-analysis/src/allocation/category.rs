//! The category of an allocation.
//!
//! A label, where the recorder found one, is a fact and wins. Then the frames of its call stack decide
//! ([`crate::allocation::frame_rules`]): parameters, gradients, communication and KV caches. Otherwise lifetime
//! and place decide, the first rule that fits:
//!
//! - `KV cache`: made in forward by a call stack whose tensors grow from forward to forward, each by the same bytes.
//! - `optimizer state`: made in an optimizer's `step`, and live after it.
//! - `gradient`: made in backward, live after it, and as large as a parameter.
//! - `activation`: made in forward, and still live when the backward pass of the same step made its
//!   first allocation after it.
//! - `temporary`: made in forward, backward or optimizer, and freed in the same stretch of it.
//! - `activation` also: made in forward, and saved by autograd. No backward pass need follow: a program may
//!   run out of memory before.
//! - `input`: made outside or before the recording, and saved by autograd, in a program whose modules run. A
//!   batch that is kept stays an input.
//! - `input` also: made outside, live when the forward of a step began, and freed in that step or in the
//!   next one. Without steps this rule finds nothing.
//! - `unknown`: everything else. `buffer` and `workspace` come from labels alone. A torch snapshot has no labels:
//!   `derived_category` has what is added there.
//!
//! Memory that is live at the end of the recording is never a temporary: no event frees it.

use floodmark_trace::{Allocation, AllocationId, Category, EventNumber, Trace};

use crate::allocation::context::{Context, Phase};
use crate::allocation::frame_rules::Role;

/// More events than a constructor needs to compute a parameter.
const MANY_EVENTS: u32 = 16;

/// The category of an allocation.
pub fn category(trace: &Trace, context: &Context, id: AllocationId) -> Category {
    let Some(allocation) = trace.allocations.get(id.index()) else { return Category::Unknown };
    let role = context.roles().of_stack(allocation.stack);
    if let Some(label) = trace.label(allocation.label) {
        // A module may keep its KV cache in a buffer: `KV cache` is more specific.
        let is_cache = role == Role::KvCache && label.category == Category::Buffer;
        return if is_cache { Category::KvCache } else { label.category };
    }
    if let Some(known) = by_frames(context, id, allocation, role).or_else(|| context.derived(id)) {
        return known;
    }
    if allocation.before_recording {
        return if is_saved_input(trace, context, id) {
            Category::Input
        } else {
            Category::Unknown
        };
    }
    match context.work(id) {
        Phase::Forward if context.is_cache_stack(allocation.stack) => Category::KvCache,
        Phase::Optimizer if !context.is_passing(allocation) => Category::OptimizerState,
        Phase::Backward if is_gradient(allocation, context) => Category::Gradient,
        Phase::Forward if is_kept_for_backward(allocation, context) => Category::Activation,
        Phase::Forward | Phase::Backward | Phase::Optimizer if context.is_passing(allocation) => {
            Category::Temporary
        }
        Phase::Forward if trace.autograd_use(id).saved_at.is_some() => Category::Activation,
        Phase::Outside if is_saved_input(trace, context, id) => Category::Input,
        Phase::Outside if is_fed_to_a_step(allocation, context) => Category::Input,
        Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Named(_) | Phase::Outside => {
            Category::Unknown
        }
    }
}

/// The category from the frames of its call stack, if they decide it.
pub(crate) fn by_frames(
    context: &Context,
    id: AllocationId,
    allocation: &Allocation,
    role: Role,
) -> Option<Category> {
    let is_outside = allocation.before_recording || context.work(id) == Phase::Outside;
    let lives_on = is_outside && !context.is_passing(allocation);
    match role {
        Role::Parameter => Some(Category::Parameter),
        Role::Gradient => Some(Category::Gradient),
        Role::ReducedGradient if !context.is_passing(allocation) => Some(Category::Gradient),
        Role::ReducedGradient | Role::ReduceScatter | Role::Communication => {
            Some(Category::Communication)
        }
        Role::KvCache => Some(Category::KvCache),
        Role::Model if lives_on || is_outside && is_replaced(allocation) => {
            Some(Category::Parameter)
        }
        Role::OptimizerBuilder if lives_on => Some(Category::OptimizerState),
        Role::Model
        | Role::OptimizerBuilder
        | Role::Builder
        | Role::Holder
        | Role::Passes
        | Role::None => None,
    }
}

/// Whether it outlived the function that allocated it: a parameter that was freed when the model got another data type or
/// device. A constructor's temporaries are freed within a few events.
fn is_replaced(allocation: &Allocation) -> bool {
    let events = |freed: EventNumber| freed.get().saturating_sub(allocation.made_at);
    allocation.freed_at.is_some_and(|freed| events(freed) >= MANY_EVENTS)
}

/// Autograd's own gradients have labels: these are the results of `torch.autograd.grad`, and a snapshot's.
fn is_gradient(allocation: &Allocation, context: &Context) -> bool {
    !context.is_passing(allocation) && context.is_parameter_size(allocation.requested)
}

fn is_kept_for_backward(allocation: &Allocation, context: &Context) -> bool {
    context.next_backward(allocation.made_at).is_some_and(|backward| {
        allocation.is_live_after(backward)
            && context.step(backward) == context.step(allocation.made_at)
    })
}

/// Autograd saves an input before its operator allocates anything, so the first time may lie before the first
/// allocation of forward.
fn is_saved_input(trace: &Trace, context: &Context, id: AllocationId) -> bool {
    trace.autograd_use(id).saved_at.is_some() && context.has_forward()
}

fn is_fed_to_a_step(allocation: &Allocation, context: &Context) -> bool {
    let Some(forward) = context.next_forward(allocation.made_at) else { return false };
    let freed = allocation.freed_at.map(EventNumber::get).filter(|&freed| freed > forward);
    let Some(freed) = freed else { return false };
    match (context.step(forward), context.step(freed)) {
        (Some(fed), Some(freed)) => freed <= fed + 1,
        (None, _) | (_, None) => false,
    }
}

/// The names of all categories, in the order of [`Category::ALL`].
pub(crate) fn category_names() -> Vec<&'static str> {
    Category::ALL.iter().map(|category| category.name()).collect()
}
