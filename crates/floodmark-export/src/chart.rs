//! A chart of memory: lines over time or over a count, with what happened on the way. Laid out here, drawn elsewhere.
//!
//! From top to bottom: the title and what it stands for, the legend, the names of markers, the plot, the axis. Names of markers
//! that would run into each other are left out, the less important ones first; the lines stay while they are few.

use serde::Deserialize;

use crate::font;
use crate::scene::{Anchor, Paint, Point, Scene, Shape};
use crate::ticks::{Unit, ticks};

/// What the horizontal axis counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Seconds since the recording began.
    #[default]
    Seconds,
    /// Things, one after the other.
    Count,
}

/// One line: bytes over the horizontal axis.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Where it is, in order; the level stays until the next point.
    pub points: Vec<(f64, f64)>,
}

/// A part of the horizontal axis.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Band {
    /// What it is; bands of one name have one colour.
    pub name: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// How important a marker is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emphasis {
    /// One of many.
    #[default]
    Quiet,
    /// Worth a word.
    Plain,
    /// To be seen first.
    Strong,
}

/// A vertical line with a name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// Its name.
    pub name: String,
    /// How important it is.
    #[serde(default)]
    pub emphasis: Emphasis,
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The figures that matter, in words.
    pub subtitle: String,
    /// What the horizontal axis counts.
    pub across: Quantity,
    /// What the horizontal axis is called.
    pub across_name: String,
    /// How far it goes; to the last point when that is farther.
    pub end: f64,
    /// The lines; the last one is drawn on top, and what lies below it is tinted.
    pub series: Vec<Series>,
    /// What the program did.
    pub bands: Vec<Band>,
    /// What happened.
    pub marks: Vec<Mark>,
    /// A point to be pointed at.
    pub peak: Option<(f64, f64)>,
}

const WIDTH: f32 = 1100.0;
const HEIGHT: f32 = 540.0;
const LEFT: f32 = 86.0;
const RIGHT: f32 = WIDTH - 30.0;
const TOP: f32 = 112.0;
const BOTTOM: f32 = HEIGHT - 56.0;

const INK: Paint = Paint::solid([32, 38, 46]);
const FAINT: Paint = Paint::solid([98, 106, 117]);
const GRID: Paint = Paint::solid([228, 231, 235]);
const ALARM: Paint = Paint::solid([196, 43, 28]);
/// Of what is allocated, active and reserved, and of anything else: blue, orange, grey-green, purple.
const LINES: [[u8; 3]; 4] = [[31, 98, 190], [217, 119, 6], [94, 112, 102], [126, 63, 152]];
/// Of forward, backward and optimizer, and of other bands in the order in which they first come.
const BANDS: [[u8; 3]; 5] =
    [[76, 160, 110], [214, 140, 60], [136, 108, 196], [90, 150, 190], [170, 120, 120]];

/// With more lines than this of one kind, a picture shows nothing else.
const MANY_MARKS: usize = 60;
const SMALL: f32 = 12.0;

impl Chart {
    pub(crate) fn scene(&self) -> Scene {
        let mut layout = Layout::new(self);
        layout.background();
        layout.axes();
        layout.draw_lines();
        layout.marks();
        layout.peak();
        layout.heading();
        Scene { width: WIDTH, height: HEIGHT, shapes: layout.shapes }
    }
}

/// A name, a colour and points.
type Line<'a> = (String, [u8; 3], &'a [(f64, f64)]);

struct Layout<'a> {
    chart: &'a Chart,
    /// Lines that lie on each other are one.
    lines: Vec<Line<'a>>,
    shapes: Vec<Shape>,
    end: f64,
    most: f64,
    band_names: Vec<&'a str>,
}

impl<'a> Layout<'a> {
    fn new(chart: &'a Chart) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let end = points().map(|point| point.0).fold(chart.end, f64::max);
        let most = points().map(|point| point.1).fold(0.0, f64::max);
        let mut band_names: Vec<&str> = Vec::new();
        for band in &chart.bands {
            if !band_names.contains(&band.name.as_str()) {
                band_names.push(&band.name);
            }
        }
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (at, series) in chart.series.iter().enumerate() {
            let colour = colour_of(&series.name, at);
            match lines.iter_mut().find(|(.., points)| *points == series.points) {
                // What comes later is what the chart is about.
                Some((names, known, _)) => {
                    *names = format!("{}, {names}", series.name);
                    *known = colour;
                }
                None => lines.push((series.name.clone(), colour, &series.points)),
            }
        }
        let end = if end > 0.0 { end } else { 1.0 };
        // Room above the highest point, for its name.
        let most = if most > 0.0 { most * 1.1 } else { 1.0 };
        Self { chart, lines, shapes: Vec::new(), end, most, band_names }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a place in a picture")]
    fn x(&self, value: f64) -> f32 {
        LEFT + (RIGHT - LEFT) * (value / self.end).clamp(0.0, 1.0) as f32
    }

    #[expect(clippy::cast_possible_truncation, reason = "a place in a picture")]
    fn y(&self, value: f64) -> f32 {
        BOTTOM - (BOTTOM - TOP) * (value / self.most).clamp(0.0, 1.0) as f32
    }

    fn text(&mut self, at: Point, text: &str, size: f32, anchor: Anchor, paint: Paint) {
        let text = text.to_owned();
        self.shapes.push(Shape::Text { at, text, size, anchor, paint, is_bold: false });
    }

    fn line(&mut self, points: Vec<Point>, paint: Paint, width: f32, dash: Option<f32>) {
        self.shapes.push(Shape::Line { points, paint, width, dash });
    }

    fn background(&mut self) {
        let all = Paint::solid([255, 255, 255]);
        self.shapes.push(Shape::Rect { at: (0.0, 0.0), size: (WIDTH, HEIGHT), fill: all });
        for band in &self.chart.bands {
            let (from, to) = (self.x(band.from), self.x(band.to));
            let fill = Paint::tint(self.band_colour(&band.name), 0.16);
            let size = ((to - from).max(0.4), BOTTOM - TOP);
            self.shapes.push(Shape::Rect { at: (from, TOP), size, fill });
        }
    }

    /// What a program does has the same colour in every chart.
    fn band_colour(&self, name: &str) -> [u8; 3] {
        let known = ["forward", "backward", "optimizer"];
        let other = || self.band_names.iter().position(|band| *band == name).unwrap_or(0);
        let at = known.iter().position(|phase| *phase == name);
        BANDS[at.unwrap_or_else(|| known.len() + other()) % BANDS.len()]
    }

    fn axes(&mut self) {
        for (value, name) in ticks(self.most, 6, Unit::Bytes) {
            let y = self.y(value);
            self.line(vec![(LEFT, y), (RIGHT, y)], GRID, 1.0, None);
            self.text((LEFT - 10.0, y + 4.0), &name, SMALL, Anchor::End, FAINT);
        }
        let unit = match self.chart.across {
            Quantity::Seconds => Unit::Seconds,
            Quantity::Count => Unit::Count,
        };
        for (value, name) in ticks(self.end, 9, unit) {
            let x = self.x(value);
            self.line(vec![(x, BOTTOM), (x, BOTTOM + 5.0)], FAINT, 1.0, None);
            self.text((x, BOTTOM + 20.0), &name, SMALL, Anchor::Middle, FAINT);
        }
        self.line(vec![(LEFT, BOTTOM), (RIGHT, BOTTOM)], FAINT, 1.0, None);
        let middle = LEFT.midpoint(RIGHT);
        let name = self.chart.across_name.clone();
        self.text((middle, HEIGHT - 14.0), &name, SMALL, Anchor::Middle, FAINT);
    }

    fn draw_lines(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        for (at, (_, colour, points)) in lines.iter().enumerate() {
            let points = self.stairs(points);
            let (Some(&first), Some(&last)) = (points.first(), points.last()) else { continue };
            let is_top = at + 1 == lines.len();
            if is_top {
                let mut outline = vec![(first.0, BOTTOM)];
                outline.extend(&points);
                outline.push((last.0, BOTTOM));
                self.shapes.push(Shape::Area { points: outline, fill: Paint::tint(*colour, 0.14) });
            }
            self.line(points, Paint::solid(*colour), if is_top { 1.8 } else { 1.5 }, None);
        }
        self.lines = lines;
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

    fn marks(&mut self) {
        let mut order: Vec<&Mark> = self.chart.marks.iter().collect();
        order.sort_by(|one, other| {
            other.emphasis.cmp(&one.emphasis).then(one.at.total_cmp(&other.at))
        });
        let mut taken: Vec<(f32, f32)> = Vec::new();
        for mark in order {
            let many = self.chart.marks.iter().filter(|other| other.emphasis == mark.emphasis);
            if many.count() > MANY_MARKS && mark.emphasis < Emphasis::Strong {
                continue;
            }
            let x = self.x(mark.at);
            let paint = if mark.emphasis == Emphasis::Strong { ALARM } else { FAINT };
            let dash = (mark.emphasis < Emphasis::Strong).then_some(4.0);
            self.line(vec![(x, TOP - 4.0), (x, BOTTOM)], paint, 1.0, dash);
            let half = font::width(&mark.name, SMALL) / 2.0;
            // Names stay inside the picture, and off the names of the other axis.
            let centre = x.max(LEFT + half).min(WIDTH - half - 6.0);
            let (from, to) = (centre - half - 7.0, centre + half + 7.0);
            if taken.iter().all(|&(start, end)| to <= start || from >= end) {
                taken.push((from, to));
                self.text((centre, TOP - 9.0), &mark.name, SMALL, Anchor::Middle, paint);
            }
        }
    }

    fn peak(&mut self) {
        let Some((across, up)) = self.chart.peak else { return };
        let (x, y) = (self.x(across), self.y(up));
        let dot = vec![(x - 0.01, y), (x + 0.01, y)];
        self.shapes.push(Shape::Rect { at: (x - 3.0, y - 3.0), size: (6.0, 6.0), fill: INK });
        self.line(dot, INK, 1.0, None);
        let is_right = x > LEFT.midpoint(RIGHT);
        let (anchor, away) = if is_right { (Anchor::End, -8.0) } else { (Anchor::Start, 8.0) };
        let name = format!("peak {}", floodmark_trace::Bytes(whole(up)));
        let width = font::width(&name, SMALL) + 6.0;
        let left = if is_right { x + away - width + 3.0 } else { x + away - 3.0 };
        let (at, size, fill) = ((left, y - 20.0), (width, 16.0), Paint::tint([255; 3], 0.85));
        self.shapes.push(Shape::Rect { at, size, fill });
        self.text((x + away, y - 8.0), &name, SMALL, anchor, INK);
    }

    fn heading(&mut self) {
        let (at, text) = ((LEFT - 62.0, 34.0), self.chart.title.clone());
        let (size, anchor, paint) = (18.0, Anchor::Start, INK);
        self.shapes.push(Shape::Text { at, text, size, anchor, paint, is_bold: true });
        let subtitle = self.chart.subtitle.clone();
        self.text((LEFT - 62.0, 56.0), &subtitle, 13.0, Anchor::Start, FAINT);
        self.legend();
    }

    /// To the right, the lines first; a short line stands for a line, a box for a band.
    fn legend(&mut self) {
        let mut items: Vec<(String, Paint, bool)> = Vec::new();
        for (name, colour, _) in self.lines.iter().rev() {
            items.push((name.clone(), Paint::solid(*colour), true));
        }
        for name in &self.band_names {
            items.push(((*name).to_owned(), Paint::tint(self.band_colour(name), 0.35), false));
        }
        let width = |name: &str| 24.0 + font::width(name, SMALL) + 20.0;
        let total: f32 = items.iter().map(|(name, ..)| width(name)).sum();
        let mut x = (RIGHT - total + 20.0).max(LEFT - 62.0);
        let y = 78.0;
        for (name, paint, is_line) in items {
            if is_line {
                self.line(vec![(x, y - 4.0), (x + 18.0, y - 4.0)], paint, 2.4, None);
            } else {
                let (at, size) = ((x + 2.0, y - 10.0), (14.0, 12.0));
                self.shapes.push(Shape::Rect { at, size, fill: paint });
            }
            self.text((x + 24.0, y), &name, SMALL, Anchor::Start, INK);
            x += width(&name);
        }
    }
}

/// A level has the same colour in every chart.
fn colour_of(name: &str, at: usize) -> [u8; 3] {
    let known = ["allocated", "active", "reserved"];
    let place = known.iter().position(|level| name.contains(level));
    LINES[place.unwrap_or(known.len() + at) % LINES.len()]
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of bytes as a float"
)]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}
