//! What the program was doing when it made what is there.

use crate::context::Context;
use crate::groups::Live;
use crate::place::BEFORE_RECORDING;
use crate::row::{Detail, Row};

pub(crate) fn rows(live: &Live<'_>, context: &Context) -> Vec<Row> {
    let groups = live.group_by_with_unseen(None, |id, _| context.phase(live.trace, id));
    groups
        .into_iter()
        .map(|group| {
            let phase = group.key.map(|phase| phase.name(live.trace).to_owned());
            let place = phase.clone().unwrap_or_else(|| BEFORE_RECORDING.to_owned());
            group.into_row(place, Detail::Phase { phase })
        })
        .collect()
}
