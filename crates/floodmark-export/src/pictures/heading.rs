//! The heading of a chart: the title, the most important figures and the legend.

use super::font::{self, Style};
use super::layout::{Layout, MARGIN, RIGHT, SMALL, WIDTH, unnamed_bands};
use super::palette;
use super::scene::{Anchor, Paint, Shape};

const TITLE: Style = Style { size: 18.0, is_bold: true };
const SUBTITLE: Style = Style { size: 13.0, is_bold: false };
/// The baseline of the first row of the legend.
const LEGEND: f32 = 82.0;
const ROW: f32 = 20.0;
/// The highest number of rows of a legend.
const MOST_ROWS: usize = 3;
/// The highest width of a name in the legend.
const WIDEST_NAME: f32 = 200.0;
/// The gap between a mark and its name, and between two entries.
const SIGN: f32 = 24.0;
const GAP: f32 = 18.0;

/// The mark of an entry: a short line, or a box.
enum Sign {
    Line(Paint),
    Box(Paint),
}

impl Layout<'_> {
    /// The title, the figures and the legend. Sets where the plot begins.
    pub(crate) fn heading(&mut self) {
        let room = WIDTH - 2.0 * MARGIN;
        let title = font::fitted(&self.chart.title, TITLE, room);
        self.text((MARGIN, 34.0), &title, TITLE, Anchor::Start, palette::INK);
        let subtitle = font::fitted(&self.chart.subtitle, SUBTITLE, room);
        self.text((MARGIN, 56.0), &subtitle, SUBTITLE, Anchor::Start, palette::QUIET);
        let last = self.legend();
        let has_marks = if self.chart.marks.is_empty() { 0.0 } else { ROW };
        self.top = last + 10.0 + has_marks + self.strip_height();
    }

    /// Draws the legend: lines, stacked layers from the top down, and bands. Returns the baseline of its last row.
    fn legend(&mut self) -> f32 {
        let mut entries: Vec<(String, Sign)> = Vec::new();
        for line in self.lines.iter().rev() {
            entries.push((line.name.clone(), Sign::Line(Paint::solid(line.colour))));
        }
        for (index, layer) in self.chart.layers.iter().enumerate().rev() {
            let colour = palette::group(&layer.name, index);
            entries.push((layer.name.clone(), Sign::Box(Paint::solid(colour))));
        }
        for name in unnamed_bands(self) {
            let sign = Sign::Box(Paint::solid(palette::phase(name)));
            entries.push((format!("phase: {name}"), sign));
        }
        let (mut x, mut y, mut rows) = (MARGIN, LEGEND, 1);
        let count = entries.len();
        for (at, (name, sign)) in entries.into_iter().enumerate() {
            let name = font::fitted(&name, SMALL, WIDEST_NAME);
            let width = SIGN + font::width(&name, SMALL);
            let more = format!("and {} more", count - at);
            let is_last_row = rows == MOST_ROWS;
            let reserve = if is_last_row { font::width(&more, SMALL) + GAP } else { 0.0 };
            if x + width + reserve > RIGHT {
                if is_last_row {
                    self.text((x, y), &more, SMALL, Anchor::Start, palette::QUIET);
                    break;
                }
                (x, y, rows) = (MARGIN, y + ROW, rows + 1);
            }
            self.sign(&sign, x, y);
            self.text((x + SIGN, y), &name, SMALL, Anchor::Start, palette::INK);
            x += width + GAP;
        }
        y
    }

    fn sign(&mut self, sign: &Sign, x: f32, y: f32) {
        match sign {
            Sign::Line(paint) => {
                self.line(vec![(x, y - 4.0), (x + 18.0, y - 4.0)], *paint, 2.4, None);
            }
            Sign::Box(fill) => {
                let (at, size) = ((x + 3.0, y - 10.0), (12.0, 12.0));
                self.shapes.push(Shape::Rect { at, size, fill: *fill });
            }
        }
    }
}
