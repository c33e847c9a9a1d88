//! Live memory by operator.

use floodmark_trace::TextId;

use crate::allocation::location::BEFORE_RECORDING;
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Row};

pub(crate) fn rows(live: &Live<'_>) -> Vec<Row> {
    let groups = live.group_by_with_unseen(None, |_, allocation| {
        (!allocation.before_recording).then_some(allocation.op)
    });
    groups
        .into_iter()
        .map(|group| {
            let op = group.key.and_then(|op| live.trace.text(op)).map(str::to_owned);
            let location = match (&op, group.key) {
                (Some(op), _) => op.clone(),
                (None, None) => BEFORE_RECORDING.to_owned(),
                (None, Some(TextId(_))) => "(operator not recorded)".to_owned(),
            };
            group.into_row(location, Detail::Op { op })
        })
        .collect()
}
