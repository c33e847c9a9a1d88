//! A scene as SVG.

use std::io::{self, Write};

use crate::scene::{Anchor, Paint, Point, Scene, Shape};

pub(crate) const FONT: &str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

pub(crate) fn write(scene: &Scene, out: &mut impl Write) -> io::Result<()> {
    let Scene { width, height, shapes } = scene;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"{FONT}\">"
    )?;
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
        Shape::Text { at, text, size, anchor, paint, is_bold } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let weight = if *is_bold { " font-weight=\"bold\"" } else { "" };
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

fn write_points(points: &[Point], out: &mut impl Write) -> io::Result<()> {
    for (at, (x, y)) in points.iter().enumerate() {
        write!(out, "{}{x:.2} {y:.2}", if at == 0 { "M" } else { "L" })?;
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

/// What a text may hold between tags, and in quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for each in text.chars() {
        match each {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write most of them.
            control if control.is_control() => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
