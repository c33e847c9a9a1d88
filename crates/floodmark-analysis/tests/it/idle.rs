//! Memory that is live from long before the peak until long after it.

use floodmark_analysis::{QuestionError, idle};
use floodmark_trace::AllocationId;

use crate::trace;

/// A line takes a millisecond: the peak is at 51 of 100, and a twentieth of the recording is 5.
fn script() -> String {
    let pause = |from: u32, to: u32| {
        let lines = (from..to).map(|n| {
            format!(
                "alloc p{n} cpu 1KiB at p.py:1
free p{n}
"
            )
        });
        lines.collect::<Vec<_>>().concat()
    };
    let head = "initial w cpu 4KiB
                alloc table cpu 64KiB at t.py:1
                alloc short cpu 32KiB at t.py:2
                alloc once cpu 16KiB at t.py:3
                label table buffer table
                ";
    format!(
        "{head}{}alloc late cpu 8KiB at t.py:4
         alloc peak cpu 512KiB at t.py:5
         free short
         free peak
         {}free table
         {}alloc end cpu 1KiB at t.py:9",
        pause(0, 22),
        pause(22, 40),
        pause(40, 44)
    )
}

#[test]
fn idle_is_old_at_the_peak_and_stays() {
    let found = idle(&trace(&script()), None).unwrap();
    let mut text =
        format!("{} of {} at {:.3} s\n", found.bytes, found.at.allocated, found.at.seconds);
    for row in &found.rows {
        text += &format!(
            "{} for {:.2} ×{} {} {}\n",
            row.bytes, row.fraction, row.count, row.category, row.location
        );
    }
    insta::assert_snapshot!(text, @"
    84.00 KiB of 636.0 KiB at 0.051 s
    64.00 KiB for 0.89 ×1 buffer t.py:1 (main)
    16.00 KiB for 0.96 ×1 unknown t.py:3 (main)
    4.000 KiB for 1.00 ×1 unknown before recording
    ");
    assert_eq!(found.rows[0].allocations, [AllocationId(1)]);
}

#[test]
fn without_allocations_there_is_no_peak() {
    assert_eq!(idle(&trace("step"), None), Err(QuestionError::NothingAllocated));
}
