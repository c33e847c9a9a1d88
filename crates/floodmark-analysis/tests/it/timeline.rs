//! Memory over time in bands: against the reports of the same moments, and against itself.

use std::collections::BTreeMap;

use floodmark_analysis::{
    At, By, COLUMNS, Detail, MOST_GROUPS, Question, QuestionError, TimelineBy, TimelineIndex,
    TimelineTile, TraceIndex, levels, report,
};
use floodmark_trace::{Bytes, Device, Subject, Trace};
use proptest::prelude::*;

use crate::laws::program;
use crate::trace;

pub(crate) fn index(trace: &Trace, device: Device, by: TimelineBy) -> TimelineIndex {
    TimelineIndex::new(trace, &TraceIndex::new(trace), device, by).unwrap()
}

/// Bytes of each band as the report of the same moment has them.
fn reported(
    trace: &Trace,
    device: Device,
    by: TimelineBy,
    at: At,
    names: &[&str],
) -> BTreeMap<String, Bytes> {
    let by = by.name().parse().unwrap();
    let question = Question { device: Some(device), by, at, ..Question::default() };
    let mut sums: BTreeMap<String, Bytes> = BTreeMap::new();
    // In a tree: the bands of the modules around a row.
    let mut around: Vec<Option<&str>> = Vec::new();
    for row in report(trace, &question).unwrap().rows {
        let depth = if let Detail::Module { depth, .. } = row.detail { depth as usize } else { 0 };
        around.truncate(depth);
        let own = names.iter().find(|name| name.trim_end_matches(" (rest)") == row.location);
        let outer = around.last().copied().flatten();
        let band = own.copied().or(outer);
        around.resize(depth, outer);
        around.push(band);
        *sums.entry(band.unwrap_or("other").to_owned()).or_default() += row.own_bytes();
    }
    sums.retain(|_, bytes| *bytes > Bytes(0));
    sums
}

fn named(names: &[&str], bytes: &[Bytes]) -> BTreeMap<String, Bytes> {
    let bands = names.iter().zip(bytes).filter(|(_, bytes)| **bytes > Bytes(0));
    bands.map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
}

fn names(index: &TimelineIndex) -> Vec<&str> {
    index.timeline().groups.iter().map(|group| group.name.as_str()).collect()
}

fn check_against_reports(trace: &Trace, device: Device) {
    let end = trace.end().as_seconds();
    for by in TimelineBy::ALL {
        let index = index(trace, device, by);
        let names = names(&index);
        assert!(names.len() <= MOST_GROUPS);
        for part in 0..=6 {
            let seconds = end * f64::from(part) / 6.0;
            let at = At::Seconds(seconds);
            let actual = named(&names, &index.groups_at(trace, seconds));
            assert_eq!(actual, reported(trace, device, by, at, &names), "{by:?} at {seconds}");
        }
        let whole = index.tile(trace, 0, 0).unwrap();
        let peak = index.timeline().peak.allocated;
        let highest = whole.allocated.iter().position(|&bytes| bytes == peak).unwrap();
        let bands: Vec<Bytes> = whole.groups.iter().map(|band| band[highest]).collect();
        let expected = reported(trace, device, by, At::Peak, &names);
        assert_eq!(named(&names, &bands), expected, "{by:?} at the peak");
    }
}

/// The lowest and highest level of every column, event by event: a column begins with the level before it.
fn columns(trace: &Trace, device: Device, level: u32) -> Vec<(Bytes, Bytes)> {
    let (all, end) = (COLUMNS << level, trace.end().0);
    let mut columns: Vec<Option<(Bytes, Bytes)>> = vec![None; all];
    let mut now = None;
    let is_initial = |subject: Subject| {
        let allocated = subject.allocated().map(|id| &trace.allocations[id.index()]);
        allocated.is_some_and(|allocation| allocation.before_recording)
            || matches!(subject, Subject::Reserved(_))
    };
    let initial = trace.events.iter().take_while(|event| is_initial(event.subject)).count();
    let mut filled = 0;
    for (at, levels) in levels(trace, device) {
        let column = if at < initial { 0 } else { trace.events[at].time.0 * all as u64 / end };
        let column = usize::try_from(column).unwrap().min(all - 1);
        if at < initial {
            columns[0] = None;
        } else {
            let start = now.unwrap_or_else(|| trace.unseen_at_start(device));
            columns[filled..=column].iter_mut().for_each(|one| *one = one.or(Some((start, start))));
            filled = column;
        }
        let (low, high) = columns[column].unwrap_or((levels.allocated, levels.allocated));
        columns[column] = Some((low.min(levels.allocated), high.max(levels.allocated)));
        now = Some(levels.allocated);
    }
    let end = now.unwrap_or_default();
    columns.into_iter().map(|column| column.unwrap_or((end, end))).collect()
}

/// A column is its two halves: the higher, the first of equals; the lowest; all events.
fn check_halves(whole: &TimelineTile, halves: [&TimelineTile; 2]) {
    for column in 0..COLUMNS {
        let half = halves[column * 2 / COLUMNS];
        let (one, other) = (column * 2 % COLUMNS, column * 2 % COLUMNS + 1);
        let higher = if half.allocated[other] > half.allocated[one] { other } else { one };
        assert_eq!(whole.allocated[column], half.allocated[higher]);
        for (band, half) in whole.groups.iter().zip(&half.groups) {
            assert_eq!(band[column], half[higher]);
        }
        assert_eq!(whole.lowest[column], half.lowest[one].min(half.lowest[other]));
        assert_eq!(whole.events[column], half.events[one] + half.events[other]);
        let highest = |list: &Option<Vec<Bytes>>| list.as_ref().map(|of| of[one].max(of[other]));
        assert_eq!(whole.active.as_ref().map(|of| of[column]), highest(&half.active));
        assert_eq!(whole.reserved.as_ref().map(|of| of[column]), highest(&half.reserved));
    }
}

fn check_levels(trace: &Trace, device: Device, by: TimelineBy) {
    let index = index(trace, device, by);
    let peak = index.timeline().peak.allocated;
    for level in 0..index.timeline().deepest_level.min(5) {
        let tiles: Vec<_> =
            (0..1 << level).map(|tile| index.tile(trace, level, tile).unwrap()).collect();
        let highest = tiles.iter().flat_map(|tile| &tile.allocated).max().unwrap();
        assert_eq!(*highest, peak, "level {level}");
        let actual = tiles.iter().flat_map(|tile| tile.lowest.iter().zip(&tile.allocated));
        let actual: Vec<(Bytes, Bytes)> = actual.map(|(&low, &high)| (low, high)).collect();
        assert_eq!(actual, columns(trace, device, level), "level {level}");
        for tile in &tiles {
            let child = |at| index.tile(trace, level + 1, tile.tile * 2 + at).unwrap();
            check_halves(tile, [&child(0), &child(1)]);
            for column in 0..COLUMNS {
                let sum: Bytes = tile.groups.iter().map(|band| band[column]).sum();
                assert_eq!(sum, tile.allocated[column]);
            }
        }
    }
}

/// Several blocks of events, more lines and modules than there are bands, two devices, two steps.
pub(crate) fn long() -> String {
    let mut script = String::from("unseen cuda:0 64KiB\ninitial w cuda:0 512KiB\n");
    for n in 0..2500_u64 {
        let (layer, line, kib) = (n / 7 % 9, n % 40, 1 + n * n % 37);
        let device = if n % 5 == 0 { "cpu" } else { "cuda:0" };
        let backward = if n % 4 == 0 { "backward " } else { "" };
        script += &format!(
            "{backward}alloc a{n} {device} {kib}KiB at m.py:{line} in net.layers.{layer}.mlp\n"
        );
        if n >= 60 {
            script += &format!("free a{}\n", n - 60);
        }
        if n == 1200 {
            script += "optimizer begin\noptimizer end\nfree-unknown cuda:0 32KiB\n";
        }
    }
    script
}

#[test]
fn bands_are_the_rows_of_the_report_of_the_moment() {
    let trace = trace(&long());
    for device in trace.devices() {
        check_against_reports(&trace, device);
    }
}

#[test]
fn no_level_loses_a_peak_and_every_column_is_its_two_halves() {
    let trace = trace(&long());
    for device in trace.devices() {
        check_levels(&trace, device, TimelineBy::Line);
    }
}

#[test]
fn modules_are_cut_where_they_are_largest() {
    let trace = trace(
        "alloc a cuda:0 8MiB at m.py:1 in net.big.left
         alloc b cuda:0 7MiB at m.py:1 in net.big.right
         alloc c cuda:0 1MiB at m.py:1 in net.big
         alloc d cuda:0 2MiB at m.py:1 in net.small
         alloc e cuda:0 1KiB at m.py:1",
    );
    let index = index(&trace, Device::cuda(0), TimelineBy::Module);
    let actual: Vec<(&str, u64)> =
        index.timeline().groups.iter().map(|one| (&*one.name, one.peak.0 >> 10)).collect();
    assert_eq!(
        actual,
        [
            ("net.big.left", 8192),
            ("net.big.right", 7168),
            ("net.small", 2048),
            ("net.big (rest)", 1024),
            ("(no module)", 1)
        ]
    );
}

#[test]
fn there_is_no_tile_behind_the_last() {
    let trace = trace("alloc a cuda:0 1MiB\nfree a");
    let index = index(&trace, Device::cuda(0), TimelineBy::Category);
    let deepest = index.timeline().deepest_level;
    assert!(index.tile(&trace, deepest, (1 << deepest) - 1).is_ok());
    for (level, tile) in [(deepest, 1 << deepest), (deepest + 1, 0), (u32::MAX, u64::MAX)] {
        let error = index.tile(&trace, level, tile).unwrap_err();
        assert_eq!(error, QuestionError::NoSuchTile { level, tile, deepest });
    }
    let cpu = TimelineIndex::new(&trace, &TraceIndex::new(&trace), Device::CPU, TimelineBy::Line);
    assert!(matches!(cpu.unwrap_err(), QuestionError::NoSuchDevice { .. }));
}

/// A page reads this: its names are a contract.
#[test]
fn its_json_has_a_number_for_each_column() {
    let trace = trace("alloc a cuda:0 1MiB\nfree a");
    let index = index(&trace, Device::cuda(0), TimelineBy::Category);
    let actual = serde_json::to_value(index.timeline()).unwrap();
    assert_eq!(actual["by"], "category");
    assert_eq!(actual["groups"][0]["peak"], 1 << 20);
    let tile = serde_json::to_value(index.tile(&trace, 0, 0).unwrap()).unwrap();
    assert_eq!(tile["groups"][0].as_array().unwrap().len(), COLUMNS);
    assert_eq!(tile["events"].as_array().unwrap().len(), COLUMNS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any program, the picture agrees with the reports, and every level shows the same.
    #[test]
    fn a_picture_is_true_on_every_level(script in program()) {
        let trace = trace(&script);
        for device in trace.devices() {
            check_against_reports(&trace, device);
            check_levels(&trace, device, TimelineBy::Category);
        }
    }
}

/// `By` has all that a timeline can be stacked by.
#[test]
fn every_timeline_has_its_report() {
    for by in TimelineBy::ALL {
        assert_eq!(by.name().parse::<TimelineBy>().unwrap(), by);
        assert_eq!(by.name().parse::<By>().unwrap().name(), by.name());
    }
    assert!("stack".parse::<TimelineBy>().is_err());
}
