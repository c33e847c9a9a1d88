//! Other settings for the same requests: which is best, and whether the rules hold at all.

use floodmark_analysis::{Simulation, SimulationError, SimulationQuestion, simulation};
use floodmark_trace::{Bytes, Hint};

use crate::trace;

const MIB: u64 = 1 << 20;

/// Two segments of 20 MiB for three blocks of 8 MiB, and one of its own for 16 MiB: 56 MiB. Expandable
/// segments take two pages of 20 MiB, and the last block fits behind the others.
pub(crate) const SPREAD: &str = "
    segment A cuda:0 20MiB
    alloc a cuda:0 8MiB on A
    alloc b cuda:0 8MiB on A+8MiB
    segment B cuda:0 20MiB
    alloc c cuda:0 8MiB on B
    segment D cuda:0 16MiB
    alloc d cuda:0 16MiB on D";

fn ask(script: &str, question: &SimulationQuestion) -> Simulation {
    simulation(&trace(script), question).unwrap()
}

fn sweep(memory: Option<u64>) -> SimulationQuestion {
    SimulationQuestion { sweeps: true, memory: memory.map(Bytes), ..SimulationQuestion::default() }
}

#[test]
fn the_best_of_several_reserves_least() {
    let found = ask(SPREAD, &sweep(None));
    assert!(found.is_reproduced);
    assert_eq!(found.recorded.peak_allocated, Bytes(40 * MIB));
    assert_eq!(found.recorded.peak_reserved, Bytes(56 * MIB));
    assert_eq!(
        (found.runs[0].alloc_conf.as_str(), found.runs[0].peak_reserved),
        ("", Bytes(56 * MIB))
    );
    let best = &found.runs[found.best.unwrap()];
    assert_eq!(best.alloc_conf, "expandable_segments:True");
    assert_eq!((best.peak_reserved, best.waste), (Bytes(40 * MIB), Bytes(0)));
}

#[test]
fn a_failing_run_is_not_the_best() {
    let conf = |text: &str| text.to_owned();
    let alloc_confs = vec![conf(""), conf("expandable_segments:True")];
    let question = |mib: u64| SimulationQuestion {
        alloc_confs: alloc_confs.clone(),
        memory: Some(Bytes(mib * MIB)),
        ..SimulationQuestion::default()
    };
    let found = ask(SPREAD, &question(50));
    let failed = found.runs[0].oom.as_ref().unwrap();
    assert_eq!(failed.requested, Bytes(16 * MIB));
    // What was reserved before it failed is less: it does not count.
    assert_eq!(found.runs[0].peak_reserved, Bytes(40 * MIB));
    assert_eq!((found.runs[0].retries, found.best), (1, Some(1)));
    assert_eq!(ask(SPREAD, &question(20)).best, None);
    assert_eq!(ask(SPREAD, &SimulationQuestion::default()).best, None, "there is one only");
}

#[test]
fn of_equals_the_first_is_best() {
    let alloc_confs = ["max_split_size_mb:128", "max_split_size_mb:256"].map(str::to_owned).into();
    let question = SimulationQuestion { alloc_confs, ..SimulationQuestion::default() };
    let found = ask(SPREAD, &question);
    assert_eq!(found.runs[0].peak_reserved, found.runs[1].peak_reserved);
    assert_eq!(found.best, Some(0));
}

#[test]
fn a_recording_that_the_rules_do_not_explain_is_not_reproduced() {
    let odd = SPREAD.replace("segment D cuda:0 16MiB", "segment D cuda:0 18MiB");
    let found = ask(&odd, &SimulationQuestion::default());
    assert!(!found.is_reproduced);
    assert_eq!(found.recorded.peak_reserved, Bytes(58 * MIB));
    assert_eq!(found.runs[0].peak_reserved, Bytes(56 * MIB));
}

#[test]
fn a_recorded_failure_fails_again_where_nothing_changes() {
    let script = format!("{SPREAD}\n oom cuda:0 32MiB");
    let found = ask(&script, &SimulationQuestion::default());
    assert!(found.is_reproduced);
    assert_eq!(found.recorded.memory, Some(Bytes(56 * MIB)), "as the recording shows");
    assert_eq!(found.runs[0].oom, found.recorded.oom);
    assert_eq!(found.runs[0].retries, found.recorded.retries);
    let more =
        SimulationQuestion { memory: Some(Bytes(88 * MIB)), ..SimulationQuestion::default() };
    assert_eq!(ask(&script, &more).runs[0].oom, None);
}

#[test]
fn a_fraction_is_of_something() {
    let alloc_confs = vec!["per_process_memory_fraction:0.5".to_owned()];
    let mut question = SimulationQuestion { alloc_confs, ..SimulationQuestion::default() };
    let error = simulation(&trace(SPREAD), &question).unwrap_err();
    assert_eq!(error, SimulationError::FractionOfNothing);
    assert!(error.hint().is_some());
    question.memory = Some(Bytes(100 * MIB));
    let run = &ask(SPREAD, &question).runs[0];
    assert_eq!(run.memory, Some(Bytes(50 * MIB)));
    assert!(run.oom.is_some());
}
