//! A scene as pixels: strokes and areas with smooth edges on white.

use crate::font;
use crate::png::Image;
use crate::scene::{Paint, Point, Scene, Shape};

/// How many pixels one unit of a scene is: sharp also on dense screens.
const SCALE: f32 = 2.0;
/// An area is sampled on this many lines per pixel.
const LINES: usize = 4;

pub(crate) fn draw(scene: &Scene) -> Image {
    let mut canvas = Canvas::new(count(scene.width * SCALE), count(scene.height * SCALE));
    for shape in &scene.shapes {
        canvas.shape(shape);
    }
    canvas.image
}

struct Canvas {
    image: Image,
    /// How much of each pixel the shape covers that is being drawn.
    cover: Vec<f32>,
    /// The rows and columns that it may have touched: from, and to but not with.
    columns: (usize, usize),
    rows: (usize, usize),
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        let image = Image { width, height, rgb: vec![255; width * height * 3] };
        let cover = vec![0.0; width * height];
        Self { image, cover, columns: (width, 0), rows: (height, 0) }
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Rect { at, size, fill } => {
                let (right, bottom) = (at.0 + size.0, at.1 + size.1);
                self.area(&scaled(&[*at, (right, at.1), (right, bottom), (at.0, bottom)]));
                self.put(*fill);
            }
            Shape::Area { points, fill } => {
                self.area(&scaled(points));
                self.put(*fill);
            }
            Shape::Line { points, paint, width, dash } => {
                let points = scaled(points);
                match dash {
                    None => self.stroke(&points, width * SCALE),
                    Some(dash) => {
                        for piece in dashes(&points, dash * SCALE) {
                            self.stroke(&piece, width * SCALE);
                        }
                    }
                }
                self.put(*paint);
            }
            Shape::Text { at, text, size, anchor, paint, is_bold } => {
                let width = size * if *is_bold { 0.15 } else { 0.095 };
                for stroke in font::strokes(text, *at, *size, *anchor) {
                    self.stroke(&scaled(&stroke), width * SCALE);
                }
                self.put(*paint);
            }
        }
    }

    /// Covers what is nearer to a line than half its width.
    fn stroke(&mut self, points: &[Point], width: f32) {
        let half = width / 2.0;
        for pair in points.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let reach = half + 1.0;
            let columns = self.columns_of(a.0.min(b.0) - reach, a.0.max(b.0) + reach);
            let rows = self.rows_of(a.1.min(b.1) - reach, a.1.max(b.1) + reach);
            for y in rows.0..rows.1 {
                for x in columns.0..columns.1 {
                    let away = distance((middle(x), middle(y)), a, b);
                    let covered = (half + 0.5 - away).clamp(0.0, 1.0);
                    let cell = &mut self.cover[y * self.image.width + x];
                    // Lines that meet are one shape.
                    *cell = cell.max(covered);
                }
            }
        }
    }

    /// Covers what lies inside: between the first and the second crossing of each line, and so on.
    fn area(&mut self, points: &[Point]) {
        let (mut top, mut bottom) = (f32::MAX, f32::MIN);
        for point in points {
            (top, bottom) = (top.min(point.1), bottom.max(point.1));
        }
        let rows = self.rows_of(top, bottom + 1.0);
        self.columns_of(0.0, number(self.image.width));
        let edges: Vec<(Point, Point)> =
            points.iter().copied().zip(points.iter().copied().cycle().skip(1)).collect();
        for y in rows.0..rows.1 {
            for line in 0..LINES {
                let at = number(y) + (number(line) + 0.5) / number(LINES);
                let crossing = |(a, b): &(Point, Point)| {
                    ((a.1 <= at) != (b.1 <= at))
                        .then(|| a.0 + (at - a.1) / (b.1 - a.1) * (b.0 - a.0))
                };
                let mut crossings: Vec<f32> = edges.iter().filter_map(crossing).collect();
                crossings.sort_by(f32::total_cmp);
                for pair in crossings.chunks_exact(2) {
                    self.span(y, pair[0], pair[1]);
                }
            }
        }
    }

    fn span(&mut self, y: usize, from: f32, to: f32) {
        let columns = self.columns_of(from, to + 1.0);
        for x in columns.0..columns.1 {
            let covered = (to.min(number(x) + 1.0) - from.max(number(x))).clamp(0.0, 1.0);
            self.cover[y * self.image.width + x] += covered / number(LINES);
        }
    }

    fn columns_of(&mut self, from: f32, to: f32) -> (usize, usize) {
        let found = within(from, to, self.image.width);
        self.columns = (self.columns.0.min(found.0), self.columns.1.max(found.1));
        found
    }

    fn rows_of(&mut self, from: f32, to: f32) -> (usize, usize) {
        let found = within(from, to, self.image.height);
        self.rows = (self.rows.0.min(found.0), self.rows.1.max(found.1));
        found
    }

    /// Paints what is covered, and forgets it.
    fn put(&mut self, paint: Paint) {
        for y in self.rows.0..self.rows.1 {
            for x in self.columns.0..self.columns.1 {
                let at = y * self.image.width + x;
                let share = std::mem::take(&mut self.cover[at]).min(1.0) * paint.opacity;
                if share > 0.0 {
                    for (below, above) in self.image.rgb[at * 3..][..3].iter_mut().zip(paint.rgb) {
                        *below = mixed(*below, above, share);
                    }
                }
            }
        }
        self.columns = (self.image.width, 0);
        self.rows = (self.image.height, 0);
    }
}

fn scaled(points: &[Point]) -> Vec<Point> {
    points.iter().map(|&(x, y)| (x * SCALE, y * SCALE)).collect()
}

/// From a point to a line between two.
fn distance(point: Point, a: Point, b: Point) -> f32 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx * dx + dy * dy;
    let along = if length > 0.0 {
        (((point.0 - a.0) * dx + (point.1 - a.1) * dy) / length).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let (x, y) = (point.0 - a.0 - along * dx, point.1 - a.1 - along * dy);
    length_of(x, y)
}

/// How long a line is. Not `hypot`: glibc has another one since 2.35, and the wheel would need it.
fn length_of(x: f32, y: f32) -> f32 {
    (x * x + y * y).sqrt()
}

/// Pieces of a line that are as long as the gaps between them.
fn dashes(points: &[Point], dash: f32) -> Vec<Vec<Point>> {
    let mut pieces = Vec::new();
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let length = length_of(b.0 - a.0, b.1 - a.1);
        let on = |at: f32| {
            let share = (at / length).min(1.0);
            (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share)
        };
        let mut at = 0.0;
        while at < length && dash > 0.0 {
            pieces.push(vec![on(at), on(at + dash)]);
            at += 2.0 * dash;
        }
    }
    pieces
}

fn within(from: f32, to: f32, most: usize) -> (usize, usize) {
    let from = count(from.floor()).min(most);
    (from, count(to.ceil()).clamp(from, most))
}

fn middle(at: usize) -> f32 {
    number(at) + 0.5
}

#[expect(clippy::cast_precision_loss, reason = "pictures are a few thousand pixels wide")]
fn number(count: usize) -> f32 {
    count as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a negative number is 0"
)]
fn count(number: f32) -> usize {
    number as usize
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between two values of a byte"
)]
fn mixed(below: u8, above: u8, share: f32) -> u8 {
    (f32::from(below) + (f32::from(above) - f32::from(below)) * share).round() as u8
}
