//! The layout of a chart.
//!
//! From top to bottom: the title and the most important figures, the legend (`heading.rs`), the names of markers, the bands, the
//! plot, the axis. Of names of markers that would overlap, the less important are left out. Their lines are drawn if they are
//! few and not too near.

use super::across::share;
use super::chart::{Chart, Emphasis, Mark, Quantity};
use super::font::{self, Style};
use super::palette::{self, Rgb};
use super::scene::{Anchor, Paint, Point, Scene, Shape};
use super::ticks::{Unit, ticks};

pub(crate) const WIDTH: f32 = 1100.0;
pub(crate) const HEIGHT: f32 = 540.0;
/// The size of all text above the plot.
pub(crate) const MARGIN: f32 = 24.0;
pub(crate) const LEFT: f32 = 86.0;
pub(crate) const RIGHT: f32 = WIDTH - 30.0;
pub(crate) const BOTTOM: f32 = HEIGHT - 56.0;
/// The row of bands.
const STRIP: f32 = 16.0;

/// The highest number of lines of one kind.
const MANY_MARKS: usize = 60;
/// The least distance of a line without a name to another line.
const COMB: f32 = 24.0;
/// The highest width of a marker's name.
const WIDEST_MARK: f32 = 180.0;
/// The least number of letters of a shortened name.
const LEAST_LETTERS: usize = 8;

pub(crate) const SMALL: Style = Style { size: 12.0, is_bold: false };
const TINY: Style = Style { size: 11.0, is_bold: false };

impl Chart {
    pub(crate) fn scene(&self) -> Scene {
        let mut layout = Layout::new(self);
        layout.shapes.push(Shape::Rect {
            at: (0.0, 0.0),
            size: (WIDTH, HEIGHT),
            fill: palette::GROUND,
        });
        layout.heading();
        layout.axes();
        layout.layers();
        layout.draw_lines();
        layout.breaks();
        layout.strip();
        layout.marks();
        layout.peak();
        let title = font::shortened(&format!("{}: {}", self.title, self.subtitle));
        Scene { title, width: WIDTH, height: HEIGHT, shapes: layout.shapes }
    }
}

/// A line of the chart. Equal series share a line.
pub(crate) struct Line<'a> {
    pub(crate) name: String,
    pub(crate) colour: Rgb,
    points: &'a [(f64, f64)],
}

pub(crate) struct Layout<'a> {
    pub(crate) chart: &'a Chart,
    pub(crate) lines: Vec<Line<'a>>,
    pub(crate) shapes: Vec<Shape>,
    /// Names of bands, in the order of their first bands.
    pub(crate) band_names: Vec<&'a str>,
    /// The upper edge of the plot.
    pub(crate) top: f32,
    /// The value at the right edge.
    pub(crate) end: f64,
    most: f64,
}

impl<'a> Layout<'a> {
    fn new(chart: &'a Chart) -> Self {
        let all = || chart.series.iter().chain(&chart.layers).flat_map(|series| &series.points);
        let end = all().map(|point| point.0).fold(chart.end, f64::max);
        let most = all().map(|point| point.1).fold(0.0, f64::max);
        let mut band_names: Vec<&str> = Vec::new();
        for band in &chart.bands {
            if !band_names.contains(&band.name.as_str()) {
                band_names.push(&band.name);
            }
        }
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (at, series) in chart.series.iter().enumerate() {
            let colour = palette::line(&series.name, at);
            match lines.iter_mut().find(|line| line.points == series.points) {
                // Later series are more important.
                Some(line) => {
                    line.name = format!("{}, {}", series.name, line.name);
                    line.colour = colour;
                }
                None => {
                    lines.push(Line { name: series.name.clone(), colour, points: &series.points });
                }
            }
        }
        let end = if end > 0.0 { end } else { 1.0 };
        // Room above the highest point, for its name.
        let most = if most > 0.0 { most * 1.1 } else { 1.0 };
        Self { chart, lines, shapes: Vec::new(), band_names, top: 0.0, end, most }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a place in a picture")]
    pub(crate) fn x(&self, value: f64) -> f32 {
        LEFT + (RIGHT - LEFT) * share(self.chart, self.end, value).clamp(0.0, 1.0) as f32
    }

    #[expect(clippy::cast_possible_truncation, reason = "a place in a picture")]
    fn y(&self, value: f64) -> f32 {
        BOTTOM - (BOTTOM - self.top) * (value / self.most).clamp(0.0, 1.0) as f32
    }

    pub(crate) fn text(
        &mut self,
        at: Point,
        text: &str,
        style: Style,
        anchor: Anchor,
        paint: Paint,
    ) {
        self.shapes.push(Shape::Text { at, text: text.to_owned(), style, anchor, paint });
    }

    pub(crate) fn line(&mut self, points: Vec<Point>, paint: Paint, width: f32, dash: Option<f32>) {
        self.shapes.push(Shape::Line { points, paint, width, dash });
    }

    fn axes(&mut self) {
        if self.chart.series.iter().chain(&self.chart.layers).all(|one| one.points.is_empty()) {
            let middle = (LEFT.midpoint(RIGHT), self.top.midpoint(BOTTOM));
            self.text(middle, "no memory was recorded", SMALL, Anchor::Middle, palette::QUIET);
            return;
        }
        for (value, name) in ticks(self.most, 6, Unit::Bytes) {
            let y = self.y(value);
            self.line(vec![(LEFT, y), (RIGHT, y)], palette::GRID, 1.0, None);
            self.text((LEFT - 10.0, y + 4.0), &name, SMALL, Anchor::End, palette::QUIET);
        }
        self.across();
        let middle = (LEFT.midpoint(RIGHT), HEIGHT - 14.0);
        let name = font::fitted(&self.chart.across_name, SMALL, RIGHT - LEFT);
        self.text(middle, &name, SMALL, Anchor::Middle, palette::QUIET);
    }

    /// Draws the highest layer first. Each layer covers the ones before it below its edge.
    fn layers(&mut self) {
        for (index, layer) in self.chart.layers.iter().enumerate().rev() {
            self.area(&layer.points, Paint::solid(palette::group(&layer.name, index)));
        }
        if let (Some(line), true) = (self.lines.last(), self.chart.layers.is_empty()) {
            self.area(line.points, palette::BAR);
        }
    }

    fn area(&mut self, points: &[(f64, f64)], fill: Paint) {
        let mut outline = self.stairs(points);
        let (Some(&first), Some(&last)) = (outline.first(), outline.last()) else { return };
        outline.extend([(last.0, BOTTOM), (first.0, BOTTOM)]);
        self.shapes.push(Shape::Area { points: outline, fill });
    }

    fn draw_lines(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        for (at, line) in lines.iter().enumerate() {
            let points = self.stairs(line.points);
            let width = if at + 1 == lines.len() { 1.8 } else { 1.5 };
            if !points.is_empty() {
                self.line(points, Paint::solid(line.colour), width, None);
            }
        }
        self.lines = lines;
        self.line(vec![(LEFT, BOTTOM), (RIGHT, BOTTOM)], palette::QUIET, 1.0, None);
    }

    /// A level stays until the next point, and the last one to the end.
    fn stairs(&self, points: &[(f64, f64)]) -> Vec<Point> {
        let mut found: Vec<Point> = Vec::new();
        for &(across, up) in points {
            let (x, y) = (self.x(across), self.y(up));
            if let Some(&(_, before)) = found.last() {
                found.push((x, before));
            }
            found.push((x, y));
        }
        if let Some(&(x, y)) = found.last()
            && self.chart.across == Quantity::Seconds
            && x < RIGHT
        {
            found.push((RIGHT, y));
        }
        found
    }

    /// Draws the bands above the plot. A name is in its box if it fits.
    fn strip(&mut self) {
        let y = self.top - STRIP - 4.0;
        for band in &self.chart.bands {
            let (from, to) = (self.x(band.from), self.x(band.to));
            let colour = palette::phase(&band.name);
            let gap = if to - from > 4.0 { 1.0 } else { 0.0 };
            let (at, size) = ((from, y), ((to - from - gap).max(0.4), STRIP));
            self.shapes.push(Shape::Rect { at, size, fill: Paint::solid(colour) });
            let name = font::fitted(&band.name, TINY, size.0 - 8.0);
            if is_readable(&name, &band.name) {
                let at = (from + 4.0, y + 12.0);
                self.text(at, &name, TINY, Anchor::Start, palette::readable_on(colour));
            }
        }
    }

    /// The height of the bands.
    pub(crate) fn strip_height(&self) -> f32 {
        if self.chart.bands.is_empty() { 0.0 } else { STRIP + 4.0 }
    }

    fn marks(&mut self) {
        let mut order: Vec<&Mark> = self.chart.marks.iter().collect();
        order.sort_by(|one, other| {
            other.emphasis.cmp(&one.emphasis).then(one.at.total_cmp(&other.at))
        });
        let names = self.top - self.strip_height() - 7.0;
        let mut taken: Vec<(f32, f32)> = Vec::new();
        let mut lines: Vec<f32> = Vec::new();
        for mark in order {
            let many = self.chart.marks.iter().filter(|other| other.emphasis == mark.emphasis);
            if many.count() > MANY_MARKS && mark.emphasis < Emphasis::Strong {
                continue;
            }
            let x = self.x(mark.at);
            let is_strong = mark.emphasis == Emphasis::Strong;
            let style = Style { is_bold: is_strong, ..SMALL };
            let name = font::fitted(&mark.name, style, WIDEST_MARK);
            let half = font::width(&name, style) / 2.0;
            // Names lie inside the picture, and do not overlap the names of the other axis.
            let centre = x.max(LEFT + half).min(WIDTH - half - 6.0);
            let (from, to) = (centre - half - 7.0, centre + half + 7.0);
            let has_room = taken.iter().all(|&(start, end)| to <= start || from >= end);
            let is_tooth = !has_room && lines.iter().any(|line| (line - x).abs() < COMB);
            if is_tooth && mark.emphasis == Emphasis::Quiet {
                continue;
            }
            lines.push(x);
            let paint = if is_strong { palette::ALARM } else { palette::QUIET };
            let dash = (!is_strong).then_some(4.0);
            self.line(vec![(x, names + 5.0), (x, BOTTOM)], paint, 1.0, dash);
            if has_room {
                taken.push((from, to));
                self.text((centre, names), &name, style, Anchor::Middle, paint);
            }
        }
    }

    /// A ring around the highest point, and its name beside it.
    fn peak(&mut self) {
        let Some((across, up)) = self.chart.peak else { return };
        let (x, y) = (self.x(across), self.y(up));
        let ring = (0_u8..=16).map(|part| {
            let angle = f32::from(part) / 8.0 * std::f32::consts::PI;
            (x + 5.0 * angle.cos(), y + 5.0 * angle.sin())
        });
        let ring: Vec<Point> = ring.collect();
        self.line(ring.clone(), palette::GROUND, 3.5, None);
        self.line(ring, palette::INK, 1.6, None);
        let is_right = x > LEFT.midpoint(RIGHT);
        let (anchor, away) = if is_right { (Anchor::End, -10.0) } else { (Anchor::Start, 10.0) };
        let name = format!("peak {}", floodmark_trace::Bytes(whole(up)));
        let width = font::width(&name, SMALL) + 8.0;
        let left = if is_right { x + away - width + 4.0 } else { x + away - 4.0 };
        let (at, size, fill) = ((left, y - 22.0), (width, 17.0), Paint::tint([255; 3], 0.9));
        self.shapes.push(Shape::Rect { at, size, fill });
        self.text((x + away, y - 9.0), &name, SMALL, anchor, palette::INK);
    }
}

/// Whether a shortened name has enough letters.
fn is_readable(shown: &str, whole: &str) -> bool {
    !shown.is_empty() && (shown == whole || shown.chars().count() > LEAST_LETTERS)
}

/// The names of bands whose boxes are too narrow for a name.
pub(crate) fn unnamed_bands<'a>(layout: &Layout<'a>) -> Vec<&'a str> {
    let has_name = |name: &str| {
        let mut boxes = layout.chart.bands.iter().filter(|band| band.name == name);
        let room = font::width(name, TINY) + 9.0;
        boxes.any(|band| layout.x(band.to) - layout.x(band.from) >= room)
    };
    layout.band_names.iter().copied().filter(|name| !has_name(name)).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of bytes as a float"
)]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}
