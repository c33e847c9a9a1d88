//! What grows from step to step.

use floodmark_analysis::{Leaks, QuestionError, leaks};
use floodmark_trace::Hint;

use crate::trace;

/// Steps that train: an activation and a gradient each, and what `more` adds to step `n`.
fn steps(count: u32, more: impl Fn(u32) -> String) -> String {
    let mut script = String::from("initial w cpu 8KiB\n");
    for n in 0..count {
        script += &format!("alloc h{n} cpu 4KiB at m.py:1 in fc\n");
        if n > 0 {
            script += &format!("free g{}\nfree loss{}\n", n - 1, n - 1);
        }
        script += &format!("alloc loss{n} cpu 1KiB at t.py:2\n");
        script += &format!("backward alloc g{n} cpu 2KiB at m.py:1 in fc\n");
        script += &format!("free h{n}\n{}\noptimizer begin\n", more(n));
        if n == 0 {
            script += "alloc state cpu 8KiB at o.py:1:step\n";
        }
        script += "optimizer end\n";
    }
    script
}

fn ask(script: &str) -> Leaks {
    leaks(&trace(script), None, None).unwrap()
}

fn picture(leaks: &Leaks) -> String {
    let mut text = format!("{} steps, {:+}\n", leaks.steps, leaks.growth);
    for leak in &leaks.rows {
        text += &format!(
            "{} a step, {} in {} of {} since {}, holds {} ({:+} blocks), {} in {} at {}\n",
            leak.bytes_per_step,
            leak.growth,
            leak.grew,
            leak.steps,
            leak.since,
            leak.bytes,
            leak.count,
            leak.category,
            leak.module.as_deref().unwrap_or("-"),
            leak.location
        );
    }
    text
}

#[test]
fn steps_that_free_their_allocations_have_no_suspects() {
    insta::assert_snapshot!(picture(&ask(&steps(6, |_| String::new()))), @"5 steps, +0");
}

#[test]
fn a_line_that_keeps_a_block_in_every_step_is_a_suspect() {
    let script = steps(6, |n| {
        format!(
            "alloc k{n} cpu 1KiB at t.py:9 > log.py:4:keep\nalloc p{n} cpu 3KiB at m.py:7 in fc"
        )
    });
    let found = ask(&script);
    insta::assert_snapshot!(picture(&found), @"
    5 steps, +20480
    3.000 KiB a step, 15.00 KiB in 5 of 5 since 1, holds 18.00 KiB (+5 blocks), unknown in fc at m.py:7 (main)
    1.000 KiB a step, 5.000 KiB in 5 of 5 since 1, holds 6.000 KiB (+5 blocks), unknown in - at log.py:4 (keep)
    ");
    let frames: Vec<String> = found.rows[1].frames.iter().map(ToString::to_string).collect();
    assert_eq!(frames, ["log.py:4 (keep)", "t.py:9 (main)"]);
}

/// `seen = torch.cat([seen, new])`: one block, larger each time.
#[test]
fn a_block_that_is_replaced_by_a_larger_one_is_a_suspect() {
    let script = steps(5, |n| {
        let free = if n > 0 { format!("free s{}\n", n - 1) } else { String::new() };
        format!("alloc s{n} cpu {}KiB at t.py:9\n{free}", n + 1)
    });
    insta::assert_snapshot!(picture(&ask(&script)), @"
    4 steps, +4096
    1.000 KiB a step, 4.000 KiB in 4 of 4 since 1, holds 5.000 KiB (+0 blocks), unknown in - at t.py:9 (main)
    ");
}

#[test]
fn growth_may_begin_late_and_miss_a_step() {
    let keep = |n| format!("alloc k{n} cpu 1KiB at t.py:9");
    let late = steps(9, |n| if n >= 4 { keep(n) } else { String::new() });
    insta::assert_snapshot!(picture(&ask(&late)), @"
    8 steps, +5120
    1.000 KiB a step, 5.000 KiB in 5 of 5 since 4, holds 5.000 KiB (+5 blocks), unknown in - at t.py:9 (main)
    ");
    let missing = steps(21, |n| if n == 7 { String::new() } else { keep(n) });
    insta::assert_snapshot!(picture(&ask(&missing)), @"
    20 steps, +19456
    972 B a step, 19.00 KiB in 19 of 20 since 1, holds 20.00 KiB (+19 blocks), unknown in - at t.py:9 (main)
    ");
}

/// A cache of each evaluation, which comes after every third step.
#[test]
fn growth_in_every_third_step_is_a_suspect() {
    let evaluation = |at: u32, every: u32| {
        let is_due = at % every == every - 1;
        if is_due { format!("alloc k{at} cpu 2KiB at eval.py:9:evaluate") } else { String::new() }
    };
    let found = ask(&steps(24, |at| evaluation(at, 3)));
    let [leak] = &found.rows[..] else { panic!("{}", picture(&found)) };
    assert_eq!((leak.grew, leak.since, leak.steps), (8, 2, 22));
    // Three times are too few to call it a rule, and what stopped long ago grows no more.
    assert!(ask(&steps(24, |at| evaluation(at, 8))).rows.is_empty());
    let stopped = |at| if at < 12 { evaluation(at, 3) } else { String::new() };
    assert!(ask(&steps(24, stopped)).rows.is_empty());
}

/// A list that is filled and cleared, a cache that fills up, something in a few steps.
#[test]
fn lines_that_stop_growing_or_free_are_no_suspects() {
    let keep = |n| format!("alloc k{n} cpu 1KiB at t.py:9");
    let cleared = steps(13, |n| {
        let frees = (n.saturating_sub(5)..n).map(|n| format!("free k{n}\n"));
        if n % 6 == 5 { frees.collect::<Vec<_>>().concat() } else { keep(n) }
    });
    let filled = steps(12, |n| if n < 6 { keep(n) } else { String::new() });
    let sometimes = steps(12, |n| if n % 5 == 0 { keep(n) } else { String::new() });
    for script in [cleared, filled, sometimes] {
        assert_eq!(ask(&script).rows, []);
    }
}

/// Allocations of an unfinished last step are ignored.
#[test]
fn an_unfinished_step_is_ignored() {
    let mut script = steps(5, |n| format!("alloc k{n} cpu 1KiB at t.py:9"));
    let whole = ask(&script);
    script += "alloc more cpu 9KiB at t.py:9\nfree k3\nfree k4\n";
    assert_eq!(ask(&script).rows, whole.rows);
}

#[test]
fn too_few_steps_are_no_answer() {
    let error = leaks(&trace(&steps(3, |_| String::new())), None, None).unwrap_err();
    assert_eq!(error, QuestionError::TooFewSteps { finished: 3, needed: 4 });
    insta::assert_snapshot!(format!("{error} | {}", error.hint().unwrap()), @"finished steps in this trace: 3; at least 4 are needed to show growth | record more steps; without an optimizer, call `floodmark.step()` after each");
    let error = leaks(&trace("alloc a cpu 1KiB"), Some("cuda:1".parse().unwrap()), None);
    assert!(matches!(error, Err(QuestionError::NoSuchDevice { .. })));
}

#[test]
fn the_json_of_leaks_is_the_contract() {
    let script =
        steps(5, |n| format!("alloc k{n} cpu 1KiB at t.py:9\nalloc j{n} cpu 1KiB at t.py:8"));
    let actual = leaks(&trace(&script), None, Some(1)).unwrap();
    assert_eq!(
        serde_json::to_value(actual).unwrap(),
        serde_json::json!({
            "floodmark": env!("CARGO_PKG_VERSION"), "format": 1, "device": "cpu", "steps": 4,
            "growth": 8192, "kv_cache_per_step": null,
            "growth": 8192, "losses": [], "total_rows": 2,
            "rows": [{
                "bytes_per_step": 1024, "growth": 4096, "bytes": 5120, "count": 4, "since": 1,
                "steps": 4, "grew": 4, "category": "unknown", "location": "t.py:8 (main)",
                "file": "t.py", "line": 8, "function": "main", "module": null, "backward": false,
                "frames": [{"file": "t.py", "line": 8, "function": "main"}],
            }],
        })
    );
}
