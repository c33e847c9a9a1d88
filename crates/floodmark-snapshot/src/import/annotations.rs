//! What `record_function` said: optimizers, steps of the profiler, and phases.

use floodmark_trace::{Device, EventKind, Micros, Row, TextKind};

use crate::contents::snapshot::Annotation;
use crate::contents::strings::Strings;
use crate::format::known_strings::StringId;
use crate::import::text_rows::TextRows;

/// More phases inside each other are not kept apart.
const MOST_OPEN: usize = 256;

/// Annotations in the order of their times, and those that are open.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    /// Those to come, the next one last.
    left: Vec<Annotation>,
    open: Vec<StringId>,
    /// The innermost open phase, as a text; 0 when none is.
    pub(crate) phase: u32,
}

impl Annotations {
    pub(crate) fn new(all: &[Annotation]) -> Self {
        let mut left = all.to_vec();
        left.sort_by_key(|annotation| annotation.time);
        left.reverse();
        Self { left, ..Self::default() }
    }

    /// The next row that comes before an event at `time`; all that are left when there is no event.
    ///
    /// What happens in the microsecond in which a stretch begins or ends is inside it.
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
        let id = texts.word(TextKind::Phase, name, strings);
        let mut phase = row(if is_start { EventKind::PhaseBegin } else { EventKind::PhaseEnd });
        phase.stack = id;
        if is_start && self.open.len() < MOST_OPEN {
            self.open.push(name);
        } else if !is_start {
            // Without its beginning, an end says nothing.
            let at = self.open.iter().rposition(|&open| open == name)?;
            self.open.remove(at);
        }
        self.phase = self.open.last().map_or(0, |&open| texts.word(TextKind::Phase, open, strings));
        Some(phase)
    }
}
