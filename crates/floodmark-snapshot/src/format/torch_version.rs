//! Which version of torch wrote a snapshot. The file has no version, but each version added keys.

use crate::format::known_strings::{self as known, StringId};

/// The keys of a snapshot, which differ between versions.
#[derive(Debug, Default)]
pub(crate) struct SeenKeys {
    snapshot: u64,
    settings: Option<u64>,
    segment: Option<u64>,
    /// Keys that every event had, and keys that some had.
    events: Option<(u64, u64)>,
    pub(crate) has_annotate: bool,
    /// Events with an `action` that no torch up to 2.15 writes.
    pub(crate) unknown_actions: u64,
    /// Microseconds since 1970; 0 if no event has a time.
    pub(crate) first_time: u64,
}

/// The dict that has a key, the key, and the minor version of torch 2 since which it is always present.
const SINCE: [(KeyOwner, StringId, u32); 10] = [
    (KeyOwner::Segment, known::SEGMENT_POOL_ID, 1),
    (KeyOwner::Event, known::TIME_US, 2),
    (KeyOwner::SnapshotDict, known::ALLOCATOR_SETTINGS, 3),
    (KeyOwner::SnapshotDict, known::EXTERNAL_ANNOTATIONS, 5),
    (KeyOwner::Event, known::COMPILE_CONTEXT, 8),
    (KeyOwner::Settings, known::STREAM_REUSE, 9),
    (KeyOwner::Event, known::USER_METADATA, 10),
    (KeyOwner::Event, known::POOL_ID, 12),
    (KeyOwner::Settings, known::MAX_CACHED_SIZE, 13),
    (KeyOwner::SnapshotDict, known::HOST_SEGMENTS, 14),
];

/// Keys that only some events have, and the version that added them. Without the key, nothing follows.
const SOMETIMES_SINCE: [(StringId, u32); 2] =
    [(known::FORWARD_FRAMES, 11), (known::INTERNAL_METADATA, 15)];

/// The newest known version.
const NEWEST: u32 = 15;

#[derive(Debug, Clone, Copy)]
enum KeyOwner {
    SnapshotDict,
    Settings,
    Segment,
    Event,
}

impl SeenKeys {
    pub(crate) fn add_snapshot(&mut self, present: u64) {
        self.snapshot = present;
    }

    pub(crate) fn add_settings(&mut self, present: u64) {
        self.settings = Some(present);
    }

    pub(crate) fn add_segment(&mut self, present: u64) {
        self.segment = Some(self.segment.unwrap_or(0) | present);
    }

    #[inline]
    pub(crate) fn add_event(&mut self, present: u64) {
        let (every, some) = self.events.unwrap_or((u64::MAX, 0));
        self.events = Some((every & present, some | present));
    }

    /// Whether events have times.
    pub(crate) fn has_times(&self) -> bool {
        self.events.is_none_or(|(_, some)| some >> known::TIME_US & 1 == 1)
    }

    /// Whether any event has `frames`.
    pub(crate) fn has_frames(&self) -> bool {
        self.events.is_some_and(|(_, some)| some >> known::FRAMES & 1 == 1)
    }

    /// `2.10 to 2.11`, `2.15 or newer`; empty if no key shows it.
    pub(crate) fn torch(&self) -> String {
        let (mut oldest, mut newest) = (0, NEWEST);
        let mut is_known = false;
        for (owner, key, since) in SINCE {
            let present = match owner {
                KeyOwner::SnapshotDict => (self.snapshot != 0).then_some(self.snapshot),
                KeyOwner::Settings => self.settings,
                KeyOwner::Segment => self.segment,
                KeyOwner::Event => self.events.map(|(_, some)| some),
            };
            let Some(present) = present else { continue };
            is_known = true;
            if present >> key & 1 == 1 {
                oldest = oldest.max(since);
            } else {
                newest = newest.min(since - 1);
            }
        }
        for (key, since) in SOMETIMES_SINCE {
            if self.events.is_some_and(|(_, some)| some >> key & 1 == 1) {
                oldest = oldest.max(since);
            }
        }
        if self.has_annotate {
            oldest = oldest.max(14);
        }
        match (is_known, oldest.cmp(&newest)) {
            (false, _) => String::new(),
            (true, _) if oldest >= NEWEST => format!("2.{oldest} or newer"),
            (true, std::cmp::Ordering::Less) => format!("2.{oldest} to 2.{newest}"),
            // Keys of versions that exclude each other: another program wrote the file, and the newest key counts.
            (true, _) => format!("2.{oldest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[StringId]) -> u64 {
        keys.iter().fold(0, |all, &key| all | 1 << key)
    }

    #[test]
    fn keys_show_the_version() {
        let mut seen = SeenKeys::default();
        assert_eq!(seen.torch(), "");
        seen.add_snapshot(keys(&[known::SEGMENTS, known::DEVICE_TRACES]));
        assert_eq!(seen.torch(), "2.0 to 2.2");
        seen.add_event(keys(&[known::ACTION, known::TIME_US]));
        assert_eq!(seen.torch(), "2.2");
        let top = [known::SEGMENTS, known::ALLOCATOR_SETTINGS, known::EXTERNAL_ANNOTATIONS];
        seen.add_snapshot(keys(&top));
        assert_eq!(seen.torch(), "2.5 to 2.7");
        seen.add_event(keys(&[known::TIME_US, known::COMPILE_CONTEXT, known::USER_METADATA]));
        assert_eq!(seen.torch(), "2.10 to 2.11");
        seen.add_event(keys(&[known::POOL_ID, known::INTERNAL_METADATA]));
        assert_eq!(seen.torch(), "2.15 or newer");
    }
}
