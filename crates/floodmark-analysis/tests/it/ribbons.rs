//! Single allocations over time, against the timeline and the allocations themselves.

use floodmark_analysis::{
    AllocationTile, COLUMNS, MomentIndex, TimelineBy, TimelineTile, TraceIndex, allocation_tile,
};
use floodmark_trace::{Bytes, Device, Trace};
use proptest::prelude::*;

use crate::laws::program;
use crate::timeline::{index, long};
use crate::trace;

/// In which columns a shape is, with its lower edge there.
fn edges(tile: &AllocationTile, shape: usize) -> Vec<(usize, Bytes)> {
    let shape = &tile.shapes[shape];
    let column = |seconds: f64| {
        let part = (seconds - tile.from) / (tile.to - tile.from);
        (0..=COLUMNS).min_by_key(|&at| {
            #[expect(clippy::cast_precision_loss, reason = "at most 512")]
            let away = (at as f64 / 512.0 - part).abs();
            ordered(away)
        })
    };
    let columns: Vec<usize> = shape.xs.iter().map(|&x| column(x).unwrap()).collect();
    assert_eq!(shape.xs.len(), shape.ys.len() + 1);
    let pieces = columns.windows(2).zip(&shape.ys);
    pieces.flat_map(|(piece, &y)| (piece[0]..piece[1]).map(move |column| (column, y))).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "a share in parts of 10^12")]
fn ordered(share: f64) -> i64 {
    (share * 1e12) as i64
}

fn check(tile: &AllocationTile, timeline: &TimelineTile) {
    let mut tops = tile.rest.clone();
    for shape in 0..tile.shapes.len() {
        for (column, lower) in edges(tile, shape) {
            assert_eq!(tops[column], lower, "shape {shape} lies on what is below it");
            tops[column] += tile.shapes[shape].bytes;
        }
    }
    assert_eq!(tops, timeline.allocated, "all together are what is allocated");
    assert!(tile.shapes.is_sorted_by_key(|shape| shape.id));
}

fn tiles(trace: &Trace, device: Device, levels: u32) {
    let (shared, moments) = (TraceIndex::new(trace), MomentIndex::new(trace, device).unwrap());
    let timeline = index(trace, device, TimelineBy::Category);
    for level in 0..=timeline.timeline().deepest_level.min(levels) {
        for tile in 0..1 << level {
            let ribbons =
                allocation_tile(trace, &shared, &moments, &timeline, level, tile).unwrap();
            check(&ribbons, &timeline.tile(trace, level, tile).unwrap());
        }
    }
}

#[test]
fn ribbons_lie_on_each_other_up_to_what_is_allocated() {
    let trace = trace(&long());
    for device in trace.devices() {
        tiles(&trace, device, 3);
    }
}

/// While a small one is live, the large one lies on it; then it falls.
#[test]
fn a_ribbon_falls_when_one_below_it_is_freed() {
    let mut script = String::from("alloc small cuda:0 1MiB\nalloc large cuda:0 8MiB\n");
    script += "free small\nalloc last cuda:0 1MiB\nfree large\n";
    let trace = trace(&script);
    let (shared, device) = (TraceIndex::new(&trace), Device::cuda(0));
    let moments = MomentIndex::new(&trace, device).unwrap();
    let timeline = index(&trace, device, TimelineBy::Category);
    let tile = allocation_tile(&trace, &shared, &moments, &timeline, 0, 0).unwrap();
    let large = &tile.shapes[1];
    assert_eq!(large.bytes, Bytes(8 << 20));
    assert_eq!(large.ys, [Bytes(1 << 20), Bytes(0)]);
    assert_eq!(tile.categories[large.category], "unknown");
    assert!(tile.rest.iter().all(|&rest| rest == Bytes(0)));
}

/// Of more than there is room for, the largest are drawn, and the rest is a height.
#[test]
fn the_largest_of_many_are_drawn() {
    let mut script = String::new();
    for n in 0..2500 {
        let kib = if n % 2 == 0 { 1 } else { 64 };
        script += &format!("alloc a{n} cuda:0 {kib}KiB\n");
    }
    let trace = trace(&script);
    let (shared, device) = (TraceIndex::new(&trace), Device::cuda(0));
    let moments = MomentIndex::new(&trace, device).unwrap();
    let timeline = index(&trace, device, TimelineBy::Category);
    let tile = allocation_tile(&trace, &shared, &moments, &timeline, 0, 0).unwrap();
    assert!(tile.shapes.len() <= 2000);
    let points: usize = tile.shapes.iter().map(|shape| shape.xs.len()).sum();
    assert!(points <= 100_000, "{points}");
    assert!(tile.shapes.iter().filter(|shape| shape.bytes == Bytes(64 << 10)).count() > 150);
    assert!(tile.rest[COLUMNS - 1] > Bytes(0));
    check(&tile, &timeline.tile(&trace, 0, 0).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// For any program, no ribbon overlaps another.
    #[test]
    fn ribbons_never_overlap(script in program()) {
        let trace = trace(&script);
        for device in trace.devices() {
            tiles(&trace, device, 3);
        }
    }
}
