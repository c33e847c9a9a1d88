//! The annotations of `record_function`: optimizer steps, profiler steps and phases.

use floodmark_trace::{Device, EventKind, Micros, Row, TextKind};

use crate::contents::snapshot::Annotation;
use crate::contents::strings::Strings;
use crate::format::known_strings::StringId;
use crate::import::text_rows::TextRows;

/// The bound on open phases: further ones are not tracked.
const MOST_OPEN: usize = 256;

/// The annotations in the order of their times, and the open phases.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    /// The annotations that are not yet added, the next one last.
    left: Vec<Annotation>,
    open: Vec<StringId>,
    /// The text of the innermost open phase; 0 if no phase is open.
    pub(crate) phase: u32,
}

impl Annotations {
    pub(crate) fn new(all: &[Annotation]) -> Self {
        let mut left = all.to_vec();
        left.sort_by_key(|annotation| annotation.time);
        left.reverse();
        Self { left, ..Self::default() }
    }

    /// The number of annotations that are not yet added.
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// The row of the next annotation before an event at `time`; without an event, of the next annotation.
    ///
    /// An event in the microsecond in which a phase begins or ends belongs to the phase.
    pub(crate) fn next_before(
        &mut self,
        time: Option<u64>,
        strings: &Strings,
        texts: &mut TextRows,
    ) -> Option<(u64, Row)> {
        loop {
            let next = *self.left.last()?;
            let is_due =
                time.is_none_or(
                    |time| {
                        if next.is_start { next.time <= time } else { next.time < time }
                    },
                );
            if !is_due {
                return None;
            }
            self.left.pop();
            if let Some(row) = self.row(next, strings, texts) {
                return Some((next.time, row));
            }
        }
    }

    fn row(
        &mut self,
        annotation: Annotation,
        strings: &Strings,
        texts: &mut TextRows,
    ) -> Option<Row> {
        let Annotation { name, is_start, .. } = annotation;
        let row = |kind| Row::new(kind, Device::CPU, 0, Micros(0));
        let text = strings.get(name);
        if text.starts_with("Optimizer.step#") {
            let kind = if is_start { EventKind::OptimizerBegin } else { EventKind::OptimizerEnd };
            return Some(row(kind));
        }
        if let Some(number) = text.strip_prefix("ProfilerStep#") {
            let mut step = row(EventKind::Step);
            step.stack = number.parse().unwrap_or(0);
            return (!is_start).then_some(step);
        }
        let id = texts.string(TextKind::Phase, name, strings);
        let mut phase = row(if is_start { EventKind::PhaseBegin } else { EventKind::PhaseEnd });
        phase.stack = id;
        if is_start && self.open.len() < MOST_OPEN {
            self.open.push(name);
        } else if !is_start {
            // An end without a beginning is dropped.
            let at = self.open.iter().rposition(|&open| open == name)?;
            self.open.remove(at);
        }
        self.phase =
            self.open.last().map_or(0, |&open| texts.string(TextKind::Phase, open, strings));
        Some(phase)
    }
}
