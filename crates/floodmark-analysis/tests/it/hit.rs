//! The allocation at a point of the picture.

use floodmark_analysis::{
    COLUMNS, Hit, MomentIndex, PicturePoint, QuestionError, TimelineBy, hit, hit_allocation,
};
use floodmark_trace::{Bytes, Device, Trace};
use proptest::prelude::*;

use crate::laws::program;
use crate::timeline::{index, long};
use crate::trace;

/// In every column of a picture, at several heights: the band is the one drawn there, and what was hit was alive.
fn check(trace: &Trace, device: Device, by: TimelineBy, level: u32) {
    let (timeline, moments) = (index(trace, device, by), MomentIndex::new(trace, device).unwrap());
    let tile = timeline.tile(trace, level, 0).unwrap();
    for column in (0..COLUMNS).step_by(31) {
        #[expect(clippy::cast_precision_loss, reason = "at most 512")]
        let seconds = tile.from + (tile.to - tile.from) * (column as f64 + 0.5) / 512.0;
        let mut below = 0;
        for (group, bytes) in tile.groups.iter().map(|band| band[column].0).enumerate() {
            for inside in [0, bytes / 2, bytes.saturating_sub(1)].into_iter().filter(|_| bytes > 0)
            {
                let point = PicturePoint { seconds, bytes: below + inside, level: Some(level) };
                let found = hit(trace, &timeline, &moments, point).unwrap();
                assert_eq!(found.group, Some(group), "{by:?} column {column}");
                let Some(id) = found.allocation else { continue };
                let allocation = &trace.allocations[id as usize];
                assert_eq!(allocation.device, device);
                let made = trace.events[allocation.made_at as usize].time.as_seconds();
                let freed = allocation.freed_at.map(|at| trace.events[at.get() as usize].time);
                let width = (tile.to - tile.from) / 512.0;
                assert!(allocation.before_recording || made <= seconds + width);
                assert!(freed.is_none_or(|freed| freed.as_seconds() + width >= seconds));
            }
            below += bytes;
        }
        let above = PicturePoint { seconds, bytes: below, level: Some(level) };
        assert_eq!(hit(trace, &timeline, &moments, above).unwrap(), Hit::default());
    }
}

#[test]
fn the_hit_allocation_is_the_drawn_one() {
    let trace = trace(&long());
    for device in trace.devices() {
        for by in TimelineBy::ALL {
            check(&trace, device, by, 0);
            check(&trace, device, by, 4);
        }
    }
}

#[test]
fn the_oldest_of_a_band_lies_lowest() {
    let trace = trace(
        "unseen cuda:0 1KiB
         alloc a cuda:0 4KiB at m.py:1 in fc
         alloc b cuda:0 8KiB at m.py:2
         alloc c cuda:0 2KiB at m.py:1 in fc
         free a
         free b",
    );
    let device = Device::cuda(0);
    let timeline = index(&trace, device, TimelineBy::Phase);
    let moments = MomentIndex::new(&trace, device).unwrap();
    let names: Vec<&str> =
        timeline.timeline().groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["outside", "forward", "before recording"]);
    let ask = |seconds, kib: u64, level| {
        let point = PicturePoint { seconds, bytes: kib << 10, level };
        let found = hit(&trace, &timeline, &moments, point).unwrap();
        (found.group, found.allocation)
    };
    assert_eq!(ask(0.004, 0, None), (Some(0), Some(1)));
    assert_eq!(ask(0.004, 8, None), (Some(1), Some(0)));
    assert_eq!(ask(0.004, 12, None), (Some(1), Some(2)));
    assert_eq!(ask(0.004, 14, None), (Some(2), None));
    assert_eq!(ask(0.004, 15, None), (None, None));
    assert_eq!(ask(0.005, 8, None), (Some(1), Some(2)));
    // The picture of all shows the last column at its highest.
    assert_eq!(ask(0.006, 8, Some(0)), (Some(1), Some(2)));
    let alone = |kib: u64| {
        let point = PicturePoint { seconds: 0.004, bytes: kib << 10, level: None };
        hit_allocation(&trace, &timeline, &moments, point).unwrap()
    };
    assert_eq!(alone(0), Hit { allocation: None, group: Some(2) });
    assert_eq!(alone(1), Hit { allocation: Some(0), group: Some(1) });
    assert_eq!(alone(5), Hit { allocation: Some(1), group: Some(0) });
    assert_eq!(alone(15), Hit::default());
    let point = PicturePoint { seconds: 0.0, bytes: 0, level: Some(99) };
    let error = hit(&trace, &timeline, &moments, point).unwrap_err();
    assert!(matches!(error, QuestionError::NoSuchTile { level: 99, .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// For any program, every byte of the stack has an owner, and all of an allocation can be hit.
    #[test]
    fn every_allocation_can_be_hit(script in program()) {
        let trace = trace(&script);
        for device in trace.devices() {
            check(&trace, device, TimelineBy::Line, 0);
            let timeline = index(&trace, device, TimelineBy::Category);
            let moments = MomentIndex::new(&trace, device).unwrap();
            let seconds = trace.end().as_seconds();
            let sum: Bytes = timeline.groups_at(&trace, seconds).into_iter().sum();
            let mut found = 0;
            for bytes in (0..sum.0).step_by(1 << 10) {
                let point = PicturePoint { seconds, bytes, level: None };
                found += u64::from(hit(&trace, &timeline, &moments, point).unwrap().allocation.is_some());
            }
            let live = trace.allocations.iter().filter(|one| one.device == device && one.freed_at.is_none());
            let live: Bytes = live.map(|one| one.rounded).sum();
            prop_assert_eq!(found << 10, live.0);
        }
    }
}
