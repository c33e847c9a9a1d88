//! The changes between two times of one trace.

use floodmark_analysis::{MomentIndex, RangeBy, RangeChanges, TraceIndex, range_changes};
use floodmark_trace::{Device, Trace};
use proptest::prelude::*;

use crate::laws::program;
use crate::trace;

fn ask(trace: &Trace, device: Device, times: (f64, f64), by: RangeBy) -> RangeChanges {
    let (index, moments) = (TraceIndex::new(trace), MomentIndex::new(trace, device).unwrap());
    range_changes(trace, &index, &moments, times, by, usize::MAX).unwrap()
}

/// The totals, then for each row `net +allocated -freed survivors gone where`, in KiB.
fn picture(found: &RangeChanges) -> String {
    let mut text = format!("{}→{}\n", found.allocated_from.0 >> 10, found.allocated_to.0 >> 10);
    for row in &found.rows {
        let change = row.change;
        let [allocated, freed, survivors, gone] =
            [change.allocated, change.freed, change.survivors, change.gone]
                .map(|amount| format!("{}({})", amount.bytes.0 >> 10, amount.count));
        text += &format!(
            "{:+} +{allocated} -{freed} survivors {survivors} gone {gone} {}\n",
            change.net >> 10,
            row.location
        );
    }
    text
}

const SCRIPT: &str = "initial w cuda:0 2KiB
     alloc old cuda:0 4KiB at train.py:3
     alloc t cuda:0 8KiB at train.py:5
     alloc new cuda:0 1KiB at train.py:4
     free t
     free old
     alloc new2 cuda:0 3KiB at train.py:4
     free w
     alloc late cuda:0 9KiB at train.py:9";

#[test]
fn what_is_live_at_one_time_and_not_at_the_other_is_named_by_line() {
    let trace = trace(SCRIPT);
    let found = ask(&trace, Device::cuda(0), (0.002, 0.008), RangeBy::Line);
    insta::assert_snapshot!(picture(&found), @"
    6→4
    +4 +4(2) -0(0) survivors 4(2) gone 0(0) train.py:4 (main)
    -4 +0(0) -4(1) survivors 0(0) gone 4(1) train.py:3 (main)
    -2 +0(0) -2(1) survivors 0(0) gone 2(1) before recording
    +0 +8(1) -8(1) survivors 0(0) gone 0(0) train.py:5 (main)
    ");
    let (allocation, _) =
        (0_u32..).zip(&trace.allocations).find(|(_, one)| one.rounded.0 == 3 << 10).unwrap();
    let row = found.rows.iter().find(|row| row.location.contains(":4")).unwrap();
    assert_eq!((row.line, row.largest), (Some(4), Some(allocation)));
}

#[test]
fn the_order_of_the_two_times_does_not_matter_and_what_is_after_the_end_is_the_end() {
    let trace = trace(SCRIPT);
    let one = ask(&trace, Device::cuda(0), (0.0, 99.0), RangeBy::Category);
    assert_eq!(one, ask(&trace, Device::cuda(0), (99.0, 0.0), RangeBy::Category));
    assert!((one.to.seconds - trace.end().as_seconds()).abs() < 1e-9);
}

proptest! {
    #[test]
    fn rows_add_up_to_the_change_of_the_total(script in program(), from in 0.0..1.0, to in 0.0..1.0) {
        let trace = trace(&script);
        let end = trace.end().as_seconds();
        for device in trace.devices() {
            for by in [RangeBy::Line, RangeBy::Module, RangeBy::Category] {
                let found = ask(&trace, device, (from * end, to * end), by);
                let change = i128::from(found.allocated_to.0) - i128::from(found.allocated_from.0);
                prop_assert_eq!(i128::from(found.change.net), change);
                prop_assert_eq!(found.rows.iter().map(|row| row.change.net).sum::<i64>(), found.change.net);
                let differs = i128::from(found.change.survivors.bytes.0) - i128::from(found.change.gone.bytes.0);
                prop_assert_eq!(differs, change);
            }
        }
    }
}
