//! How long an answer takes.

use std::time::{Duration, Instant};

use floodmark_analysis::{Question, diff, leaks, report};

use crate::{groupings, trace};

/// The budget is for a release build: `cargo test --release -- --ignored`.
#[test]
#[ignore = "takes seconds, and means something in a release build alone"]
fn an_answer_on_a_million_events_takes_a_tenth_of_a_second() {
    let mut script = String::new();
    for step in 0..500 {
        for n in 0..498 {
            let layer = n % 48;
            script += &format!("alloc f{step}.{n} cuda:0 4KiB at m.py:{n} in layers.{layer}.mlp\n");
        }
        for n in 0..498 {
            script += &format!("backward alloc b{step}.{n} cuda:0 4KiB at m.py:{n} in layers.3\n");
            script += &format!("free f{step}.{n}\n");
            if step % 50 > 0 {
                script += &format!("free b{step}.{n}\n");
            }
        }
        script += "optimizer begin\noptimizer end\n";
    }
    let trace = trace(&script);
    assert!(trace.events.len() > 990_000, "{}", trace.events.len());
    let mut slow = Vec::new();
    for by in groupings() {
        let question = Question { by, top: Some(25), ..Question::default() };
        let begin = Instant::now();
        report(&trace, &question).unwrap();
        slow.push((by, begin.elapsed()));
    }
    let begin = Instant::now();
    leaks(&trace, None, None).unwrap();
    assert!(begin.elapsed() < Duration::from_millis(150), "leaks: {:?}", begin.elapsed());
    let begin = Instant::now();
    diff(&trace, &trace, &Question::default()).unwrap();
    assert!(begin.elapsed() < Duration::from_millis(300), "diff: {:?}", begin.elapsed());
    let limit = Duration::from_millis(150);
    assert!(slow.iter().all(|(_, took)| *took < limit), "{slow:?}");
}
