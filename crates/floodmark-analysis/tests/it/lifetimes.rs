//! When tensors were made, saved, last used and freed.

use floodmark_analysis::{
    Lifetimes, MomentIndex, QuestionError, TraceIndex, lifetimes, tensor_lifetimes,
};
use floodmark_trace::{Bytes, Device, Trace};
use proptest::prelude::*;

use crate::laws::program;
use crate::trace;

fn ask(trace: &Trace, device: Device, from: f64, to: f64, top: usize) -> Lifetimes {
    let (index, moments) = (TraceIndex::new(trace), MomentIndex::new(trace, device).unwrap());
    lifetimes(trace, &index, &moments, from, to, top).unwrap()
}

#[test]
fn an_activation_is_retained_until_its_backward_begins() {
    let trace = trace(
        "alloc h cuda:0 8KiB at m.py:1 in fc
         alloc t cuda:0 1KiB at m.py:2 in act
         free t
         backward alloc g cuda:0 4KiB at m.py:1 in fc
         free h
         optimizer begin
         optimizer end",
    );
    let found = ask(&trace, Device::cuda(0), 0.0, 1.0, 9);
    let modules: Vec<(&str, usize)> =
        found.rows.iter().map(|row| (&*row.module, row.tensors.len())).collect();
    assert_eq!(modules, [("fc", 2), ("act", 1)]);
    let kept = &found.rows[0].tensors[0];
    assert_eq!((kept.name.as_str(), kept.category), ("m.py:1 (main)", "activation"));
    // The trace has no event that autograd saved it.
    assert_eq!((kept.saved_seconds, kept.last_use_seconds), (None, None));
    assert_eq!(
        (kept.allocated_seconds, kept.retained_until_seconds, kept.freed_seconds),
        (0.001, Some(0.004), Some(0.005))
    );
    assert_eq!(kept.phase.as_deref(), Some("forward"));
    let gradient = &found.rows[0].tensors[1];
    assert_eq!(
        (gradient.saved_seconds, gradient.retained_until_seconds, gradient.freed_seconds),
        (None, None, None)
    );
}

#[test]
fn a_life_has_the_times_of_autograd() {
    let trace = trace(
        "initial w cuda:0 2KiB
         label w parameter fc.weight
         alloc x cuda:0 1KiB
         alloc h cuda:0 8KiB at m.py:1 in fc
         save x
         save w
         save h
         backward alloc g cuda:0 4KiB at m.py:1 in fc
         unpack h
         unpack h
         unpack x
         free h
         save x
         unpack w",
    );
    let lives = tensor_lifetimes(&trace, Some(Device::cuda(0)));
    let times: Vec<_> = lives
        .iter()
        .map(|one| {
            (
                one.life.allocated_seconds,
                one.life.saved_seconds,
                one.life.last_use_seconds,
                one.life.freed_seconds,
            )
        })
        .collect();
    let at = |millis: f64| Some(millis / 1000.0);
    assert_eq!(
        times,
        [
            (0.0, at(6.0), at(14.0), None),
            (0.003, at(5.0), at(11.0), None),
            (0.004, at(7.0), at(10.0), at(12.0)),
            (0.008, None, None, None),
        ]
    );
    let what: Vec<_> = lives
        .iter()
        .map(|one| (one.module.as_deref(), one.life.name.as_str(), one.life.category))
        .collect();
    assert_eq!(
        what,
        [
            (Some("fc"), "fc.weight", "parameter"),
            (None, "no Python frame: thread 0", "input"),
            (Some("fc"), "m.py:1 (main)", "activation"),
            (Some("fc"), "m.py:1 (main) (backward)", "unknown"),
        ]
    );
    assert_eq!(tensor_lifetimes(&trace, None).len(), 4);
    assert_eq!(tensor_lifetimes(&trace, Some(Device::CPU)).len(), 0);
}

#[test]
fn smaller_tensors_are_counted() {
    let trace =
        trace("alloc a cuda:0 1KiB\nalloc b cuda:0 4KiB\nalloc c cuda:0 2KiB\nalloc d cuda:0 4KiB");
    let found = ask(&trace, Device::cuda(0), 0.0, 1.0, 2);
    let ids: Vec<u32> = found.rows[0].tensors.iter().map(|one| one.id).collect();
    assert_eq!(ids, [1, 3]);
    assert_eq!((found.left_out.count, found.left_out.bytes), (2, Bytes(3 << 10)));
    assert_eq!(ask(&trace, Device::cuda(0), 0.0, 1.0, 0).left_out.count, 4);
    let (index, moments) =
        (TraceIndex::new(&trace), MomentIndex::new(&trace, Device::cuda(0)).unwrap());
    let late = lifetimes(&trace, &index, &moments, 9.0, 10.0, 2).unwrap_err();
    assert!(matches!(late, QuestionError::AfterEnd { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// What was live in a stretch of time, allocation by allocation.
    #[test]
    fn every_live_allocation_is_listed(script in program(), from in 0..8_u32, to in 0..8_u32) {
        let trace = trace(&script);
        let end = trace.end().as_seconds();
        let (from, to) = (f64::from(from.min(to)) * end / 8.0, f64::from(from.max(to)) * end / 8.0);
        for device in trace.devices() {
            let found = ask(&trace, device, from, to, usize::MAX);
            let mut ids: Vec<usize> =
                found.rows.iter().flat_map(|row| &row.tensors).map(|one| one.id as usize).collect();
            ids.sort_unstable();
            let seconds = |event: u32| trace.events[event as usize].time.as_seconds();
            let was_there = |id: &usize| {
                let one = &trace.allocations[*id];
                let is_made = one.before_recording || seconds(one.made_at) <= to;
                let is_gone = one.freed_at.is_some_and(|freed| seconds(freed.get()) <= from);
                one.device == device && is_made && !is_gone
            };
            let expected: Vec<usize> = (0..trace.allocations.len()).filter(was_there).collect();
            prop_assert_eq!(ids, expected);
            prop_assert_eq!(found.left_out.count, 0);
        }
    }
}
