//! Pictures of the memory of a device over time: categories stacked, and allocated, active and reserved as lines.

use std::io::Write;

use floodmark_analysis::{
    Axis, AxisBy, COLUMNS, Marker, MarkerKind, TimelineBy, TimelineIndex, TimelineTile, TraceIndex,
    curve,
};
use floodmark_trace::{Bytes, Device, Loss, Trace};

use super::across::{position_of, seconds_at};
use super::chart::{Band, Chart, Emphasis, Mark, Quantity, Series};
use super::font;
use super::png::{self, Image, SCALE};
use super::svg;
use crate::options::{ExportError, Options};

/// The number of columns, at least the width of the plot.
const LEAST_COLUMNS: usize = 1000;
/// If there are many bands, those that are thinner than this share of the picture are left out.
const THIN: f64 = 0.002;

/// Draws the memory of a device over time, as SVG.
pub fn write_svg(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    write_chart_svg(&chart_of(trace, options)?, out)
}

/// Draws the memory of a device over time, as PNG.
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

/// Draws a chart as PNG: the SVG, in twice as many pixels.
pub fn write_chart_png(chart: &Chart, out: &mut impl Write) -> Result<(), ExportError> {
    Ok(out.write_all(&draw(chart)?.png)?)
}

pub(crate) fn draw(chart: &Chart) -> Result<Image, ExportError> {
    let mut svg = Vec::new();
    write_chart_svg(chart, &mut svg)?;
    Ok(png::draw(&String::from_utf8_lossy(&svg), SCALE)?)
}

/// The chart of a device, before it is drawn.
pub fn chart_of(trace: &Trace, options: &Options) -> Result<Chart, ExportError> {
    let found = curve(trace, options.device, 4)?;
    let index = TraceIndex::new(trace);
    let timeline = TimelineIndex::with_axis(
        trace,
        &index,
        found.device,
        TimelineBy::Category,
        Some(AxisBy::Time),
    )?;
    let tiles = tiles(trace, &timeline)?;
    let axis = &timeline.timeline().axis;
    let is_thin = |from, to| position_of(axis, to) - position_of(axis, from) < axis.length * THIN;
    let are_many = found.stretches.len() > 200;
    let stretches = found.stretches.iter();
    let bands = stretches
        .filter(|stretch| !are_many || !is_thin(stretch.from, stretch.to))
        .map(|stretch| Band { name: stretch.name.to_owned(), from: stretch.from, to: stretch.to })
        .collect();
    let series = lines(axis, &tiles);
    let mut figures = format!("peak {} at {:.3} s", found.peak.allocated, found.peak.seconds);
    if let Some(most) = tiles.iter().filter_map(|tile| tile.reserved.as_ref()?.iter().max()).max() {
        figures = format!("{figures}, at most {most} reserved");
    }
    if options.device.is_none() && trace.devices().len() > 1 {
        let devices = trace.devices().len();
        figures = format!("{figures} \u{b7} the highest peak of {devices} devices");
    }
    // Derived data is not lost.
    if let Some(first) = found.losses.0.iter().find(|loss| !matches!(loss, Loss::Derived(_))) {
        figures = format!("{figures} \u{b7} not complete: {first}");
    }
    Ok(Chart {
        title: title(trace, found.device),
        subtitle: figures,
        across: Quantity::Seconds,
        across_name: "time since the start of the recording".to_owned(),
        end: found.seconds,
        axis: (!axis.breaks.is_empty()).then(|| axis.clone()),
        layers: layers(&timeline, &tiles),
        series,
        bands,
        marks: found.markers.iter().map(mark).collect(),
        peak: Some((found.peak.seconds, number(found.peak.allocated))),
    })
}

fn title(trace: &Trace, device: Device) -> String {
    let rank = trace.header.rank.map(|rank| format!(", rank {rank}"));
    format!("Memory of {device}{}", rank.unwrap_or_default())
}

/// The curve of the whole recording.
fn tiles(trace: &Trace, timeline: &TimelineIndex) -> Result<Vec<TimelineTile>, ExportError> {
    let level = LEAST_COLUMNS.div_ceil(COLUMNS).next_power_of_two().ilog2();
    let level = level.min(timeline.timeline().deepest_level);
    let tiles = (0..1_u64 << level).map(|tile| timeline.tile(trace, level, tile));
    Ok(tiles.collect::<Result<_, _>>()?)
}

/// Reserved, active and allocated bytes, if they are known.
fn lines(axis: &Axis, tiles: &[TimelineTile]) -> Vec<Series> {
    let line = |name: &str, of: &dyn Fn(&TimelineTile) -> Option<&Vec<Bytes>>| {
        let columns = tiles.iter().filter_map(|tile| Some((tile, of(tile)?)));
        let points = columns.flat_map(|(tile, values)| {
            (0..).zip(values).map(|(column, value)| (at(axis, tile, column), number(*value)))
        });
        Series { name: name.to_owned(), points: changes(points) }
    };
    let mut reserved = line("reserved", &|tile| tile.reserved.as_ref());
    // It is 0 until its first event.
    if reserved.points.first().is_some_and(|(_, bytes)| *bytes <= 0.0) {
        reserved.points.remove(0);
    }
    let active = line("active", &|tile| tile.active.as_ref());
    let allocated = line("allocated", &|tile| Some(&tile.allocated));
    [reserved, active, allocated].into_iter().filter(|series| !series.points.is_empty()).collect()
}

/// The categories, from the bottom up, without those that never have a byte.
fn layers(timeline: &TimelineIndex, tiles: &[TimelineTile]) -> Vec<Series> {
    let axis = &timeline.timeline().axis;
    let mut layers = Vec::new();
    for (index, group) in timeline.timeline().groups.iter().enumerate() {
        if group.peak.0 == 0 {
            continue;
        }
        let points = tiles.iter().flat_map(|tile| {
            (0..tile.allocated.len()).map(move |column| {
                let below = tile.groups[..=index].iter().map(|group| group[column].0).sum();
                (at(axis, tile, column), number(Bytes(below)))
            })
        });
        layers.push(Series { name: group.name.clone(), points: changes(points) });
    }
    layers
}

/// The time at which a column begins.
#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn at(axis: &Axis, tile: &TimelineTile, column: usize) -> f64 {
    let part = column as f64 / tile.allocated.len() as f64;
    seconds_at(axis, tile.from + (tile.to - tile.from) * part)
}

/// The points at which the level changes.
fn changes(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = points.collect();
    kept.dedup_by(|next, before| next.1.to_bits() == before.1.to_bits());
    kept
}

fn mark(marker: &Marker) -> Mark {
    let emphasis = match marker.kind {
        // A step has a number. Other markers have names of the program.
        MarkerKind::Step => Emphasis::Quiet,
        MarkerKind::Phase | MarkerKind::Mark => Emphasis::Plain,
        MarkerKind::Oom => Emphasis::Strong,
    };
    Mark { at: marker.seconds, name: font::shortened(&marker.name), emphasis }
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn number(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
