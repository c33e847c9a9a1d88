//! The levels of a device over time.

use floodmark_analysis::{At, MarkerKind, Question, curve, levels_at_steps, report};
use floodmark_trace::Bytes;

use crate::trace;

const STEPS: &str = "alloc x cuda:0 1MiB at train.py:3
    alloc h cuda:0 8MiB at model.py:12:forward in fc
    backward alloc g cuda:0 4MiB at model.py:12:forward in fc
    free h deferred
    optimizer begin
    alloc m cuda:0 2MiB at torch/optim/adam.py:40:step
    optimizer end
    complete h
    free x";

#[test]
fn steps_end_at_torchs_totals() {
    let found = levels_at_steps(&trace(STEPS), None).unwrap();
    assert_eq!(found.len(), 1);
    let end = found[0];
    assert_eq!(end.allocated, Bytes(7 << 20));
    assert_eq!(end.active, Some(Bytes(15 << 20)));
    assert_eq!(end.reserved, Some(Bytes(14 << 20)));
}

#[test]
fn stretches_follow_the_phases_of_the_program() {
    let found = curve(&trace(STEPS), None, 100).unwrap();
    let actual: Vec<(&str, f64, f64)> =
        found.stretches.iter().map(|one| (one.name, one.from, one.to)).collect();
    assert_eq!(
        actual,
        [("forward", 0.002, 0.003), ("backward", 0.003, 0.006), ("optimizer", 0.006, 0.007)]
    );
    assert_eq!(found.markers.len(), 1);
    assert_eq!(
        (found.markers[0].kind.clone(), &*found.markers[0].name),
        (MarkerKind::Step, "step 0")
    );
}

/// The first request of the backward pass may be the one that fails.
#[test]
fn a_failed_request_begins_its_phase() {
    let found = curve(
        &trace(
            "alloc h cuda:0 8MiB at model.py:12:forward in fc
             backward oom cuda:0 1GiB at model.py:12:forward in fc left 512MiB",
        ),
        None,
        100,
    )
    .unwrap();
    let names: Vec<&str> = found.stretches.iter().map(|one| one.name).collect();
    assert_eq!(names, ["forward", "backward"]);
}

/// However few points are kept, the highest is among them, and they are in order.
#[test]
fn the_peak_survives_thinning() {
    let mut script = String::new();
    for at in 0..400 {
        let size = if at == 237 { 900 } else { 1 + at % 7 };
        script += &format!("alloc a{at} cuda:0 {size}KiB\nfree a{at}\n");
    }
    let trace = trace(&script);
    let peak = report(&trace, &Question { at: At::Peak, ..Question::default() }).unwrap();
    for most in [4, 40, 10_000] {
        let found = curve(&trace, None, most).unwrap();
        assert!(found.points.len() <= most.max(4) + 8, "{} of {most}", found.points.len());
        let highest = found.points.iter().max_by_key(|levels| levels.allocated).unwrap();
        assert_eq!(highest.allocated, peak.allocated);
        assert!((highest.seconds - found.peak.seconds).abs() < 1e-9);
        assert!(found.points.is_sorted_by_key(|levels| levels.seconds));
    }
}
