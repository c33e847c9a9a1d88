//! A scene as SVG.

use std::io::{self, Write};

use super::font::{FAMILIES, printable};
use super::scene::{Anchor, Paint, Point, Scene, Shape};

pub(crate) fn write(scene: &Scene, out: &mut impl Write) -> io::Result<()> {
    let Scene { title, width, height, shapes } = scene;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILIES}\">"
    )?;
    writeln!(out, "<title>{}</title>", escaped(title))?;
    for shape in shapes {
        write_shape(shape, out)?;
    }
    writeln!(out, "</svg>")
}

fn write_shape(shape: &Shape, out: &mut impl Write) -> io::Result<()> {
    match shape {
        Shape::Rect { at, size, fill } => writeln!(
            out,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" {}/>",
            at.0,
            at.1,
            size.0,
            size.1,
            painted("fill", *fill)
        ),
        Shape::Line { points, paint, width, dash } => {
            let dash =
                dash.map_or_else(String::new, |dash| format!(" stroke-dasharray=\"{dash}\""));
            write!(out, "<path d=\"")?;
            write_points(points, out)?;
            writeln!(
                out,
                "\" fill=\"none\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash} {}/>",
                painted("stroke", *paint)
            )
        }
        Shape::Area { points, fill } => {
            write!(out, "<path d=\"")?;
            write_points(points, out)?;
            writeln!(out, "Z\" {}/>", painted("fill", *fill))
        }
        Shape::Text { at, text, style, anchor, paint } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let size = style.size;
            let weight = if style.is_bold { " font-weight=\"bold\"" } else { "" };
            writeln!(
                out,
                "<text x=\"{:.2}\" y=\"{:.2}\" font-size=\"{size}\" text-anchor=\"{anchor}\"{weight} {}>{}</text>",
                at.0,
                at.1,
                painted("fill", *paint),
                escaped(text)
            )
        }
    }
}

/// Each point as the shortest of three commands, without points that equal the one before.
fn write_points(points: &[Point], out: &mut impl Write) -> io::Result<()> {
    let mut before: Option<(String, String)> = None;
    for (x, y) in points {
        let now = (format!("{x:.1}"), format!("{y:.1}"));
        match &before {
            None => write!(out, "M{} {}", now.0, now.1)?,
            Some(before) if *before == now => {}
            Some(before) if before.1 == now.1 => write!(out, "H{}", now.0)?,
            Some(before) if before.0 == now.0 => write!(out, "V{}", now.1)?,
            Some(_) => write!(out, "L{} {}", now.0, now.1)?,
        }
        before = Some(now);
    }
    Ok(())
}

fn painted(what: &str, paint: Paint) -> String {
    let [red, green, blue] = paint.rgb;
    let colour = format!("{what}=\"#{red:02x}{green:02x}{blue:02x}\"");
    if paint.opacity >= 1.0 {
        return colour;
    }
    format!("{colour} {what}-opacity=\"{}\"", paint.opacity)
}

/// A text, escaped for SVG.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for each in text.chars() {
        match printable(each) {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
