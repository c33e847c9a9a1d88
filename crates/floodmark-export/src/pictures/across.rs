//! The horizontal axis of a chart: positions of values, ticks and labels. Idle stretches are short, as on the page
//! (`web/src/base/axis.ts`).

use floodmark_analysis::{Axis, AxisKnot};

use super::chart::{Chart, Quantity};
use super::font;
use super::layout::{BOTTOM, LEFT, Layout, RIGHT, SMALL};
use super::palette;
use super::scene::{Anchor, Paint, Point, Shape};
use super::ticks::{Scale, Unit};

/// The approximate number of ticks.
const TICKS: u32 = 9;
/// The height and the width of a tooth of a torn edge.
const TOOTH: f32 = 6.0;
const BITE: f32 = 1.5;
/// The gap between two texts.
const GAP: f32 = 6.0;

/// The position of a time on an axis, interpolated between its knots.
pub(crate) fn position_of(axis: &Axis, seconds: f64) -> f64 {
    between(&axis.knots, seconds, |knot| (knot.seconds, knot.position))
}

/// The time at a position.
pub(crate) fn seconds_at(axis: &Axis, position: f64) -> f64 {
    between(&axis.knots, position, |knot| (knot.position, knot.seconds))
}

fn between(knots: &[AxisKnot], value: f64, of: impl Fn(&AxisKnot) -> (f64, f64)) -> f64 {
    let after = knots.partition_point(|knot| of(knot).0 <= value);
    let after = after.clamp(1, knots.len().saturating_sub(1).max(1));
    let (Some(one), Some(other)) = (knots.get(after - 1), knots.get(after)) else { return value };
    let ((from, at), (to, then)) = (of(one), of(other));
    if to <= from { at } else { at + (value - from) / (to - from) * (then - at) }
}

/// The share of the width to the left of a value. `end` is the value at the right edge.
pub(crate) fn share(chart: &Chart, end: f64, value: f64) -> f64 {
    match &chart.axis {
        Some(axis) if axis.length > 0.0 => position_of(axis, value) / axis.length,
        _ => value / end,
    }
}

/// The parts of an axis that are not idle.
fn busy(axis: &Axis, end: f64) -> Vec<(f64, f64)> {
    let mut found = Vec::new();
    let mut from = 0.0;
    for idle in &axis.breaks {
        found.push((from, idle.from));
        from = idle.to;
    }
    found.push((from, end));
    found.retain(|(from, to)| to > from);
    found
}

fn idle_text(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.1} s idle") } else { format!("{seconds:.0} s idle") }
}

impl Layout<'_> {
    /// The ticks with their labels, and the length of each idle stretch.
    pub(crate) fn across(&mut self) {
        let chart = self.chart;
        let unit = match chart.across {
            Quantity::Seconds => Unit::Seconds,
            Quantity::Count => Unit::Count,
        };
        let mut taken: Vec<(f32, f32)> = Vec::new();
        let (length, stretches) = match &chart.axis {
            Some(axis) => (axis.length, busy(axis, self.end)),
            None => (self.end, vec![(0.0, self.end)]),
        };
        for idle in chart.axis.iter().flat_map(|axis| &axis.breaks) {
            let text = idle_text(idle.to - idle.from);
            let middle = self.x(idle.from).midpoint(self.x(idle.to));
            // A label that is too near to the one before moves to the right.
            let free = taken.last().map_or(LEFT, |(_, end)| end + GAP);
            let middle = middle.max(free + font::width(&text, SMALL) / 2.0);
            self.label(middle, &text, palette::INK, &mut taken);
        }
        let scale = Scale::new(self.end, length, TICKS, unit);
        for (from, to) in stretches {
            for (value, name) in scale.between(from, to) {
                let x = self.x(value);
                self.line(vec![(x, BOTTOM), (x, BOTTOM + 5.0)], palette::QUIET, 1.0, None);
                self.label(x, &name, palette::QUIET, &mut taken);
            }
        }
    }

    /// Writes a label below the axis, unless it would overlap another.
    fn label(&mut self, x: f32, text: &str, paint: Paint, taken: &mut Vec<(f32, f32)>) {
        let half = font::width(text, SMALL) / 2.0;
        let (from, to) = (x - half - GAP, x + half + GAP);
        if taken.iter().all(|&(start, end)| to <= start || from >= end) {
            taken.push((from, to));
            self.text((x, BOTTOM + 20.0), text, SMALL, Anchor::Middle, paint);
        }
    }

    /// Draws torn edges at an idle stretch.
    pub(crate) fn breaks(&mut self) {
        for idle in self.chart.axis.iter().flat_map(|axis| &axis.breaks) {
            let (from, to) = (self.x(idle.from).max(LEFT), self.x(idle.to).min(RIGHT));
            let (left, right) = (self.torn(from), self.torn(to.max(from + 2.0 * BITE)));
            let points = left.iter().chain(right.iter().rev()).copied().collect();
            self.shapes.push(Shape::Area { points, fill: Paint::tint(palette::GROUND.rgb, 0.78) });
            for edge in [left, right] {
                self.line(edge, palette::QUIET, 1.0, None);
            }
        }
    }

    fn torn(&self, x: f32) -> Vec<Point> {
        let mut points = Vec::new();
        let (mut y, mut side) = (self.top, BITE);
        while y < BOTTOM {
            points.push((x + side, y));
            (y, side) = (y + TOOTH, -side);
        }
        points.push((x + side, BOTTOM));
        points
    }
}

#[cfg(test)]
mod tests {
    use floodmark_analysis::{AxisBreak, AxisBy};

    use super::*;

    /// Ten seconds. Eight of them are idle and have the width of one.
    fn axis() -> Axis {
        let knot = |seconds, position| AxisKnot { seconds, position };
        Axis {
            by: AxisBy::Time,
            length: 3.0,
            knots: vec![knot(0.0, 0.0), knot(1.0, 1.0), knot(9.0, 2.0), knot(10.0, 3.0)],
            breaks: vec![AxisBreak { from: 1.0, to: 9.0 }],
        }
    }

    #[test]
    fn a_time_lies_where_its_position_is() {
        let axis = axis();
        for (seconds, position) in [(0.0, 0.0), (0.5, 0.5), (5.0, 1.5), (9.5, 2.5), (10.0, 3.0)] {
            assert!((position_of(&axis, seconds) - position).abs() < 1e-9, "{seconds}");
            assert!((seconds_at(&axis, position) - seconds).abs() < 1e-9, "{position}");
        }
        assert_eq!(busy(&axis, 10.0), [(0.0, 1.0), (9.0, 10.0)]);
    }

    #[test]
    fn an_axis_without_knots_is_plain() {
        let empty = Axis { knots: vec![], ..axis() };
        assert!((position_of(&empty, 4.0) - 4.0).abs() < 1e-9);
    }
}
