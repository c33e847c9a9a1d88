//! The changes between two recordings.

use floodmark_analysis::{At, By, Diff, DiffError, Limit, Question, Side, diff};
use floodmark_trace::{Bytes, Device, Hint};
use serde_json::json;

use crate::{groupings, trace};

/// The totals, then `change a→b count→count where`, in KiB.
fn table(a: &str, b: &str, by: By) -> String {
    picture(&ask(a, b, &Question { by, ..Question::default() }))
}

fn ask(a: &str, b: &str, question: &Question) -> Diff {
    diff(&trace(a), &trace(b), question).unwrap()
}

fn picture(diff: &Diff) -> String {
    let total = &diff.allocated;
    let mut text = format!(
        "{:+} KiB of {} on {}; {} rows, {} unchanged\n",
        total.change >> 10,
        total.a.0 >> 10,
        diff.device,
        diff.total_rows,
        diff.unchanged_rows
    );
    for row in &diff.rows {
        let (a, b) = (row.a.0 >> 10, row.b.0 >> 10);
        let counts = format!("{}→{}", row.count_a, row.count_b);
        text += &format!("{:+} {a}→{b} {counts} {}\n", row.change >> 10, row.location);
    }
    text
}

#[test]
fn rows_are_aligned_by_line_and_the_largest_change_is_first() {
    let a = "initial w cuda:0 2KiB
             alloc x cuda:0 4KiB at train.py:3
             alloc y cuda:0 1KiB at train.py:4
             alloc z cuda:0 9KiB at train.py:5";
    let b = "initial w cuda:0 2KiB
             alloc n cuda:0 3KiB at train.py:9
             alloc z cuda:0 1KiB at train.py:5
             alloc x1 cuda:0 4KiB at train.py:3
             alloc x2 cuda:0 4KiB at train.py:3
             backward alloc y cuda:0 1KiB at train.py:4";
    insta::assert_snapshot!(table(a, b, By::Line), @"
    -1 KiB of 16 on cuda:0; 5 rows, 1 unchanged
    -8 9→1 1→1 train.py:5 (main)
    +4 4→8 1→2 train.py:3 (main)
    +3 0→3 0→1 train.py:9 (main)
    +1 0→1 0→1 train.py:4 (main) (backward)
    -1 1→0 1→0 train.py:4 (main)
    ");
}

/// Moving a function down in its file changes none of its rows.
#[test]
fn a_line_is_found_again_below_the_def_of_its_function() {
    let a = "alloc x cpu 1KiB at net.py:12:forward:10
             alloc y cpu 2KiB at net.py:13:forward:10
             alloc u cpu 4KiB at net.py:32:forward:30";
    let b = "alloc x cpu 1KiB at net.py:14:forward:12
             alloc y cpu 3KiB at net.py:15:forward:12
             alloc u cpu 4KiB at net.py:42:forward:40";
    insta::assert_snapshot!(table(a, b, By::Line), @"
    +1 KiB of 7 on cpu; 1 rows, 2 unchanged
    +1 2→3 1→1 net.py:15 (forward)
    ");
}

#[test]
fn a_folder_may_have_moved_and_a_library_may_be_elsewhere() {
    let a = "alloc x cpu 1KiB at /home/ada/job/train.py:3
             alloc y cpu 2KiB at /home/ada/job/data/load.py:4 > /v1/lib/python3.10/site-packages/lib/io.py:7
             alloc z cpu 2KiB at /home/ada/job/eval/load.py:4";
    let b = "alloc x cpu 2KiB at /ci/7/train.py:3
             alloc y cpu 2KiB at /ci/7/data/load.py:4 > /opt/v2/lib/python3.13/site-packages/lib/io.py:7
             alloc z cpu 2KiB at /ci/7/eval/load.py:4";
    for by in [By::Line, By::Stack, By::Tensor] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(table(a, b, by), @"
            +1 KiB of 5 on cpu; 1 rows, 2 unchanged
            +1 1→2 1→1 /ci/7/train.py:3 (main)
            ");
        }
    }
}

const SMALL: &str = "
    unseen cuda:0 1KiB
    initial w cuda:0 2KiB
    label w parameter layers.0.fc.weight (4,4) float32
    alloc h cuda:0 4KiB at model.py:1:f in layers.0.fc op mm
    alloc t cuda:0 1KiB at train.py:7
    backward alloc g cuda:0 2KiB at model.py:1:f in layers.0.fc op mm
    label g gradient layers.0.fc.weight (4,4) float32";

const LARGE: &str = "
    unseen cuda:0 1KiB
    initial w cuda:0 6KiB
    label w parameter layers.0.fc.weight (8,8) float32
    alloc h cuda:0 4KiB at model.py:1:f in layers.0.fc op mm
    alloc h1 cuda:0 4KiB at model.py:1:f in layers.1.fc op mm
    alloc t cuda:0 1KiB at train.py:7
    backward alloc g cuda:0 8KiB at model.py:1:f in layers.0.fc op mm
    label g gradient layers.0.fc.weight (8,8) float32";

#[test]
fn every_grouping_shows_growth() {
    insta::assert_snapshot!(table(SMALL, LARGE, By::Line), @"
    +14 KiB of 10 on cuda:0; 3 rows, 1 unchanged
    +6 2→8 1→1 model.py:1 (f) (backward)
    +4 4→8 1→2 model.py:1 (f)
    +4 3→7 1→1 before recording
    ");
    insta::assert_snapshot!(table(SMALL, LARGE, By::Stack), @"
    +14 KiB of 10 on cuda:0; 3 rows, 2 unchanged
    +6 2→8 1→1 model.py:1 (f) (backward)
    +4 3→7 1→1 before recording
    +4 0→4 0→1 model.py:1 (f)
    ");
    insta::assert_snapshot!(table(SMALL, LARGE, By::Module), @"
    +14 KiB of 10 on cuda:0; 2 rows, 2 unchanged
    +10 8→18 3→3 layers.0.fc
    +4 0→4 0→1 layers.1.fc
    ");
    insta::assert_snapshot!(table(SMALL, LARGE, By::Op), @"
    +14 KiB of 10 on cuda:0; 2 rows, 1 unchanged
    +10 6→16 2→3 mm
    +4 3→7 1→1 before recording
    ");
    insta::assert_snapshot!(table(SMALL, LARGE, By::Phase), @"
    +14 KiB of 10 on cuda:0; 3 rows, 0 unchanged
    +6 2→8 1→1 backward
    +4 5→9 2→3 forward
    +4 3→7 1→1 before recording
    ");
    insta::assert_snapshot!(table(SMALL, LARGE, By::Category), @"
    +14 KiB of 10 on cuda:0; 3 rows, 1 unchanged
    +6 2→8 1→1 gradient
    +4 5→9 2→3 activation
    +4 2→6 1→1 parameter
    ");
    insta::assert_snapshot!(table(SMALL, LARGE, By::Tensor), @"
    +14 KiB of 10 on cuda:0; 3 rows, 2 unchanged
    +6 2→8 1→1 layers.0.fc.weight
    +4 4→8 1→2 model.py:1 (f)
    +4 2→6 1→1 layers.0.fc.weight
    ");
    insta::assert_snapshot!(table(SMALL, LARGE, By::Step), @"
    +14 KiB of 10 on cuda:0; 2 rows, 0 unchanged
    +10 7→17 3→4 (no step finished)
    +4 3→7 1→1 before recording
    ");
}

#[test]
fn a_trace_is_no_different_from_itself() {
    for by in groupings() {
        let same = ask(SMALL, SMALL, &Question { by, ..Question::default() });
        assert_eq!((same.total_rows, same.rows.len(), same.allocated.change), (0, 0, 0));
        assert!(same.unchanged_rows > 0);
    }
}

#[test]
fn rows_left_out_are_counted() {
    let question = Question { top: Some(1), ..Question::default() };
    let part = ask(SMALL, LARGE, &question);
    assert_eq!(part.rows.len(), 1);
    assert_eq!(part.left_out(), (part.total_rows - 1, part.allocated.change - part.rows[0].change));
}

#[test]
fn a_limit_is_of_the_peaks_in_percent_or_in_bytes() {
    let a = "alloc x cuda:0 100MiB\nfree x";
    let b = "alloc x cuda:0 110MiB\nfree x";
    let grown = ask(a, b, &Question { at: At::End, ..Question::default() });
    assert_eq!((grown.allocated.change, grown.allocated.percent), (0, None));
    let peaks = grown.peaks;
    assert_eq!((peaks.allocated.change, peaks.allocated.percent), (10 << 20, Some(10.0)));
    let above = |limit| [peaks.allocated.is_above(limit), peaks.are_above(limit)];
    assert_eq!(above(Limit::Percent(9.9)), [true; 2]);
    assert_eq!(above(Limit::Percent(10.0)), [false; 2]);
    assert_eq!(above(Limit::Bytes(Bytes((10 << 20) - 1))), [true; 2]);
    assert_eq!(above(Limit::Bytes(Bytes(10 << 20))), [false; 2]);
    let shrunk = ask(b, a, &Question::default());
    assert!(!shrunk.peaks.are_above(Limit::Percent(0.0)), "it shrank");
    let from_nothing = ask("alloc x cuda:0 0B", "alloc x cuda:0 1B", &Question::default());
    assert!(from_nothing.peaks.are_above(Limit::Percent(1e9)));
}

#[test]
fn the_trace_without_an_answer_is_named() {
    let (cpu, cuda) = (trace("alloc a cpu 1KiB"), trace("alloc a cuda:0 1KiB"));
    let DiffError { side, source } = diff(&cuda, &cpu, &Question::default()).unwrap_err();
    assert_eq!(side, Side::B);
    assert_eq!(source.to_string(), "nothing was recorded on cuda:0; the trace has cpu");
    let question = Question { device: Some(Device::cuda(0)), ..Question::default() };
    let error = diff(&cpu, &cuda, &question).unwrap_err();
    assert_eq!(error.to_string(), "the first trace has no answer");
    assert_eq!(error.hint(), Some("choose one of them with `--device`"));
}

/// Ranks of one machine each have a GPU of their own.
#[test]
fn ranks_on_different_gpus_can_be_compared() {
    let found = ask("alloc a cuda:0 1KiB", "alloc a cuda:3 3KiB", &Question::default());
    assert_eq!((found.device, found.device_b), (Device::cuda(0), Device::cuda(3)));
    assert_eq!((found.allocated.change, found.peaks.allocated.b), (2048, Bytes(3072)));
}

#[test]
fn the_json_of_a_diff_is_the_contract() {
    let question = Question { top: Some(1), ..Question::default() };
    let actual = serde_json::to_value(ask(SMALL, LARGE, &question)).unwrap();
    assert_eq!(
        actual,
        json!({
            "floodmark": env!("CARGO_PKG_VERSION"), "format": 1, "device": "cuda:0", "device_b": "cuda:0", "by": "line",
            "at": {
                "a": {"what": "peak", "seconds": 0.006, "step": null, "phase": "backward",
                      "module": "layers.0.fc"},
                "b": {"what": "peak", "seconds": 0.007, "step": null, "phase": "backward",
                      "module": "layers.0.fc"},
            },
            "allocated": {"a": 10240, "b": 24576, "change": 14336, "percent": 140.0},
            "active": {"a": 10240, "b": 24576, "change": 14336, "percent": 140.0},
            "reserved": {"a": 2 << 20, "b": 2 << 20, "change": 0, "percent": 0.0},
            "peaks": {
                "allocated": {"a": 10240, "b": 24576, "change": 14336, "percent": 140.0},
                "reserved": {"a": 2 << 20, "b": 2 << 20, "change": 0, "percent": 0.0},
            },
            "losses": {"a": [], "b": []}, "unchanged_rows": 1, "total_rows": 3,
            "rows": [{"change": 6144, "a": 2048, "b": 8192, "count_a": 1, "count_b": 1,
                      "location": "model.py:1 (f) (backward)", "file": "model.py", "line": 1,
                      "function": "f", "backward": true}],
        })
    );
}
