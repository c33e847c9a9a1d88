//! The axis of a picture over time: how far along it each time lies.
//!
//! A program may wait for minutes and then allocate a thousand times in a millisecond, so there are three axes:
//!
//! - time, on which long idle stretches are short ([`AxisBreak`] says which);
//! - events: each has the same width;
//! - steps: each has the same width, and in a step each event.
//!
//! An axis is a list of knots, and straight between two of them. So the page draws the same axis as the tiles have, in both
//! directions; with more events than knots, the events between two knots lie at their times.

use std::str::FromStr;

use floodmark_trace::{Device, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::invalid_value::InvalidValue;
use crate::moment::{initial_events, micros};

/// How many knots an axis of events has at most.
const MOST_KNOTS: usize = 2048;
/// A stretch is idle when it takes at least this long,
const LEAST_IDLE_MICROS: u64 = 500_000;
/// and is at least this part of the recording,
const LEAST_IDLE_PART: u64 = 20;
/// and as long as this many events usually take.
const LEAST_IDLE_EVENTS: u64 = 64;
/// An idle stretch is as wide as this part of all that is not idle.
const IDLE_PART: u64 = 60;
/// The width of an event or a step in units; a unit of time is a microsecond.
const UNITS: u64 = 1_000_000;
/// How many columns an event has where a picture is enlarged most.
const EVENT_COLUMNS: u64 = 8;

/// The unit that is spread evenly along an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AxisBy {
    /// Seconds, with idle stretches made short.
    #[default]
    Time,
    /// Events.
    Events,
    /// Steps, and the events of a step; events where there are no steps.
    Steps,
}

/// The message for another text.
const EXPECTED: InvalidValue = InvalidValue("an axis is `time`, `events` or `steps`");

impl FromStr for AxisBy {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "time" => Ok(Self::Time),
            "events" => Ok(Self::Events),
            "steps" => Ok(Self::Steps),
            _ => Err(EXPECTED),
        }
    }
}

/// A time, and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct AxisKnot {
    /// Seconds since the recording began.
    pub seconds: f64,
    /// Seconds, events or steps from the left.
    pub position: f64,
}

/// An idle stretch that the axis makes short.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct AxisBreak {
    /// When it begins, in seconds.
    pub from: f64,
    /// When it ends.
    pub to: f64,
}

/// The axis of a picture over time. Between two knots it is straight.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Axis {
    /// What is spread evenly.
    pub by: AxisBy,
    /// The position of the end.
    pub length: f64,
    /// In order; the first is the beginning of the recording and the last its end.
    pub knots: Vec<AxisKnot>,
    /// The idle stretches that are short.
    pub breaks: Vec<AxisBreak>,
}

impl Axis {
    /// Time as it passed, between two times in seconds.
    pub fn of_window(from: f64, to: f64) -> Self {
        let knots = [(from, 0.0), (to, (to - from).max(0.0))];
        Self {
            by: AxisBy::Time,
            length: (to - from).max(0.0),
            knots: knots.map(|(seconds, position)| AxisKnot { seconds, position }).to_vec(),
            breaks: Vec::new(),
        }
    }

    /// All of a recording, with long idle stretches of a device made short.
    pub fn with_short_idle(trace: &Trace, device: Device) -> Self {
        let end = trace.end().0.max(1);
        AxisMap::with_breaks(idle(&times(trace, device), end), end).answer()
    }

    /// The position of a time; none where the axis does not show it.
    pub fn position_at(&self, seconds: f64) -> Option<f64> {
        let (first, last) = (self.knots.first()?, self.knots.last()?);
        if seconds < first.seconds || seconds > last.seconds {
            return None;
        }
        let next = self.knots.partition_point(|knot| knot.seconds <= seconds);
        let Some((before, after)) = self.around(next) else { return Some(last.position) };
        let share = (seconds - before.seconds) / (after.seconds - before.seconds);
        Some(before.position + share * (after.position - before.position))
    }

    /// The time at a position; the nearest one that the axis shows.
    pub fn seconds_at(&self, position: f64) -> f64 {
        let next = self.knots.partition_point(|knot| knot.position <= position);
        let Some((before, after)) = self.around(next) else {
            let nearest = if next == 0 { self.knots.first() } else { self.knots.last() };
            return nearest.map_or(0.0, |knot| knot.seconds);
        };
        let share = (position - before.position) / (after.position - before.position);
        before.seconds + share * (after.seconds - before.seconds)
    }

    /// The knot with that index, and the one before it.
    fn around(&self, next: usize) -> Option<(AxisKnot, AxisKnot)> {
        Some((*self.knots.get(next.checked_sub(1)?)?, *self.knots.get(next)?))
    }
}

/// The same in whole microseconds and units, so that no event falls between two columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AxisMap {
    by: AxisBy,
    /// Times rise from knot to knot, units do not fall.
    knots: Vec<(u64, u64)>,
    breaks: Vec<(u64, u64)>,
    /// The units of the narrowest useful column.
    finest: u64,
}

impl AxisMap {
    /// Time as it passed.
    pub(crate) fn plain(trace: &Trace) -> Self {
        let end = trace.end().0.max(1);
        let knots = vec![(0, 0), (end, end)];
        Self { by: AxisBy::Time, knots, breaks: Vec::new(), finest: 1 }
    }

    pub(crate) fn new(trace: &Trace, context: &Context, device: Device, by: AxisBy) -> Self {
        let end = trace.end().0.max(1);
        match by {
            AxisBy::Time => Self::with_breaks(idle(&times(trace, device), end), end),
            AxisBy::Events => Self::with_events(&times(trace, device), end),
            AxisBy::Steps => {
                let ends = context.step_ends().iter();
                let mut ends: Vec<u64> = ends.map(|&at| trace.events[at as usize].time.0).collect();
                ends.dedup();
                if ends.is_empty() {
                    return Self::with_events(&times(trace, device), end);
                }
                Self::with_steps(&times(trace, device), &ends, end)
            }
        }
    }

    fn with_breaks(breaks: Vec<(u64, u64)>, end: u64) -> Self {
        let idle: u64 = breaks.iter().map(|(from, to)| to - from).sum();
        let short = ((end - idle) / IDLE_PART).max(1);
        let mut knots = vec![(0, 0)];
        let (mut time, mut units) = (0, 0);
        for &(from, to) in &breaks {
            units += from - time;
            push(&mut knots, from, units);
            units += short.min(to - from);
            push(&mut knots, to, units);
            time = to;
        }
        push(&mut knots, end, units + (end - time));
        Self { by: AxisBy::Time, knots, breaks, finest: 1 }
    }

    fn with_events(times: &[u64], end: u64) -> Self {
        let knots = spread(times, 0, times.len() as u64 * UNITS, end);
        Self { by: AxisBy::Events, knots, breaks: Vec::new(), finest: UNITS / EVENT_COLUMNS }
    }

    fn with_steps(times: &[u64], ends: &[u64], end: u64) -> Self {
        // What comes after the last step has the width of one, if there is anything.
        let tail = times.last().is_some_and(|&last| ends.last().is_some_and(|&end| last > end));
        let ends: Vec<u64> = ends.iter().copied().chain(tail.then_some(end)).collect();
        let every = ends.len().div_ceil(MOST_KNOTS).max(1);
        let room = (MOST_KNOTS / ends.len()).max(1);
        let (mut knots, mut from) = (vec![(0, 0)], 0);
        for (step, &to) in (0_u64..).zip(&ends) {
            let step_to = times.partition_point(|&time| time < to).max(from);
            let inside = &times[from..step_to];
            from = step_to;
            for (time, units) in chosen(inside, step * UNITS, UNITS, room) {
                push(&mut knots, time, units);
            }
            if (step + 1).is_multiple_of(every as u64) {
                push(&mut knots, to, (step + 1) * UNITS);
            }
        }
        let length = ends.len() as u64 * UNITS;
        finish(&mut knots, end, length);
        let finest = (length / (EVENT_COLUMNS * times.len().max(1) as u64)).max(1);
        Self { by: AxisBy::Steps, knots, breaks: Vec::new(), finest }
    }

    /// The units of the end; at least one.
    pub(crate) fn length(&self) -> u64 {
        self.knots.last().map_or(1, |&(_, units)| units.max(1))
    }

    /// The units of the narrowest column: a microsecond, or a part of an event.
    pub(crate) fn finest(&self) -> u64 {
        self.finest
    }

    /// Where a time lies.
    pub(crate) fn units_at(&self, micros: u64) -> u64 {
        let next = self.knots.partition_point(|&(time, _)| time <= micros);
        match (self.knots.get(next.saturating_sub(1)), self.knots.get(next)) {
            (Some(&before), Some(&after)) => along(micros, before, after),
            (Some(&(_, units)), None) => units,
            (None, _) => 0,
        }
    }

    /// The first microsecond that lies there or behind it.
    pub(crate) fn micros_at(&self, units: u64) -> u64 {
        let next = self.knots.partition_point(|&(_, at)| at < units);
        let Some(&(time, to)) = self.knots.get(next) else {
            return self.knots.last().map_or(0, |&(time, _)| time);
        };
        let Some(&(before, from)) = next.checked_sub(1).and_then(|at| self.knots.get(at)) else {
            return time;
        };
        let [part, whole] = [units - from, to - from].map(u128::from);
        let inside = (part * u128::from(time - before)).div_ceil(whole);
        before + u64::try_from(inside).unwrap_or(u64::MAX)
    }

    /// Where a time lies, as the answer has it.
    pub(crate) fn position(&self, seconds: f64) -> f64 {
        as_position(self.units_at(micros(seconds)))
    }

    pub(crate) fn answer(&self) -> Axis {
        Axis {
            by: self.by,
            length: as_position(self.length()),
            knots: self
                .knots
                .iter()
                .map(|&(time, units)| AxisKnot {
                    seconds: as_position(time),
                    position: as_position(units),
                })
                .collect(),
            breaks: self
                .breaks
                .iter()
                .map(|&(from, to)| AxisBreak { from: as_position(from), to: as_position(to) })
                .collect(),
        }
    }
}

/// Microseconds as seconds, units as events or steps.
#[expect(clippy::cast_precision_loss, reason = "the place of a line in a picture")]
fn as_position(units: u64) -> f64 {
    units as f64 / 1e6
}

/// A straight way between two knots, of which the second is later.
fn along(micros: u64, (from, low): (u64, u64), (to, high): (u64, u64)) -> u64 {
    let inside =
        u128::from(micros - from) * u128::from(high - low) / u128::from((to - from).max(1));
    low + u64::try_from(inside).unwrap_or(0)
}

/// Adds a knot; of two at one time the first stays, and the units of the last.
fn push(knots: &mut Vec<(u64, u64)>, time: u64, units: u64) {
    match knots.last_mut() {
        Some((last, _)) if *last == time => {}
        _ => knots.push((time, units)),
    }
}

/// The last knot is the end, and replaces another at that time.
fn finish(knots: &mut Vec<(u64, u64)>, end: u64, length: u64) {
    while knots.len() > 1 && knots.last().is_some_and(|&(time, _)| time >= end) {
        knots.pop();
    }
    knots.push((end, length.max(1)));
}

/// When something happened on a device, in order.
fn times(trace: &Trace, device: Device) -> Vec<u64> {
    let events = trace.events[initial_events(trace)..].iter();
    let here = events.filter(|event| event.device == device && is_shown(event.subject));
    here.map(|event| event.time.0).collect()
}

/// Stretches in which nothing happens, far longer than usual.
fn idle(times: &[u64], end: u64) -> Vec<(u64, u64)> {
    let usual = end / (times.len() as u64).max(1);
    let least = (end / LEAST_IDLE_PART).max(usual.saturating_mul(LEAST_IDLE_EVENTS));
    let least = least.max(LEAST_IDLE_MICROS);
    let all = std::iter::once(0).chain(times.iter().copied()).chain(std::iter::once(end));
    let mut found = Vec::new();
    let mut before = 0;
    for time in all {
        if time.saturating_sub(before) >= least {
            found.push((before, time));
        }
        before = before.max(time);
    }
    found
}

/// Knots for all of a recording, each event as wide as another.
fn spread(times: &[u64], from: u64, length: u64, end: u64) -> Vec<(u64, u64)> {
    let mut knots = vec![(0, from)];
    for (time, units) in chosen(times, from, length, MOST_KNOTS) {
        push(&mut knots, time, units);
    }
    finish(&mut knots, end, from + length);
    knots
}

/// At most about `most` of some events, with where they lie when all share `length`.
fn chosen(
    times: &[u64],
    from: u64,
    length: u64,
    most: usize,
) -> impl Iterator<Item = (u64, u64)> + '_ {
    let (count, every) = (times.len().max(1) as u64, times.len().div_ceil(most).max(1));
    (0_u64..).zip(times).step_by(every).map(move |(at, &time)| (time, from + length / count * at))
}

/// Whether an event is one that the program or the driver has something to do with.
pub(crate) fn is_shown(subject: Subject) -> bool {
    match subject {
        Subject::Alloc(_)
        | Subject::Free { .. }
        | Subject::FreeCompleted(_)
        | Subject::FreeUnknown(_)
        | Subject::SegmentAlloc(_)
        | Subject::SegmentFree(_)
        | Subject::SegmentMap(_)
        | Subject::SegmentUnmap(_)
        | Subject::Oom(_) => true,
        Subject::InitialSegment(_)
        | Subject::Reserved(_)
        | Subject::Label { .. }
        | Subject::Saved(_)
        | Subject::Unpacked(_)
        | Subject::Step(_)
        | Subject::Mark(_)
        | Subject::PhaseBegin(_)
        | Subject::PhaseEnd(_)
        | Subject::OptimizerBegin
        | Subject::OptimizerEnd => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_exact(axis: &AxisMap) {
        for units in 0..=axis.length() {
            let micros = axis.micros_at(units);
            assert!(axis.units_at(micros) >= units, "{units} of {axis:?}");
            assert!(micros == 0 || axis.units_at(micros - 1) < units.max(1), "{units} of {axis:?}");
        }
    }

    #[test]
    fn a_long_wait_is_short_and_the_rest_keeps_its_length() {
        const END: u64 = 1_000_000;
        let times: Vec<u64> = (0..100).chain(END - 100..END).collect();
        let axis = AxisMap::with_breaks(idle(&times, END), END);
        assert_eq!(axis.breaks, [(99, END - 100)]);
        assert_eq!(axis.units_at(99), 99);
        assert_eq!(axis.units_at(END - 100), 102);
        assert_eq!(axis.length(), 202);
        is_exact(&axis);
    }

    /// A snapshot of 0.6 s has gaps of 40 ms between its steps: they are no idle stretches.
    #[test]
    fn a_short_gap_is_not_idle_however_short_the_recording_is() {
        let steps = (0..12_u64).flat_map(|step| (0..200).map(move |event| step * 50_000 + event));
        let times: Vec<u64> = steps.collect();
        assert_eq!(idle(&times, 600_000), []);
        let later: Vec<u64> = times.iter().map(|time| time * 20).collect();
        assert_eq!(idle(&later, 12_000_000).len(), 12);
    }

    #[test]
    fn even_events_have_no_idle_stretch() {
        let few = [0, 10, 20, 30, 90];
        assert_eq!(idle(&few, 100), []);
    }

    #[test]
    fn every_event_is_as_wide_as_another() {
        let axis = AxisMap::with_events(&[5, 5, 7, 1_000], 2_000);
        assert_eq!(
            axis.knots,
            [(0, 0), (5, 0), (7, 2 * UNITS), (1_000, 3 * UNITS), (2_000, 4 * UNITS)]
        );
        assert_eq!(axis.micros_at(UNITS), 6);
        assert_eq!(axis.micros_at(0), 0);
    }

    #[test]
    fn a_column_is_never_much_narrower_than_an_event() {
        let axis = AxisMap::with_events(&[5, 6, 7, 1_000], 2_000);
        assert_eq!(axis.finest(), UNITS / EVENT_COLUMNS);
        let axis = AxisMap::with_steps(&[1, 2, 10, 11], &[10, 40], 40);
        assert_eq!(axis.finest(), 2 * UNITS / (EVENT_COLUMNS * 4));
    }

    #[test]
    fn every_step_is_as_wide_as_another() {
        let axis = AxisMap::with_steps(&[1, 2, 10, 11, 12, 50], &[10, 40], 60);
        assert_eq!(axis.units_at(10), UNITS);
        assert_eq!(axis.units_at(40), 2 * UNITS);
        assert_eq!(axis.length(), 3 * UNITS);
        assert_eq!(axis.units_at(2), UNITS / 2);
    }

    #[test]
    fn a_time_has_a_position_and_a_position_a_time() {
        const END: u64 = 1_000_000;
        let times: Vec<u64> = (0..100).chain(END - 100..END).collect();
        let axis = AxisMap::with_breaks(idle(&times, END), END).answer();
        for micros in [0, 50, 99, 500_000, END - 100, END] {
            let seconds = as_position(micros);
            let position = axis.position_at(seconds).unwrap();
            assert!((axis.seconds_at(position) - seconds).abs() < 1e-9, "{micros}");
        }
        assert!(axis.position_at(0.5).unwrap() < 110e-6, "the middle is inside the short stretch");
        assert_eq!((axis.position_at(-0.1), axis.position_at(1.1)), (None, None));
        let window = Axis::of_window(2.0, 4.0);
        assert_eq!(window.position_at(3.0), Some(1.0));
        assert!(
            [(-1.0, 2.0), (1.0, 3.0), (9.0, 4.0)].iter().all(|&(position, seconds)| {
                (window.seconds_at(position) - seconds).abs() < 1e-9
            })
        );
    }

    #[test]
    fn an_empty_trace_has_an_axis() {
        let axis = AxisMap::with_events(&[], 10);
        assert_eq!((axis.length(), axis.micros_at(1)), (1, 10));
    }
}
