//! The tracks of each device: counters of its totals and categories, and its training phases.

use std::io;

use floodmark_analysis::{CategoryLevels, Curve, Levels, Stretch, curve, levels};
use floodmark_trace::{Category, Device};

use super::{Flow, Numbers, TimedEvent, TrackId, TrackInput, TrackKind, Tracks};
use crate::options::ExportError;

/// The tracks of all devices.
pub(super) struct DeviceTracks<'a> {
    devices: Vec<OneDeviceTracks<'a>>,
    categories: CategoryLevels<'a>,
}

struct OneDeviceTracks<'a> {
    device: Device,
    levels: Box<dyn Iterator<Item = (usize, Levels)> + 'a>,
    /// The tracks of allocated, active and reserved bytes, with the last written values.
    totals: [(TrackId, Option<u64>); 3],
    categories: Vec<(Category, TrackId)>,
    stretches: Stretches,
}

impl<'a> DeviceTracks<'a> {
    pub(super) fn new(
        input: &TrackInput<'a>,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> Result<Self, ExportError> {
        let categories = CategoryLevels::at_start(input.trace, input.context);
        let mut devices = Vec::new();
        for &device in &input.devices {
            devices.push(OneDeviceTracks::new(input, device, &categories, numbers, tracks)?);
        }
        Ok(Self { devices, categories })
    }

    pub(super) fn apply(
        &mut self,
        at: &TimedEvent<'_>,
        is_shown: bool,
        tracks: &mut dyn Tracks,
    ) -> io::Result<()> {
        let changed = self.categories.apply(at.event);
        for one in &mut self.devices {
            one.stretches.advance(at.micros, tracks)?;
            let now = one.levels.next();
            if one.device != at.event.device {
                continue;
            }
            let Some((_, now)) = now.filter(|_| is_shown) else { continue };
            let known = [Some(now.allocated), now.active, now.reserved];
            for ((track, last), value) in one.totals.iter_mut().zip(known) {
                let Some(value) = value.map(|bytes| bytes.0) else { continue };
                if last.replace(value) != Some(value) {
                    tracks.counter(*track, at.micros, value)?;
                }
            }
            let Some((category, bytes)) = changed else { continue };
            let found = one.categories.iter().find(|(known, _)| *known == category);
            if let Some((_, track)) = found {
                tracks.counter(*track, at.micros, bytes.0)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, end: u64, tracks: &mut dyn Tracks) -> io::Result<()> {
        for one in &mut self.devices {
            one.stretches.advance(end, tracks)?;
        }
        Ok(())
    }
}

impl<'a> OneDeviceTracks<'a> {
    fn new(
        input: &TrackInput<'a>,
        device: Device,
        held: &CategoryLevels<'_>,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> Result<Self, ExportError> {
        let trace = input.trace;
        let root = numbers.root;
        let name = device.to_string();
        let group = numbers.add(tracks, root, &name, TrackKind::Group)?;
        let mut counter =
            |of: &str| numbers.add(tracks, group, &format!("{name} {of}"), TrackKind::Counter);
        let allocated = counter("allocated")?;
        // The host's allocator has no others.
        let (active, reserved) = if device.is_cpu() {
            (allocated, allocated)
        } else {
            (counter("active")?, counter("reserved")?)
        };
        let mut categories = Vec::new();
        for category in used(input, device) {
            categories.push((category, counter(category.name())?));
        }
        let doing = numbers.add(tracks, group, &format!("{name} phases"), TrackKind::Slices)?;
        for &(category, track) in &categories {
            tracks.counter(track, 0, held.level(device, category).0)?;
        }
        let found: Curve = curve(trace, Some(device), 4)?;
        Ok(Self {
            device,
            levels: Box::new(levels(trace, device)),
            totals: [(allocated, None), (active, None), (reserved, None)],
            categories,
            stretches: Stretches {
                track: doing,
                all: found.stretches,
                next: 0,
                is_open: false,
                last: 0,
            },
        })
    }
}

/// The categories of a device's allocations.
fn used(input: &TrackInput<'_>, device: Device) -> Vec<Category> {
    let mut levels = CategoryLevels::at_start(input.trace, input.context);
    let is_there = |category: &&Category| levels.level(device, **category).0 > 0;
    let mut found: Vec<Category> = Category::ALL.iter().filter(is_there).copied().collect();
    for event in input.trace.events.iter().filter(|event| event.device == device) {
        if let Some((category, bytes)) = levels.apply(event)
            && bytes.0 > 0
            && !found.contains(&category)
        {
            found.push(category);
        }
    }
    found.sort_unstable();
    found
}

/// The training phases, in order.
struct Stretches {
    track: TrackId,
    all: Vec<Stretch>,
    next: usize,
    is_open: bool,
    /// The time up to which phases were written.
    last: u64,
}

impl Stretches {
    /// Begins and ends phases up to a time.
    fn advance(&mut self, now: u64, tracks: &mut dyn Tracks) -> io::Result<()> {
        while let Some(stretch) = self.all.get(self.next) {
            let when = micros(if self.is_open { stretch.to } else { stretch.from });
            if when > now {
                break;
            }
            let when = when.max(self.last);
            if self.is_open {
                tracks.end(self.track, when)?;
                self.next += 1;
            } else {
                tracks.begin(self.track, when, stretch.name, Flow::None, &[])?;
            }
            self.is_open = !self.is_open;
        }
        self.last = now;
        Ok(())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was a number of microseconds before"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}
