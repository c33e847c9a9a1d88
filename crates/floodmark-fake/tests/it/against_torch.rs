//! Every rule against calls that torch made on a simulated H200 (`fixtures/hidden/calls.jsonl`).

use floodmark_testing::recorded_calls::{Recorded, h200};

const CALLS: &str = include_str!("../../../../fixtures/hidden/calls.jsonl");
const MIB: u64 = 1 << 20;

/// cuDNN's plans are not all like the rule for them.
fn is_a_guess(op: &str) -> bool {
    op.starts_with("aten::convolution")
}

fn calls() -> Vec<Recorded> {
    CALLS.lines().map(|line| Recorded::parse(line).expect("the fixture is whole")).collect()
}

#[test]
fn rules_and_results_come_to_the_peak_of_each_call() {
    let machine = h200();
    let mut wrong = Vec::new();
    for call in calls().iter().filter(|call| !is_a_guess(&call.op)) {
        let (found, expected) = (call.expected(&machine), call.peak);
        if found.abs_diff(expected) > MIB.max(expected / 100) {
            wrong.push(format!("{} {:?}: {found}, torch {expected}", call.op, call.args));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn convolutions_come_near() {
    let machine = h200();
    let (mut off, mut whole) = (0, 0);
    for call in calls().iter().filter(|call| call.op.starts_with("aten::convolution")) {
        off += call.expected(&machine).abs_diff(call.peak);
        whole += call.peak;
    }
    assert!(whole > 0 && off * 100 < whole * 5, "off by {off} of {whole} bytes");
}

#[test]
fn there_are_calls_of_many_operators() {
    let mut ops: Vec<String> = calls().into_iter().map(|call| call.op).collect();
    ops.sort();
    ops.dedup();
    assert!(ops.len() >= 60, "{} operators", ops.len());
}
