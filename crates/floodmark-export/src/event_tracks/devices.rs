//! What each device held: counters of its totals and categories, and what the program did on it.

use std::io;

use floodmark_analysis::{CategoryLevels, Curve, Levels, Stretch, curve, levels};
use floodmark_trace::{Category, Device};

use super::{At, Flow, Numbers, Scene, TrackId, TrackKind, Tracks};
use crate::options::ExportError;

/// All devices.
pub(super) struct DeviceTracks<'a> {
    devices: Vec<OneDevice<'a>>,
    categories: CategoryLevels<'a>,
}

struct OneDevice<'a> {
    device: Device,
    levels: Box<dyn Iterator<Item = (usize, Levels)> + 'a>,
    /// Allocated, active, reserved: the last values written.
    totals: [(TrackId, Option<u64>); 3],
    categories: Vec<(Category, TrackId)>,
    stretches: Stretches,
}

impl<'a> DeviceTracks<'a> {
    pub(super) fn new(
        scene: &Scene<'a>,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> Result<Self, ExportError> {
        let categories = CategoryLevels::at_start(scene.trace, scene.context);
        let mut devices = Vec::new();
        for &device in &scene.devices {
            devices.push(OneDevice::new(scene, device, &categories, numbers, tracks)?);
        }
        Ok(Self { devices, categories })
    }

    pub(super) fn apply(
        &mut self,
        at: &At<'_>,
        is_told: bool,
        tracks: &mut dyn Tracks,
    ) -> io::Result<()> {
        let changed = self.categories.apply(at.event);
        for one in &mut self.devices {
            one.stretches.advance(at.micros, tracks)?;
            let now = one.levels.next();
            if one.device != at.event.device {
                continue;
            }
            let Some((_, now)) = now.filter(|_| is_told) else { continue };
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

impl<'a> OneDevice<'a> {
    fn new(
        scene: &Scene<'a>,
        device: Device,
        held: &CategoryLevels<'_>,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> Result<Self, ExportError> {
        let trace = scene.trace;
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
        for category in used(scene, device) {
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

/// The categories that a device ever held.
fn used(scene: &Scene<'_>, device: Device) -> Vec<Category> {
    let mut levels = CategoryLevels::at_start(scene.trace, scene.context);
    let is_there = |category: &&Category| levels.level(device, **category).0 > 0;
    let mut found: Vec<Category> = Category::ALL.iter().filter(is_there).copied().collect();
    for event in scene.trace.events.iter().filter(|event| event.device == device) {
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

/// What the program did, one thing after the other.
struct Stretches {
    track: TrackId,
    all: Vec<Stretch>,
    next: usize,
    is_open: bool,
    /// The time of the last look: nothing is written for an earlier time.
    last: u64,
}

impl Stretches {
    /// Begins and ends what did until now.
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
