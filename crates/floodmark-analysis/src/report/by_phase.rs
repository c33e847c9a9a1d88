//! What the program was doing when it made what is there, and how much was allocated while it did so.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Micros, Subject};

use crate::allocation::context::{Context, Phase};
use crate::allocation::location::BEFORE_RECORDING;
use crate::moment::totals::Totals;
use crate::report::live_groups::Live;
use crate::report::row::{Detail, Row};

/// Phases that made nothing of what is there have a row too: they have a peak.
pub(crate) fn rows(live: &Live<'_>, context: &Context) -> Vec<Row> {
    let mut peaks = peaks(live, context);
    let groups = live.group_by_with_unseen(None, |id, _| context.phase(live.trace, id));
    let mut rows: Vec<Row> = Vec::new();
    for group in groups {
        let peak = group.key.and_then(|phase| peaks.remove(&phase));
        let phase = group.key.map(|phase| phase.name(live.trace).to_owned());
        let place = phase.clone().unwrap_or_else(|| BEFORE_RECORDING.to_owned());
        rows.push(group.into_row(place, detail(phase, peak)));
    }
    rows.extend(peaks.into_iter().map(|(phase, peak)| {
        let place = phase.name(live.trace).to_owned();
        let detail = detail(Some(place.clone()), Some(peak));
        let nothing = Bytes(0);
        Row { bytes: nothing, cumulative: nothing, count: 0, median: nothing, place, detail }
    }));
    rows
}

fn detail(phase: Option<String>, peak: Option<(Bytes, Micros)>) -> Detail {
    let peak_seconds = peak.map(|(_, time)| time.as_seconds());
    Detail::Phase { phase, peak: peak.map(|(bytes, _)| bytes), peak_seconds }
}

/// The peak of allocated bytes right after an allocation of each phase, and its time.
fn peaks(live: &Live<'_>, context: &Context) -> BTreeMap<Phase, (Bytes, Micros)> {
    let (trace, device) = (live.trace, live.device);
    let mut totals = Totals::at_start(trace, device);
    let mut peaks: BTreeMap<Phase, (Bytes, Micros)> = BTreeMap::new();
    for event in trace.events.iter().filter(|event| event.device == device) {
        totals.apply(trace, event);
        if let Subject::Alloc(id) = event.subject
            && let Some(phase) = context.phase(trace, id)
        {
            let now = (totals.allocated(), event.time);
            let peak = peaks.entry(phase).or_insert(now);
            if now.0 > peak.0 {
                *peak = now;
            }
        }
    }
    peaks
}
