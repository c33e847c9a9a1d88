//! The steps with their times, and what grows with them.

use floodmark_analysis::{Context, QuestionError, Steps, steps as ask};
use floodmark_trace::{Bytes, Device};

use crate::trace;

fn steps(script: &str) -> Steps {
    let trace = trace(script);
    ask(&trace, &Context::new(&trace), None).unwrap()
}

/// Every line of a script takes a millisecond.
#[test]
fn a_step_begins_where_the_last_one_ended() {
    let found = steps(
        "alloc w cuda:0 4MiB at train.py:1
         step
         alloc a cuda:0 2MiB at model.py:2 in layers.0
         backward alloc g cuda:0 1MiB at model.py:2 in layers.0
         free a
         step
         alloc b cuda:0 8MiB",
    );
    let spans: Vec<(u32, f64, f64)> =
        found.steps.iter().map(|step| (step.number, step.from, step.to)).collect();
    assert_eq!(spans, [(0, 0.0, 0.002), (1, 0.002, 0.006), (2, 0.006, 0.007)]);
    let second = &found.steps[1];
    assert_eq!((second.peak, second.peak_seconds), (Bytes(7 << 20), 0.004));
    assert_eq!((second.end, second.growth), (Bytes(5 << 20), Some(1 << 20)));
    let phases: Vec<(&str, u64)> =
        second.phases.iter().map(|phase| (phase.name.as_str(), phase.peak.0 >> 20)).collect();
    assert_eq!(phases, [("forward", 6), ("backward", 7)]);
}

#[test]
fn leaks_are_reported_if_there_are_enough_steps() {
    let few = steps("alloc a cuda:0 1MiB\nstep");
    assert!(few.leaks.is_none());
    assert!(few.leaks_missing.unwrap().starts_with("finished steps in this trace: 1;"));
    let step = |step: u32| format!("alloc a{step} cuda:0 1MiB at leak.py:3\nstep\n");
    let many = steps(&(0..6).map(step).collect::<Vec<_>>().concat());
    assert_eq!(many.leaks.unwrap().rows[0].location, "leak.py:3 (main)");
    assert_eq!(many.leaks_missing, None);
}

#[test]
fn a_program_without_steps_has_none() {
    assert!(steps("alloc a cuda:0 1MiB").steps.is_empty());
}

#[test]
fn a_device_that_was_not_used_is_an_error() {
    let trace = trace("alloc a cuda:0 1MiB");
    let error = ask(&trace, &Context::new(&trace), Some(Device::cuda(3))).unwrap_err();
    assert!(matches!(error, QuestionError::NoSuchDevice { .. }));
}
