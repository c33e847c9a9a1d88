//! Profiles for <https://www.speedscope.app/>, by its published schema: `file-format-schema.json`.
//!
//! Each device has two profiles in bytes: the live bytes of each stack at the peak, and the allocations of each stack in the
//! order of time (speedscope's *Time Order*). With layers instead of stacks there is one profile: the allocations of each
//! layer, in the order of time.

use std::io::{self, Write};

use floodmark_analysis::{
    LayerEventKind, LayerQuestion, LayerSource, QuestionError, ShownFrames, default_device, layers,
};
use floodmark_trace::{Allocation, Device, StackId, Trace};
use hashbrown::HashMap;
use serde::Serialize;

use crate::options::{ExportError, Options};
use crate::stacks::{BACKWARD, StackLabel, at_peak};

#[derive(Serialize)]
struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared,
    profiles: Vec<Profile>,
    name: String,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    exporter: String,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

impl Profile {
    fn new(name: String, samples: Vec<Vec<u32>>, weights: Vec<u64>) -> Self {
        let end_value = weights.iter().sum();
        Self { kind: "sampled", name, unit: "bytes", start_value: 0, end_value, samples, weights }
    }
}

/// Each frame once.
struct Frames<'a> {
    shown: ShownFrames<'a>,
    all: Vec<Frame>,
    numbers: HashMap<StackLabel, u32>,
    /// The frames of each stack so far.
    stacks: HashMap<StackId, Vec<u32>>,
}

impl<'a> Frames<'a> {
    fn new(trace: &'a Trace, options: &Options) -> Self {
        let shown = ShownFrames::new(trace, options.frames);
        Self { shown, all: Vec::new(), numbers: HashMap::new(), stacks: HashMap::new() }
    }

    fn number(&mut self, label: &StackLabel) -> u32 {
        if let Some(&known) = self.numbers.get(label) {
            return known;
        }
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(match label {
            StackLabel::Known { function, file, line } => {
                // The schema counts lines from 1; 0 is an unknown line.
                let line = Some(*line).filter(|&line| line > 0);
                Frame { name: function.clone(), file: Some(file.clone()), line }
            }
            StackLabel::Words(words) => Frame { name: words.clone(), file: None, line: None },
        });
        self.numbers.insert(label.clone(), next);
        next
    }

    fn sample(&mut self, trace: &Trace, allocation: &Allocation) -> Vec<u32> {
        let mut sample = match self.stacks.get(&allocation.stack) {
            Some(known) => known.clone(),
            None => self.stack(trace, allocation.stack),
        };
        if allocation.backward {
            sample.push(self.number(&StackLabel::Words(BACKWARD.to_owned())));
        }
        sample
    }

    fn stack(&mut self, trace: &Trace, stack: StackId) -> Vec<u32> {
        let mut sample = Vec::new();
        for (_, node) in self.shown.frames(stack) {
            if let Some(code) = trace.code(node.code) {
                let (function, file) = (code.name.clone(), code.file.clone());
                sample.push(self.number(&StackLabel::Known { function, file, line: node.line }));
            }
        }
        if sample.is_empty() {
            sample.push(self.number(&StackLabel::Words("no Python frame".to_owned())));
        }
        sample.reverse();
        self.stacks.insert(stack, sample.clone());
        sample
    }
}

/// Writes the live bytes of stacks at the peak, and their allocations over time.
pub fn write_speedscope(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let mut frames = Frames::new(trace, options);
    let mut profiles = Vec::new();
    let chosen = match options.device {
        Some(device) => device.canonical(),
        None => default_device(trace, floodmark_analysis::At::Peak)?,
    };
    let mut active = 0;
    if let LayerSource::Phases(_) = options.layers {
        profiles.push(by_layer(trace, options, &mut frames)?);
    } else {
        for device in trace.devices() {
            if device == chosen {
                active = profiles.len();
            } else if options.device.is_some() {
                continue;
            }
            profiles.push(peak(trace, device, options, &mut frames)?);
            profiles.push(over_time(trace, device, options.max_events, &mut frames));
        }
    }
    if profiles.is_empty() {
        let recorded = trace.devices();
        return Err(QuestionError::NoSuchDevice { device: chosen, recorded }.into());
    }
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        shared: Shared { frames: frames.all },
        profiles,
        name: "floodmark".to_owned(),
        active,
        exporter: concat!("floodmark ", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    serde_json::to_writer(out, &file).map_err(io::Error::from)?;
    Ok(())
}

fn peak(
    trace: &Trace,
    device: Device,
    options: &Options,
    frames: &mut Frames<'_>,
) -> Result<Profile, ExportError> {
    let options = Options { device: Some(device), ..options.clone() };
    let (_, held) = at_peak(trace, &options)?;
    let weights = held.iter().map(|stack| stack.bytes).collect();
    let samples = held
        .iter()
        .map(|stack| stack.frames.iter().map(|label| frames.number(label)).collect())
        .collect();
    Ok(Profile::new(format!("{device}: live at the peak"), samples, weights))
}

fn over_time(
    trace: &Trace,
    device: Device,
    most: Option<usize>,
    frames: &mut Frames<'_>,
) -> Profile {
    let made: Vec<&Allocation> = trace
        .events
        .iter()
        .filter(|event| event.device == device)
        .filter_map(|event| Some(&trace.allocations[event.subject.allocated()?.index()]))
        .filter(|allocation| !allocation.before_recording && allocation.rounded.0 > 0)
        .collect();
    let made = &made[made.len() - most.unwrap_or(usize::MAX).min(made.len())..];
    let (mut samples, mut weights): (Vec<Vec<u32>>, Vec<u64>) = (Vec::new(), Vec::new());
    for allocation in made {
        let sample = frames.sample(trace, allocation);
        // Consecutive allocations with one stack are one box.
        if samples.last() == Some(&sample)
            && let Some(last) = weights.last_mut()
        {
            *last += allocation.rounded.0;
        } else {
            samples.push(sample);
            weights.push(allocation.rounded.0);
        }
    }
    Profile::new(format!("{device}: allocated, over time"), samples, weights)
}

fn by_layer(
    trace: &Trace,
    options: &Options,
    frames: &mut Frames<'_>,
) -> Result<Profile, ExportError> {
    let question = LayerQuestion {
        device: options.device,
        source: options.layers.clone(),
        events: options.max_events,
    };
    let found = layers(trace, &question)?;
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for event in found.events.iter().filter(|event| event.kind == LayerEventKind::Alloc) {
        let layer = event.layer.map(|layer| found.layers[layer as usize].name.as_str());
        samples.push(around(layer).map(|name| frames.number(&StackLabel::Words(name))).collect());
        weights.push(event.bytes.0);
    }
    Ok(Profile::new("Allocated by layer".to_owned(), samples, weights))
}

/// A layer after its parents: `a`, `a.b`, `a.b.c`.
fn around(layer: Option<&str>) -> impl Iterator<Item = String> {
    let layer = layer.unwrap_or("(outside)").to_owned();
    let ends: Vec<usize> =
        layer.match_indices('.').map(|(at, _)| at).chain([layer.len()]).collect();
    ends.into_iter().map(move |end| layer[..end].to_owned())
}
