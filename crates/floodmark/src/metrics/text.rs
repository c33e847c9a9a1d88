//! Metrics in Prometheus's text format, version 0.0.4.

use std::fmt::Write;

use floodmark_analysis::{LiveDevice, LiveSummary};
use floodmark_trace::Bytes;

/// The content type of the answer.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// A metric of a device: its name, type, help and value.
type DeviceMetric = (&'static str, &'static str, &'static str, fn(&LiveDevice) -> Option<u64>);
/// A metric of a recording: its name, type, help and value.
type TraceMetric = (&'static str, &'static str, &'static str, fn(&LiveSummary) -> u64);

const DEVICE_METRICS: [DeviceMetric; 10] = [
    ("allocated_bytes", GAUGE, "Allocated bytes.", |one| Some(one.allocated.0)),
    ("active_bytes", GAUGE, "Active bytes: allocated, or pending free.", |one| number(one.active)),
    ("reserved_bytes", GAUGE, "Reserved bytes.", |one| number(one.reserved)),
    ("peak_allocated_bytes", GAUGE, "Peak of allocated bytes.", |one| Some(one.peak.0)),
    ("peak_reserved_bytes", GAUGE, "Peak of reserved bytes.", |one| number(one.reserved_peak)),
    ("last_step_peak_bytes", GAUGE, "Peak of allocated bytes in the last finished step.", |one| {
        number(one.last_step_peak)
    }),
    ("capacity_bytes", GAUGE, "Memory of the device.", |one| number(one.total)),
    ("used_bytes", GAUGE, "In use by all processes, when NVML was last asked.", |one| {
        number(one.used)
    }),
    (
        "allocation_retries_total",
        COUNTER,
        "How often cached memory was freed to the driver to make room.",
        |one| one.retries.map(u64::from),
    ),
    ("failed_requests_total", COUNTER, "Failed allocations.", |one| Some(one.failed_requests)),
];

const TRACE_METRICS: [TraceMetric; 5] = [
    ("events_total", COUNTER, "Recorded events.", |summary| summary.events as u64),
    ("events_lost_total", COUNTER, "Events known to be lost.", |summary| summary.losses.events()),
    ("losses", GAUGE, "Reasons why the trace is incomplete; 0 when it is complete.", |summary| {
        summary.losses.0.len() as u64
    }),
    ("steps_total", COUNTER, "Steps that ended.", |summary| summary.steps.into()),
    ("recording", GAUGE, "1 until the recording has ended.", |summary| {
        (!summary.is_finished).into()
    }),
];

fn number(bytes: Option<Bytes>) -> Option<u64> {
    bytes.map(|bytes| bytes.0)
}

/// The metrics of these traces.
pub(crate) fn text(summaries: &[&LiveSummary]) -> String {
    let mut text = String::new();
    for (name, kind, help, figure) in DEVICE_METRICS {
        if devices(summaries).any(|(_, one)| figure(one).is_some()) {
            write_head(&mut text, name, kind, help);
        }
        for (summary, one) in devices(summaries) {
            if let Some(value) = figure(one) {
                write_sample(&mut text, name, &labels(summary, Some(one), None), value);
            }
        }
    }
    let name = "category_bytes";
    write_head(&mut text, name, GAUGE, "Allocated bytes by category.");
    for (summary, one) in devices(summaries) {
        for (category, bytes) in &one.categories {
            write_sample(&mut text, name, &labels(summary, Some(one), Some(category)), bytes.0);
        }
    }
    for (name, kind, help, figure) in TRACE_METRICS {
        write_head(&mut text, name, kind, help);
        for summary in summaries {
            write_sample(&mut text, name, &labels(summary, None, None), figure(summary));
        }
    }
    text
}

fn devices<'a>(
    summaries: &'a [&LiveSummary],
) -> impl Iterator<Item = (&'a LiveSummary, &'a LiveDevice)> {
    summaries.iter().flat_map(|summary| summary.devices.iter().map(|one| (*summary, one)))
}

type Label = (&'static str, String);

/// Programs without ranks have no label `rank`.
fn labels(
    summary: &LiveSummary,
    device: Option<&LiveDevice>,
    category: Option<&str>,
) -> Vec<Label> {
    let rank = summary.rank.map(|rank| ("rank", rank.to_string()));
    let device = device.map(|one| ("device", one.device.to_string()));
    let category = category.map(|category| ("category", category.to_owned()));
    rank.into_iter().chain(device).chain(category).collect()
}

fn write_head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP floodmark_{name} {help}\n# TYPE floodmark_{name} {kind}");
}

fn write_sample(text: &mut String, name: &str, labels: &[Label], value: u64) {
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "floodmark_{name}{labels} {value}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_label_stays_inside_its_quotes() {
        let mut text = String::new();
        write_sample(&mut text, "x", &[("device", "a\"b\\c\nd".to_owned())], 7);
        assert_eq!(text, "floodmark_x{device=\"a\\\"b\\\\c\\nd\"} 7\n");
        text.clear();
        write_sample(&mut text, "x", &[], 7);
        assert_eq!(text, "floodmark_x 7\n");
    }
}
