//! The answers for a page about torch's own recordings, against the reports of the same times.

use std::collections::BTreeMap;
use std::path::Path;

use floodmark_analysis::{
    At, COLUMNS, FrameChoice, IcicleBy, MomentIndex, Question, Report, SegmentBlockState,
    SegmentsIndex, TimelineBy, TimelineIndex, TraceIndex, allocation_tile, icicle, report,
    report_with, segments,
};
use floodmark_trace::{Bytes, Device, Trace};

fn recordings(folder: &str) -> Vec<Trace> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    let mut paths: Vec<_> = std::fs::read_dir(root.join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".pickle"))
        .collect();
    paths.sort();
    assert!(paths.len() > 3, "{folder} has recordings");
    paths.iter().map(|path| floodmark_files::traces::open_trace(path).unwrap()).collect()
}

fn ask(trace: &Trace, device: Device, by: TimelineBy, at: At) -> Report {
    let by = by.name().parse().unwrap();
    report(trace, &Question { device: Some(device), by, at, ..Question::default() }).unwrap()
}

/// The bands of the moment, by the name of the row; what has no row of its own is `other`.
fn bands(report: &Report, timeline: &TimelineIndex) -> BTreeMap<String, Bytes> {
    let is_band =
        |location: &str| timeline.timeline().groups.iter().any(|one| one.name == location);
    let mut sums = BTreeMap::new();
    for row in &report.rows {
        let name = if is_band(&row.location) { row.location.as_str() } else { "other" };
        *sums.entry(name.to_owned()).or_default() += row.own_bytes();
    }
    sums.retain(|_, bytes| *bytes > Bytes(0));
    sums
}

fn check_timeline(trace: &Trace, index: &TraceIndex, device: Device, by: TimelineBy) {
    let timeline = TimelineIndex::new(trace, index, device, by).unwrap();
    let whole = timeline.tile(trace, 0, 0).unwrap();
    let peak = ask(trace, device, by, At::Peak);
    let column = whole.allocated.iter().position(|&one| one == peak.allocated).unwrap();
    let groups = &timeline.timeline().groups;
    let shown =
        groups.iter().zip(&whole.groups).map(|(one, band)| (one.name.clone(), band[column]));
    let mut shown: BTreeMap<String, Bytes> = shown.collect();
    shown.retain(|_, bytes| *bytes > Bytes(0));
    assert_eq!(shown, bands(&peak, &timeline), "{by:?}");
    for level in [2, 7, timeline.timeline().deepest_level] {
        let at = timeline.timeline().peak.seconds / timeline.timeline().seconds;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^30")]
        let tile = ((at * f64::from(1_u32 << level)) as u64).min((1 << level) - 1);
        let tile = timeline.tile(trace, level, tile).unwrap();
        assert_eq!(tile.allocated.iter().max(), Some(&peak.allocated), "level {level}");
    }
}

/// Every byte of every moment is found again: in bands, ribbons, trees and blocks.
fn check(trace: &Trace) {
    let index = TraceIndex::new(trace);
    for device in trace.devices() {
        for by in [TimelineBy::Category, TimelineBy::Phase, TimelineBy::Line] {
            check_timeline(trace, &index, device, by);
        }
        let moments = MomentIndex::new(trace, device).unwrap();
        let heaps = SegmentsIndex::new(trace, device).unwrap();
        let timeline = TimelineIndex::new(trace, &index, device, TimelineBy::Module).unwrap();
        let tile = timeline.tile(trace, 0, 0).unwrap();
        let ribbons = allocation_tile(trace, &index, &moments, &timeline, 0, 0).unwrap();
        for column in 0..COLUMNS {
            let sum: Bytes = tile.groups.iter().map(|band| band[column]).sum();
            assert_eq!(sum, tile.allocated[column]);
            assert!(ribbons.rest[column] <= tile.allocated[column]);
        }
        let end = trace.end().as_seconds();
        let times = [0.1, 0.5, 0.9].map(|part| At::Seconds(end * part));
        for at in times.into_iter().chain([At::Peak, At::End]) {
            let question = Question { device: Some(device), at, ..Question::default() };
            let expected = report(trace, &question).unwrap();
            assert_eq!(report_with(trace, &index, &moments, &question).unwrap(), expected);
            for by in [IcicleBy::Stack, IcicleBy::Module] {
                let tree = icicle(trace, &index, &moments, by, FrameChoice::Program, at).unwrap();
                assert_eq!((tree.root.bytes, tree.total), (expected.allocated, expected.allocated));
            }
            let found = segments(trace, &index, &moments, &heaps, at).unwrap();
            let reserved: Bytes = found.segments.iter().map(|segment| segment.bytes).sum();
            assert_eq!(Some(reserved), expected.reserved, "{at:?}");
            let blocks = found.segments.iter().flat_map(|segment| &segment.blocks);
            let live = blocks.filter(|block| block.state == SegmentBlockState::Live);
            assert_eq!(live.map(|block| block.bytes).sum::<Bytes>(), expected.allocated, "{at:?}");
        }
    }
}

#[test]
fn a_page_shows_the_reports_of_trained_models() {
    recordings("zoo").iter().for_each(check);
}

#[test]
fn a_page_shows_the_reports_under_every_allocator_setting() {
    recordings("allocator").iter().for_each(check);
}
