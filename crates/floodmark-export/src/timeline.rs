//! A timeline as JSON: events with the levels after them, statistics of layers, a summary.
//!
//! The keys are those of `gpu_optimizer.MemoryTracer.export_timeline`; `summary` has a few more.

use std::io::{self, Write};

use floodmark_analysis::{Layer, LayerEvent, LayerEventKind, LayerQuestion, Layers, layers};
use floodmark_trace::{Device, Losses, Trace};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::options::{ExportError, Options};

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the format's")]
struct Event<'a> {
    timestamp: f64,
    event_type: LayerEventKind,
    size_bytes: u64,
    layer_name: Option<&'a str>,
    allocated_bytes: u64,
    reserved_bytes: u64,
    fragmentation_ratio: f64,
}

#[derive(Serialize)]
struct Stats<'a> {
    layer_name: &'a str,
    peak_allocated: u64,
    peak_reserved: u64,
    total_allocations: u64,
    total_deallocations: u64,
    avg_fragmentation: f64,
    duration_ms: f64,
}

#[derive(Serialize)]
struct Summary<'a> {
    total_events: usize,
    total_layers: usize,
    peak_allocated_mb: f64,
    peak_reserved_mb: f64,
    avg_fragmentation: f64,
    device: Device,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    at_start_bytes: u64,
    allocated_bytes: u64,
    losses: &'a Losses,
}

/// The whole file, written event by event.
struct Timeline<'a> {
    found: &'a Layers,
    with_fragmentation: bool,
}

impl Serialize for Timeline<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("events", &Events(self))?;
        map.serialize_entry("layer_stats", &LayerStats(self))?;
        map.serialize_entry("summary", &self.summary())?;
        map.end()
    }
}

struct Events<'a>(&'a Timeline<'a>);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.found.events.iter().map(|event| self.0.event(event)))
    }
}

struct LayerStats<'a>(&'a Timeline<'a>);

impl Serialize for LayerStats<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let layers = &self.0.found.layers;
        serializer.collect_map(layers.iter().map(|layer| (&layer.name, self.0.stats(layer))))
    }
}

impl Timeline<'_> {
    fn event(&self, event: &LayerEvent) -> Event<'_> {
        Event {
            timestamp: event.seconds,
            event_type: event.kind,
            size_bytes: event.bytes.0,
            layer_name: event.layer.map(|layer| self.found.layers[layer as usize].name.as_str()),
            allocated_bytes: event.allocated.0,
            reserved_bytes: event.reserved.0,
            fragmentation_ratio: self.fragmentation_or_zero(event.fragmentation()),
        }
    }

    fn stats<'a>(&self, layer: &'a Layer) -> Stats<'a> {
        Stats {
            layer_name: &layer.name,
            peak_allocated: layer.peak_allocated.0,
            peak_reserved: layer.peak_reserved.0,
            total_allocations: layer.allocations,
            total_deallocations: layer.frees,
            avg_fragmentation: self.fragmentation_or_zero(layer.fragmentation),
            duration_ms: layer.seconds * 1e3,
        }
    }

    fn fragmentation_or_zero(&self, ratio: f64) -> f64 {
        if self.with_fragmentation { ratio } else { 0.0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "megabytes and averages")]
    fn summary(&self) -> Summary<'_> {
        let found = self.found;
        let events = found.events.len();
        let ratios: f64 = found.events.iter().map(LayerEvent::fragmentation).sum();
        let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Summary {
            total_events: events,
            total_layers: found.layers.len(),
            peak_allocated_mb: megabytes(found.peak_allocated.0),
            peak_reserved_mb: megabytes(found.peak_reserved.0),
            avg_fragmentation: self.fragmentation_or_zero(if events > 0 {
                ratios / events as f64
            } else {
                0.0
            }),
            device: found.device,
            peak_allocated_bytes: found.peak_allocated.0,
            peak_reserved_bytes: found.peak_reserved.0,
            at_start_bytes: found.at_start.0,
            allocated_bytes: found.allocated_bytes.0,
            losses: &found.losses,
        }
    }
}

/// Writes the timeline of a device, with its layers.
pub fn write_timeline(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let question = LayerQuestion {
        device: options.device,
        source: options.layers.clone(),
        events: options.max_events,
    };
    write_layers(&layers(trace, &question)?, options.fragmentation, out)?;
    Ok(())
}

/// Writes the timeline of given layers.
pub fn write_layers(
    found: &Layers,
    with_fragmentation: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    serde_json::to_writer(out, &Timeline { found, with_fragmentation }).map_err(io::Error::from)
}
