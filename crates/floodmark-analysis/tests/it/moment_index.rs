//! The same answers, with an index and without one.

use floodmark_analysis::{At, MomentIndex, Question, TraceIndex, report, report_with};
use floodmark_trace::Trace;
use proptest::prelude::*;

use crate::laws::program;
use crate::timeline::long;
use crate::{groupings, trace};

fn check(trace: &Trace, parts: u32) {
    let index = TraceIndex::new(trace);
    let end = trace.end().as_seconds();
    for device in trace.devices() {
        let moments = MomentIndex::new(trace, device).unwrap();
        assert_eq!(moments.device(), device);
        let times = (0..=parts).map(|part| At::Seconds(end * f64::from(part) / f64::from(parts)));
        for at in times.chain([At::Peak, At::End]) {
            for by in groupings() {
                let question = Question { device: Some(device), by, at, ..Question::default() };
                let expected = report(trace, &question).unwrap();
                assert_eq!(report_with(trace, &index, &moments, &question).unwrap(), expected);
            }
        }
    }
}

/// Long enough for several lists of what is there.
#[test]
fn an_index_changes_no_report() {
    check(&trace(&long()), 16);
}

#[test]
fn a_failed_request_is_found_with_an_index_too() {
    let trace = trace("alloc a cuda:0 1MiB at m.py:1\noom cuda:0 1GiB at m.py:2\nfree a");
    let (index, question) =
        (TraceIndex::new(&trace), Question { at: At::Oom, ..Question::default() });
    let moments = MomentIndex::new(&trace, "cuda:0".parse().unwrap()).unwrap();
    let actual = report_with(&trace, &index, &moments, &question).unwrap();
    assert_eq!(actual, report(&trace, &question).unwrap());
    assert_eq!(actual.rows.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever the program does.
    #[test]
    fn an_index_changes_no_report_of_any_program(script in program()) {
        check(&trace(&script), 4);
    }
}
