//! The levels of a device at the ends of steps, in a trace that grows.

use floodmark_trace::{Device, Subject, Trace};

use crate::moment::levels::Levels;
use crate::moment::totals::Totals;

/// The levels at the ends that were read.
#[derive(Debug, Clone)]
pub(crate) struct StepLevels {
    totals: Totals,
    /// How many events the totals have.
    read: usize,
    found: Vec<Levels>,
}

impl StepLevels {
    pub(crate) fn at_start(trace: &Trace, device: Device) -> Self {
        Self { totals: Totals::at_start(trace, device), read: 0, found: Vec::new() }
    }

    /// Reads on to the last end that something follows: the event of what was reserved until an
    /// end follows it.
    pub(crate) fn extend(&mut self, trace: &Trace, ends: &[u32]) {
        for &end in ends.get(self.found.len()..).unwrap_or_default() {
            if end as usize + 1 < trace.events.len() {
                self.take(trace, end);
            }
        }
    }

    /// All of them from one on, also the last one.
    pub(crate) fn levels_from(&self, first: usize, trace: &Trace, ends: &[u32]) -> Vec<Levels> {
        let mut levels = self.found.get(first..).unwrap_or_default().to_vec();
        let mut last = Self { totals: self.totals, read: self.read, found: Vec::new() };
        for &end in ends.get(self.found.len().max(first)..).unwrap_or_default() {
            last.take(trace, end);
        }
        levels.append(&mut last.found);
        levels
    }

    fn take(&mut self, trace: &Trace, end: u32) {
        let after = end as usize + 1;
        for event in &trace.events[self.read..after] {
            self.totals.apply(trace, event);
        }
        self.read = after;
        let mut shown = self.totals;
        if let Some(next) = trace.events.get(after)
            && matches!(next.subject, Subject::Reserved(_))
        {
            shown.apply(trace, next);
        }
        self.found.push(shown.levels(trace.events[end as usize].time.as_seconds()));
    }
}
