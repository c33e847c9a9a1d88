//! Pictures of how the levels of a device moved: allocated, active and reserved over time, as SVG and as PNG.

use std::io::Write;

use floodmark_analysis::{Levels, Marker, MarkerKind, curve};
use floodmark_trace::{Bytes, Trace};

use crate::chart::{Band, Chart, Emphasis, Mark, Quantity, Series};
use crate::options::{ExportError, Options};
use crate::{png, raster, svg};

/// As many points as a picture can tell apart, several for each column.
const POINTS: usize = 4000;
/// Bands that are thinner than this share of the picture are left out when there are many.
const THIN: f64 = 0.002;

/// Draws how the levels of a device moved, as SVG.
pub fn write_svg(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    write_chart_svg(&chart_of(trace, options)?, out)
}

/// Draws how the levels of a device moved, as PNG.
pub fn write_png(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    write_chart_png(&chart_of(trace, options)?, out)
}

/// Draws a chart as SVG.
pub fn write_chart_svg(chart: &Chart, out: &mut impl Write) -> Result<(), ExportError> {
    Ok(svg::write(&chart.scene(), out)?)
}

/// Draws a chart as PNG.
pub fn write_chart_png(chart: &Chart, out: &mut impl Write) -> Result<(), ExportError> {
    Ok(png::write(&raster::draw(&chart.scene()), out)?)
}

/// The chart of a device, before it is drawn.
pub fn chart_of(trace: &Trace, options: &Options) -> Result<Chart, ExportError> {
    let found = curve(trace, options.device, POINTS)?;
    let mut series = Vec::new();
    let mut add = |name: &str, of: &dyn Fn(&Levels) -> Option<Bytes>| {
        let points: Vec<(f64, f64)> = found
            .points
            .iter()
            .filter_map(|levels| Some((levels.seconds, number(of(levels)?))))
            .collect();
        if !points.is_empty() {
            series.push(Series { name: name.to_owned(), points });
        }
    };
    add("reserved", &|levels| levels.reserved);
    add("active", &|levels| levels.active);
    add("allocated", &|levels| Some(levels.allocated));
    let is_thin = |from: f64, to: f64| to - from < found.seconds * THIN;
    let are_many = found.stretches.len() > 200;
    let stretches = found.stretches.iter();
    let bands = stretches
        .filter(|stretch| !are_many || !is_thin(stretch.from, stretch.to))
        .map(|stretch| Band { name: stretch.name.to_owned(), from: stretch.from, to: stretch.to })
        .collect();
    let mut subtitle = format!("peak {} at {:.3} s", found.peak.allocated, found.peak.seconds);
    if let Some(most) = found.points.iter().filter_map(|levels| levels.reserved).max() {
        subtitle = format!("{subtitle}, at most {most} reserved");
    }
    if let Some(first) = found.losses.0.first() {
        let first = shortened(&first.to_string(), 80);
        subtitle = format!("{subtitle} \u{b7} not complete: {first}");
    }
    Ok(Chart {
        title: format!("Memory of {}", found.device),
        subtitle,
        across: Quantity::Seconds,
        across_name: "time since the recording began".to_owned(),
        end: found.seconds,
        series,
        bands,
        marks: found.markers.iter().map(mark).collect(),
        peak: Some((found.peak.seconds, number(found.peak.allocated))),
    })
}

fn mark(marker: &Marker) -> Mark {
    let emphasis = match marker.kind {
        MarkerKind::Phase => Emphasis::Quiet,
        MarkerKind::Step | MarkerKind::Mark => Emphasis::Plain,
        MarkerKind::Oom => Emphasis::Strong,
    };
    Mark { at: marker.seconds, name: shortened(&marker.name, 28), emphasis }
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['\u{2026}']).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn number(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
