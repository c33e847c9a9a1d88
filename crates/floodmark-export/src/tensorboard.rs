//! Event files of TensorBoard: a point for each step, and the picture of each device.
//!
//! Tags are those of `floodmark.integrations.tensorboard`, so that an exported trace appears beside the values of a running
//! program. Values are doubles, because a float has too few digits for the bytes of a large GPU. Without steps, the whole
//! recording is step 0.

use std::collections::BTreeSet;
use std::io::{self, Write};

use floodmark_analysis::{DeviceSummary, summary};
use floodmark_trace::{Bytes, Device, Header, Trace};
use prost::Message;

use crate::files::Files;
use crate::options::{ExportError, Options, chosen_devices};
use crate::pictures;
use crate::step_rows::step_rows;
use crate::tensorboard_messages as proto;
use crate::tfrecord::write_record;

/// Writes one event file into `folder`.
pub fn write_tensorboard(
    trace: &Trace,
    options: &Options,
    folder: &str,
    files: &mut dyn Files,
) -> Result<(), ExportError> {
    let devices = chosen_devices(trace, options.device)?;
    let mut out = files.create(&format!("{folder}{}", file_name(&trace.header)))?;
    let began = seconds(trace.header.started_unix_micros);
    let mut writer = Writer { out: &mut *out, began, described: BTreeSet::new() };
    writer.write(&proto::Event {
        wall_time: began,
        file_version: Some("brain.Event:2".to_owned()),
        ..proto::Event::default()
    })?;
    let all = summary(trace);
    for device in devices {
        let found = all.devices.iter().find(|found| found.device == device);
        let last = writer.steps(trace, device)?;
        if let (None, Some(found)) = (last, found) {
            writer.whole(found, trace.end().as_seconds())?;
        }
        writer.picture(trace, device, last.unwrap_or(0))?;
    }
    Ok(out.flush()?)
}

/// The name of an event file: TensorBoard needs `tfevents` in it.
fn file_name(header: &Header) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let host: String = header.host.chars().filter(is_plain).take(64).collect();
    let host = if host.is_empty() { "host" } else { &host };
    let began = header.started_unix_micros / 1_000_000;
    format!("events.out.tfevents.{began:010}.{host}.{}.floodmark", header.pid)
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    /// Seconds since 1970.
    began: f64,
    /// The tags that were written. The kind of a tag is written only once.
    described: BTreeSet<String>,
}

impl Writer<'_> {
    fn write(&mut self, event: &proto::Event) -> io::Result<()> {
        write_record(&event.encode_to_vec(), self.out)
    }

    fn scalars(
        &mut self,
        step: u32,
        at_seconds: f64,
        values: Vec<(String, Bytes)>,
    ) -> io::Result<()> {
        let values = values.into_iter().map(|(tag, bytes)| {
            let is_new = self.described.insert(tag.clone());
            proto::Value {
                tag,
                metadata: is_new.then(proto::SummaryMetadata::scalars),
                tensor: Some(proto::TensorProto::from_bytes(bytes)),
                image: None,
            }
        });
        let value = values.collect();
        self.write(&proto::Event {
            wall_time: self.began + at_seconds,
            step: step.into(),
            file_version: None,
            summary: Some(proto::Summary { value }),
        })
    }

    /// The number of the last step, if there is one.
    fn steps(&mut self, trace: &Trace, device: Device) -> Result<Option<u32>, ExportError> {
        let prefix = prefix(device);
        let mut last = None;
        for row in step_rows(trace, device)? {
            let totals = [
                ("peak", row.peak),
                ("allocated", row.allocated),
                ("active", row.active),
                ("reserved", row.reserved),
            ];
            let mut values: Vec<(String, Bytes)> = totals
                .into_iter()
                .filter_map(|(name, bytes)| Some((format!("{prefix}/{name}"), bytes?)))
                .collect();
            let tag =
                |kind: &str, name: &str| format!("{prefix}/{kind}/{}", name.replace(' ', "_"));
            values.extend(row.categories.into_iter().map(|(name, b)| (tag("categories", name), b)));
            values.extend(row.phases.into_iter().map(|(name, b)| (tag("phases", &name), b)));
            let at = row.ended_seconds.unwrap_or_else(|| trace.end().as_seconds());
            self.scalars(row.step, at, values)?;
            last = Some(row.step);
        }
        Ok(last)
    }

    fn whole(&mut self, found: &DeviceSummary, end: f64) -> io::Result<()> {
        let prefix = prefix(found.device);
        let totals = [
            ("peak", Some(found.peak)),
            ("allocated", Some(found.end)),
            ("reserved", found.reserved_peak),
        ];
        let known = totals
            .into_iter()
            .filter_map(|(name, bytes)| Some((format!("{prefix}/{name}"), bytes?)));
        self.scalars(0, end, known.collect())
    }

    fn picture(&mut self, trace: &Trace, device: Device, step: u32) -> Result<(), ExportError> {
        let options = Options { device: Some(device), ..Options::default() };
        let drawn = pictures::draw(&pictures::chart_of(trace, &options)?)?;
        let side = |pixels: u32| i32::try_from(pixels).unwrap_or(i32::MAX);
        let image = proto::Image {
            height: side(drawn.height),
            width: side(drawn.width),
            // Red, green, blue and opacity.
            colorspace: 4,
            encoded_image_string: drawn.png,
        };
        let tag = format!("{}/timeline", prefix(device));
        let value = proto::Value { tag, image: Some(image), ..proto::Value::default() };
        Ok(self.write(&proto::Event {
            wall_time: self.began + trace.end().as_seconds(),
            step: step.into(),
            file_version: None,
            summary: Some(proto::Summary { value: vec![value] }),
        })?)
    }
}

/// `memory/cuda0`, without the colon, which would begin another group.
fn prefix(device: Device) -> String {
    format!("memory/{}", device.to_string().replace(':', ""))
}

#[expect(clippy::cast_precision_loss, reason = "microseconds since 1970 fit for 140 years")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
