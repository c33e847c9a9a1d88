//! Live allocations as rows and trees: by line, module, operator and so on, one file for each grouping.
//!
//! Reports, diffs and the timeline share them. [`live_groups::Live`] has the allocations, [`row::Row`] is what a group becomes.

pub(crate) mod by;
pub(crate) mod by_category;
pub(crate) mod by_line;
pub(crate) mod by_module;
pub(crate) mod by_op;
pub(crate) mod by_op_call;
pub(crate) mod by_parameter;
pub(crate) mod by_phase;
pub(crate) mod by_segment;
pub(crate) mod by_stack;
pub(crate) mod by_step;
pub(crate) mod by_tensor;
pub(crate) mod live_groups;
pub(crate) mod live_tree;
pub(crate) mod row;
pub(crate) mod tree_builder;

use crate::grouping::row::Row;

/// How many there are, and the largest of them.
pub(crate) fn largest_by<T>(
    mut all: Vec<T>,
    top: usize,
    row: impl Fn(&T) -> &Row,
) -> (usize, Vec<T>) {
    let order =
        |one: &Row, other: &Row| (other.bytes, &one.location).cmp(&(one.bytes, &other.location));
    all.sort_by(|one, other| order(row(one), row(other)));
    let total = all.len();
    all.truncate(top);
    (total, all)
}
