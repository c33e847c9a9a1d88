//! Live memory by category: parameters, gradients, activations, ….

use floodmark_trace::Category;

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::allocation::location::allocation_location;
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Largest, Row};

/// How many allocations of each category are named.
const NAMED: usize = 3;

pub(crate) fn rows(live: &Live<'_>, context: &Context) -> Vec<Row> {
    let groups =
        live.group_by_with_unseen(Category::Unknown, |id, _| category(live.trace, context, id));
    groups
        .into_iter()
        .map(|group| {
            let largest = group.members.iter().rev().take(NAMED).map(|&id| {
                let allocation = live.get(id);
                let location = live
                    .name(id)
                    .map_or_else(|| allocation_location(live.trace, allocation), str::to_owned);
                Largest { bytes: allocation.rounded, location }
            });
            let category = group.key.name();
            let detail = Detail::Category { category, peak: None, largest: largest.collect() };
            group.into_row(category.to_owned(), detail)
        })
        .collect()
}
