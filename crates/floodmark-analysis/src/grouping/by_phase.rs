//! Live memory by the phase that allocated it, with the peak of each phase.

use std::collections::BTreeMap;

use floodmark_trace::{AllocationId, Bytes, Device, Micros, Subject, Trace};

use crate::allocation::context::{Context, Phase};
use crate::allocation::location::BEFORE_RECORDING;
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Row};
use crate::moment::totals::Totals;

/// Phases without live memory have a row too: they have a peak.
pub(crate) fn rows(live: &Live<'_>, context: &Context, mut peaks: FoundPeaks) -> Vec<Row> {
    let groups = live.group_by_with_unseen(None, |id, _| context.phase(live.trace, id));
    let mut rows: Vec<Row> = Vec::new();
    for group in groups {
        let peak = group.key.and_then(|phase| peaks.remove(&phase));
        let phase = group.key.map(|phase| phase.name(live.trace).to_owned());
        let location = phase.clone().unwrap_or_else(|| BEFORE_RECORDING.to_owned());
        rows.push(group.into_row(location, detail(phase, peak)));
    }
    rows.extend(peaks.into_iter().map(|(phase, peak)| {
        let location = phase.name(live.trace).to_owned();
        let detail = detail(Some(location.clone()), Some(peak));
        let nothing = Bytes(0);
        Row { bytes: nothing, cumulative: nothing, count: 0, median: nothing, location, detail }
    }));
    rows
}

fn detail(phase: Option<String>, peak: Option<(Bytes, Micros)>) -> Detail {
    let peak_seconds = peak.map(|(_, time)| time.as_seconds());
    Detail::Phase { phase, peak: peak.map(|(bytes, _)| bytes), peak_seconds }
}

/// The peak of allocated bytes right after an allocation of each phase, and its time.
pub(crate) type FoundPeaks = BTreeMap<Phase, (Bytes, Micros)>;

/// The peaks of phases, in a trace that grows.
#[derive(Debug, Clone)]
pub(crate) struct PhasePeaks {
    totals: Totals,
    /// How many events the totals have.
    read: usize,
    found: FoundPeaks,
    /// The peak of allocations that are outside until a backward pass shows that they are the loss's, and one of them:
    /// all of them change together.
    maybe_loss: Option<(AllocationId, (Bytes, Micros))>,
}

impl PhasePeaks {
    pub(crate) fn at_start(trace: &Trace, device: Device) -> Self {
        let totals = Totals::at_start(trace, device);
        Self { totals, read: 0, found: FoundPeaks::new(), maybe_loss: None }
    }

    /// The peaks of a trace that does not grow.
    pub(crate) fn find(trace: &Trace, device: Device, context: &Context) -> FoundPeaks {
        let mut peaks = Self::at_start(trace, device);
        peaks.extend(trace, context, |_| false);
        peaks.found
    }

    /// The peaks of what was read.
    pub(crate) fn found(&self) -> FoundPeaks {
        let mut found = self.found.clone();
        if let Some((_, peak)) = self.maybe_loss {
            raise(&mut found, Phase::Outside, peak);
        }
        found
    }

    /// Reads the events that are new.
    pub(crate) fn extend(
        &mut self,
        trace: &Trace,
        context: &Context,
        may_be_loss: impl Fn(AllocationId) -> bool,
    ) {
        if let Some((id, peak)) = self.maybe_loss.take_if(|(id, _)| !may_be_loss(*id)) {
            raise(&mut self.found, context.work(id), peak);
        }
        let device = self.totals.device();
        let new = trace.events.get(self.read..).unwrap_or_default();
        for event in new.iter().filter(|event| event.device == device) {
            self.totals.apply(trace, event);
            if let Subject::Alloc(id) = event.subject
                && let Some(phase) = context.phase(trace, id)
            {
                let now = (self.totals.allocated(), event.time);
                if phase == Phase::Outside && may_be_loss(id) {
                    let (_, peak) = self.maybe_loss.get_or_insert((id, now));
                    *peak = higher(*peak, now);
                } else {
                    raise(&mut self.found, phase, now);
                }
            }
        }
        self.read = trace.events.len();
    }
}

fn raise(found: &mut FoundPeaks, phase: Phase, now: (Bytes, Micros)) {
    let peak = found.entry(phase).or_insert(now);
    *peak = higher(*peak, now);
}

/// The higher one; the earlier one where both are as high.
fn higher(one: (Bytes, Micros), other: (Bytes, Micros)) -> (Bytes, Micros) {
    let is_higher = (other.0, std::cmp::Reverse(other.1)) > (one.0, std::cmp::Reverse(one.1));
    if is_higher { other } else { one }
}
