//! Wasted memory, in three numbers.

use floodmark_analysis::{At, By, Detail, Fragmentation, Question, Report, report};
use floodmark_trace::Bytes;

use crate::trace;

const MIB: u64 = 1 << 20;

const SCRIPT: &str = "
    segment A cuda:0 20MiB
    alloc a cuda:0 8MiB asking 7MiB on A
    alloc b cuda:0 4MiB on A+8MiB
    segment B cuda:0 2MiB
    alloc s cuda:0 512B asking 100B on B
    segment C cuda:0 12MiB
    alloc c cuda:0 12MiB on C
    free c
    step
    free b
    free a
    step";

fn at_end(script: &str) -> Report {
    let question = Question { by: By::Segment, at: At::End, ..Question::default() };
    report(&trace(script), &question).unwrap()
}

#[test]
fn rounding_split_and_unusable_bytes_are_distinguished() {
    let script = SCRIPT.split("step").next().unwrap();
    let found = at_end(script).fragmentation.unwrap();
    assert_eq!(found.largest_request, Bytes(12 * MIB));
    let Fragmentation { rounding, split, unusable, free, free_blocks, largest_free, .. } = found.at;
    assert_eq!(rounding, Bytes(MIB + 412));
    // What is left of A and B; C is free as a whole and could go back.
    assert_eq!(split, Bytes(8 * MIB + 2 * MIB - 512));
    // The same two blocks are too small for 12 MiB; C is not.
    assert_eq!(unusable, Bytes(8 * MIB + 2 * MIB - 512));
    assert_eq!((free, free_blocks), (Bytes(22 * MIB - 512), 3));
    assert_eq!((largest_free, found.at.reserved), (Bytes(12 * MIB), Bytes(34 * MIB)));
    let allocated = 12.0 + 1.0 / 2048.0;
    assert!((found.at.ratio - (1.0 - allocated / 34.0)).abs() < 1e-12, "{}", found.at.ratio);
}

#[test]
fn the_numbers_are_also_given_at_the_end_of_each_step() {
    let found = at_end(SCRIPT).fragmentation.unwrap();
    let over_time: Vec<(Option<u32>, [u64; 3])> = found
        .over_time
        .iter()
        .map(|at| (at.step, [at.now.rounding.0, at.now.split.0, at.now.unusable.0]))
        .collect();
    let rest = 2 * MIB - 512;
    // In the end A is free as a whole: 20 MiB in one block.
    let expected =
        [(Some(0), [MIB + 412, 8 * MIB + rest, 8 * MIB + rest]), (Some(1), [412, rest, rest])];
    assert_eq!(over_time, expected);
    assert_eq!(found.over_time[1].now, found.at);
}

#[test]
fn a_row_is_a_segment_with_a_picture_of_it() {
    let script = SCRIPT.split("step").next().unwrap();
    let report = at_end(script);
    assert_eq!(report.total_rows, 3);
    let segments: Vec<(u64, u64, u64, &str)> = report
        .rows
        .iter()
        .map(|row| {
            let Detail::Segment { segment, free, picture, .. } = &row.detail else { panic!() };
            (segment.0 / MIB, row.bytes.0, free.0, picture.trim_end_matches('·'))
        })
        .collect();
    let twelve_of_twenty = "█".repeat(19);
    assert_eq!(
        segments,
        [
            (20, 12 * MIB, 8 * MIB, twelve_of_twenty.as_str()),
            (12, 0, 12 * MIB, ""),
            (2, 512, 2 * MIB - 512, ""),
        ]
    );
}
