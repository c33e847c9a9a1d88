//! The background of a picture over time.

use floodmark_analysis::{MarkerKind, QuestionError, TraceIndex, bands};
use floodmark_trace::Device;

use crate::trace;

#[test]
fn steps_follow_each_other_and_marks_have_names() {
    let trace = trace(
        "alloc a cuda:0 1MiB at m.py:1 in fc
         step
         phase begin evaluation
         oom cuda:0 1GiB at m.py:2
         phase end
         step",
    );
    let found = bands(&trace, &TraceIndex::new(&trace), Device::cuda(0)).unwrap();
    let steps: Vec<(u32, f64, f64)> =
        found.steps.iter().map(|step| (step.number, step.from, step.to)).collect();
    assert_eq!(steps, [(0, 0.0, 0.002), (1, 0.002, 0.006)]);
    let markers: Vec<(MarkerKind, &str)> =
        found.markers.iter().map(|one| (one.kind.clone(), &*one.name)).collect();
    assert_eq!(markers, [(MarkerKind::Phase, "evaluation"), (MarkerKind::Oom, "out of memory")]);
    assert_eq!(found.stretches.len(), 1);
    assert_eq!(found.skipped, 0);
}

#[test]
fn a_step_that_did_not_finish_is_the_last_and_says_so() {
    let steps = |script: &str| -> Vec<(u32, bool, f64)> {
        let trace = trace(script);
        let found = bands(&trace, &TraceIndex::new(&trace), Device::cuda(0)).unwrap();
        found.steps.iter().map(|step| (step.number, step.is_finished, step.to)).collect()
    };
    let failed = "alloc a cuda:0 1MiB\nstep\nalloc b cuda:0 1MiB\noom cuda:0 1GiB";
    assert_eq!(steps(failed), [(0, true, 0.002), (1, false, 0.004)]);
    // Nothing was allocated after the last step: the program ended there.
    assert_eq!(steps("alloc a cuda:0 1MiB\nstep\nfree a"), [(0, true, 0.002)]);
    // Another device's allocations are no part of it.
    assert_eq!(steps("alloc a cuda:0 1MiB\nstep\nalloc b cpu 1MiB"), [(0, true, 0.002)]);
    // Without a step that ended there are no steps.
    assert_eq!(steps("alloc a cuda:0 1MiB"), []);
}

#[test]
fn what_is_left_out_of_many_is_counted_and_failures_stay() {
    let mut script = String::from("alloc a cuda:0 1MiB\n");
    for n in 0..7000 {
        script += &format!("step\nphase begin p{}\nphase end\n", n % 3);
    }
    script += "oom cuda:0 1GiB\n";
    let trace = trace(&script);
    let found = bands(&trace, &TraceIndex::new(&trace), Device::cuda(0)).unwrap();
    assert_eq!(found.skipped, 1000 + 1001);
    assert_eq!(found.markers.last().map(|one| one.kind.clone()), Some(MarkerKind::Oom));
    assert!(found.steps.is_sorted_by_key(|step| step.number));
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let trace = trace("alloc a cuda:0 1MiB");
    let error = bands(&trace, &TraceIndex::new(&trace), Device::cuda(3)).unwrap_err();
    assert!(matches!(error, QuestionError::NoSuchDevice { .. }));
}
