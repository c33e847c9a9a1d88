//! The memory of each parameter: its weight, its gradient and its optimizer state.

use floodmark_trace::{AllocationId, Bytes, Category};

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Row};

/// Memory that belongs to no parameter.
const NO_PARAMETER: &str = "(no parameter)";

pub(crate) fn rows(live: &Live<'_>, context: &Context) -> Vec<Row> {
    let groups = live.group_by_with_unseen(None, |id, _| parameter_of(live, context, id));
    let rows = groups.into_iter().map(|group| {
        let (mut weight, mut gradient, mut optimizer_state) = (Bytes(0), Bytes(0), Bytes(0));
        let mut label = None;
        for &id in group.members.iter().filter(|_| group.key.is_some()) {
            let allocation = live.get(id);
            let what = category(live.trace, context, id);
            if what == Category::Gradient {
                gradient += allocation.rounded;
            } else if what == Category::OptimizerState {
                optimizer_state += allocation.rounded;
            } else {
                weight += allocation.rounded;
                label = live.trace.label(allocation.label);
            }
        }
        let known = |text: &String| (!text.is_empty()).then(|| text.clone());
        let detail = Detail::Parameter {
            parameter: group.key.map(str::to_owned),
            shape: label.and_then(|label| known(&label.shape)),
            dtype: label.and_then(|label| known(&label.dtype)),
            weight,
            gradient,
            optimizer_state,
        };
        let location = group.key.unwrap_or(NO_PARAMETER).to_owned();
        group.into_row(location, detail)
    });
    rows.collect()
}

/// The qualified name of the parameter that an allocation belongs to.
fn parameter_of<'a>(live: &Live<'a>, context: &Context, id: AllocationId) -> Option<&'a str> {
    let name = live.name(id)?;
    match category(live.trace, context, id) {
        Category::Parameter | Category::Gradient => Some(name),
        // `layer.weight.exp_avg`.
        Category::OptimizerState => name.rsplit_once('.').map(|(parameter, _)| parameter),
        Category::Buffer
        | Category::Activation
        | Category::Input
        | Category::Temporary
        | Category::Workspace
        | Category::Communication
        | Category::KvCache
        | Category::Unknown => None,
    }
}
