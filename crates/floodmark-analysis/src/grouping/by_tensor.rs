//! Every live allocation, with its name where it has one, and its life: allocated, kept, freed.

use floodmark_trace::{AllocationId, Bytes, Category};

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::allocation::location::{BEFORE_RECORDING, allocation_location};
use crate::allocation::tensor_module::TensorModules;
use crate::allocation::use_times::{freed, last_use_seconds, saved_seconds};
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Row};

/// The largest first; of the same size, the oldest. Only rows that are shown are put into words.
pub(crate) fn rows(live: &Live<'_>, context: &Context, top: usize) -> (usize, Vec<Row>) {
    let mut order: Vec<(Bytes, Option<AllocationId>)> =
        live.allocations.iter().map(|&id| (live.get(id).rounded, Some(id))).collect();
    if live.unseen > Bytes(0) {
        order.push((live.unseen, None));
    }
    order.sort_unstable_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
    let total = order.len();
    order.truncate(top);
    let modules = TensorModules::new(live.trace);
    let rows = order.into_iter().map(|(bytes, id)| match id {
        Some(id) => row(live, context, &modules, id),
        None => unseen_row(bytes),
    });
    (total, rows.collect())
}

fn row(live: &Live<'_>, context: &Context, modules: &TensorModules<'_>, id: AllocationId) -> Row {
    let allocation = live.get(id);
    let label = live.trace.label(allocation.label);
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    let name = label.and_then(|label| known(&label.name));
    let seconds = |event: u32| Some(live.trace.events.get(event as usize)?.time.as_seconds());
    let is_new = !allocation.before_recording;
    let what = category(live.trace, context, id);
    let phase = context.phase(live.trace, id);
    Row {
        bytes: allocation.rounded,
        cumulative: Bytes(0),
        count: 1,
        median: allocation.rounded,
        location: name.clone().unwrap_or_else(|| allocation_location(live.trace, allocation)),
        detail: Detail::Tensor {
            name,
            shape: label.and_then(|label| known(&label.shape)),
            dtype: label.and_then(|label| known(&label.dtype)),
            category: what.name(),
            module: modules.module_of(allocation).map(str::to_owned),
            step: if is_new { context.step(allocation.made_at) } else { None },
            phase: phase.map(|phase| phase.name(live.trace).to_owned()),
            allocated_seconds: if is_new { seconds(allocation.made_at) } else { None },
            saved_seconds: saved_seconds(live.trace, id),
            last_use_seconds: last_use_seconds(live.trace, id),
            freed_seconds: freed(allocation).and_then(seconds),
        },
    }
}

/// The row of the bytes of no recorded allocation: only their sum is known.
fn unseen_row(bytes: Bytes) -> Row {
    Row {
        bytes,
        cumulative: Bytes(0),
        count: 0,
        median: Bytes(0),
        location: BEFORE_RECORDING.to_owned(),
        detail: Detail::Tensor {
            name: None,
            shape: None,
            dtype: None,
            category: Category::Unknown.name(),
            module: None,
            step: None,
            phase: None,
            allocated_seconds: None,
            saved_seconds: None,
            last_use_seconds: None,
            freed_seconds: None,
        },
    }
}
