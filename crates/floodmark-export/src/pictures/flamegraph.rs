//! A flame graph as SVG: the live bytes of each call at the peak, with the calls inside it. The outermost call is on top.
//!
//! A box shows its name and its bytes on hovering. A click on a box widens it to the whole picture, and a click on the top box
//! shows everything again. The file has the script for that, so it works in every browser.

use std::collections::BTreeMap;
use std::io::{self, Write};

use floodmark_trace::{Bytes, Trace};

use crate::options::{ExportError, Options};
use crate::stacks::{StackLabel, at_peak};

use super::svg::escaped;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const TOP: f64 = 46.0;
/// The least width of a box.
const NARROWEST: f64 = 0.3;
/// The width of a letter of 11 pixels in a monospaced font.
const LETTER: f64 = 6.7;
/// The greatest depth: deeper calls are left out.
const DEEPEST: usize = 200;

const SCRIPT: &str = r#"<script><![CDATA[
const boxes = [...document.querySelectorAll("g[data-x]")], full = 1200, letter = 6.7;
function show(from, width, depth) {
  for (const box of boxes) {
    const x = (+box.dataset.x - from) / width * full, w = +box.dataset.w / width * full;
    const around = +box.dataset.d < depth && x <= 0.01 && x + w >= full - 0.01;
    const left = Math.max(x, 0), right = Math.min(x + w, full);
    box.style.display = right - left < 0.3 ? "none" : "";
    const [rect, text] = [box.querySelector("rect"), box.querySelector("text")];
    rect.setAttribute("x", left); rect.setAttribute("width", Math.max(right - left - 0.6, 0.3));
    rect.style.opacity = around ? 0.5 : 1;
    const room = Math.floor((right - left - 8) / letter), name = box.dataset.n;
    text.setAttribute("x", left + 4);
    text.textContent = room < 3 ? "" : name.length <= room ? name : name.slice(0, room - 1) + "…";
  }
}
for (const box of boxes)
  box.addEventListener("click", () => show(+box.dataset.x, +box.dataset.w, +box.dataset.d));
]]></script>"#;

/// A call, with those inside it.
#[derive(Default)]
struct Node {
    bytes: u64,
    inside: BTreeMap<StackLabel, Node>,
}

impl Node {
    fn add(&mut self, frames: &[StackLabel], bytes: u64) {
        self.bytes += bytes;
        if let Some((first, rest)) = frames.split_first() {
            self.inside.entry(first.clone()).or_default().add(rest, bytes);
        }
    }

    /// The number of rows of boxes that are wide enough.
    fn depth(&self, total: u64) -> usize {
        let inside = self.inside.values().filter(|node| node.width(total) >= NARROWEST);
        1 + inside.map(|node| node.depth(total)).max().unwrap_or(0)
    }

    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    fn width(&self, total: u64) -> f64 {
        self.bytes as f64 / total.max(1) as f64 * WIDTH
    }
}

/// Draws the live bytes of each stack at the peak.
pub fn write_flamegraph(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let (device, held) = at_peak(trace, options)?;
    let mut root = Node::default();
    for stack in &held {
        root.add(&stack.frames[..stack.frames.len().min(DEEPEST)], stack.bytes);
    }
    #[expect(clippy::cast_precision_loss, reason = "a height in pixels")]
    let height = TOP + root.depth(root.bytes) as f64 * ROW + 12.0;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">"
    )?;
    writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>")?;
    writeln!(
        out,
        "<text x=\"4\" y=\"28\" font-size=\"16\" font-family=\"sans-serif\" font-weight=\"bold\" fill=\"#20262e\">{}</text>",
        escaped(&format!("Live memory of {device} at its peak: {}", Bytes(root.bytes)))
    )?;
    let mut picture = Picture { out, total: root.bytes };
    picture.draw("all", &root, 0.0, 0)?;
    writeln!(out, "{SCRIPT}\n</svg>")?;
    Ok(())
}

struct Picture<'a, W> {
    out: &'a mut W,
    total: u64,
}

impl<W: Write> Picture<'_, W> {
    #[expect(clippy::cast_precision_loss, reason = "a row of a picture")]
    fn draw(&mut self, name: &str, node: &Node, x: f64, depth: usize) -> io::Result<()> {
        let width = node.width(self.total);
        if width < NARROWEST {
            return Ok(());
        }
        let y = TOP + depth as f64 * ROW;
        let label = escaped(name);
        writeln!(
            self.out,
            "<g data-x=\"{x:.3}\" data-w=\"{width:.3}\" data-d=\"{depth}\" data-n=\"{label}\"><title>{label}: {} ({:.1} %)</title><rect x=\"{x:.3}\" y=\"{y}\" width=\"{:.3}\" height=\"{}\" fill=\"{}\"/><text x=\"{:.3}\" y=\"{}\" fill=\"#20262e\">{}</text></g>",
            Bytes(node.bytes),
            width / WIDTH * 100.0,
            (width - 0.6).max(NARROWEST),
            ROW - 1.0,
            colour(name),
            x + 4.0,
            y + ROW - 5.5,
            escaped(&shortened(name, width)),
        )?;
        let mut children: Vec<_> = node.inside.iter().collect();
        children.sort_by_key(|(_, child)| std::cmp::Reverse(child.bytes));
        let mut at = x;
        for (location, child) in children {
            self.draw(&location.label(), child, at, depth + 1)?;
            at += child.width(self.total);
        }
        Ok(())
    }
}

/// The part of a name that fits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a negative number is 0"
)]
fn shortened(name: &str, width: f64) -> String {
    let room = ((width - 8.0) / LETTER) as usize;
    if room < 3 {
        return String::new();
    }
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room - 1).chain(['\u{2026}']).collect()
}

/// The colour of a name: torch's own calls are bluish, those of the program are warm.
fn colour(name: &str) -> String {
    let mix = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let (hue, saturation) = if name.contains("(torch/") || name.contains("(modules/") {
        (205 + mix % 25, 35)
    } else {
        (18 + mix % 38, 78)
    };
    format!("hsl({hue},{saturation}%,{}%)", 70 + mix / 64 % 10)
}
