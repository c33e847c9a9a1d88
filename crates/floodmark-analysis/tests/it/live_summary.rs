//! The current state of a program.

use floodmark_analysis::{
    At, Axis, By, Context, Detail, Question, history, history_by_category, live_summary, report,
};
use floodmark_trace::{Bytes, Device};

use crate::trace;

const MIB: u64 = 1 << 20;

const TWO_STEPS: &str = "initial w cuda:0 1MiB
    alloc x cpu 2MiB at train.py:3
    alloc h cuda:0 8MiB at model.py:12:forward in fc
    free h
    optimizer begin
    optimizer end
    alloc h cuda:0 4MiB at model.py:12:forward in fc
    backward alloc g cuda:0 1MiB at model.py:12:forward in fc
    free h
    label g gradient fc.weight
    optimizer begin
    optimizer end
    alloc h cuda:0 2MiB at model.py:12:forward in fc
    oom cuda:0 1GiB at model.py:13";

#[test]
fn the_live_summary_equals_a_report_at_the_end() {
    let trace = trace(TWO_STEPS);
    let found = live_summary(&trace);
    assert_eq!((found.steps, found.events), (2, trace.events.len()));
    let devices: Vec<Device> = found.devices.iter().map(|one| one.device).collect();
    assert_eq!(devices, [Device::CPU, Device::cuda(0)]);
    for one in &found.devices {
        let ask =
            |by| Question { device: Some(one.device), by, at: At::End, ..Question::default() };
        let expected = report(&trace, &ask(By::Category)).unwrap();
        assert_eq!(one.allocated, expected.allocated);
        assert_eq!((one.active, one.reserved), (expected.active, expected.reserved));
        let rows = expected.rows.iter().map(|row| (row.location.as_str(), row.bytes));
        assert!(rows.eq({
            let mut rows: Vec<_> =
                one.categories.iter().map(|(name, bytes)| (*name, *bytes)).collect();
            rows.sort_by_key(|&(name, bytes)| (std::cmp::Reverse(bytes), name));
            rows
        }));
        let steps = report(&trace, &ask(By::Step)).unwrap();
        let last = steps.rows.iter().rev().find_map(|row| {
            let Detail::Step { step: Some(1), peak, .. } = &row.detail else { return None };
            *peak
        });
        assert_eq!(one.last_step_peak, last);
    }
    let cuda = &found.devices[1];
    assert_eq!((cuda.peak, cuda.allocated), (Bytes(9 * MIB), Bytes(4 * MIB)));
    // Before a request fails, cached memory is freed to make room for it.
    assert_eq!((cuda.failed_requests, cuda.retries), (1, Some(1)));
    assert_eq!(found.devices[0].retries, None);
}

#[test]
fn history_has_the_highest_of_each_piece() {
    let trace = trace(
        "alloc a cuda:0 1MiB at a.py:1
        alloc b cuda:0 8MiB at a.py:1
        free b
        alloc x cpu 1MiB at a.py:1
        alloc x2 cpu 1MiB at a.py:1
        alloc c cuda:0 2MiB at a.py:1",
    );
    let cuda = |from, to, pieces| -> Vec<u64> {
        let found = history(&trace, Device::cuda(0), from, to, pieces);
        let context = Context::new(&trace);
        let by = history_by_category(
            &trace,
            &context,
            Device::cuda(0),
            &Axis::of_window(from, to),
            pieces,
        );
        let sums: Vec<Bytes> = by.iter().map(|held| held.iter().copied().sum()).collect();
        assert_eq!(sums, found, "the categories add up to what is allocated");
        found.into_iter().map(|bytes| bytes.0 / MIB).collect()
    };
    // A line takes a millisecond, and the first is at one.
    assert_eq!(cuda(0.001, 0.007, 6), [1, 9, 9, 1, 1, 3]);
    assert_eq!(cuda(0.001, 0.007, 2), [9, 3]);
    assert_eq!(cuda(0.004, 0.006, 2), [1, 3]);
    assert_eq!(cuda(0.0, 0.0, 3), [0, 0, 0]);
    assert!(cuda(0.0, 1.0, 0).is_empty());
}

#[test]
fn events_a_second_are_those_of_the_last_seconds() {
    let found =
        live_summary(&trace("alloc a cpu 1MiB at a.py:1\nfree a\nalloc b cpu 1MiB at a.py:1"));
    assert!((found.events_per_second - 1000.0).abs() < 1.0, "{}", found.events_per_second);
    assert!((live_summary(&trace("")).events_per_second).abs() < 1e-9);
}
