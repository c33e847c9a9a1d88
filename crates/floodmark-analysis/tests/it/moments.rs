//! Peak, failed request, end, a time.

use floodmark_analysis::{
    At, Context, Moment, Question, QuestionError, default_device, moment, report, summary,
};
use floodmark_trace::{Bytes, Device, Hint, Trace};

use crate::trace;

fn at(trace: &Trace, device: &str, at: &str) -> Result<Moment, QuestionError> {
    moment(trace, &Context::new(trace), device.parse().unwrap(), at.parse().unwrap())
}

const TRAINING: &str = "
    unseen cuda:0 1MiB
    initial w cuda:0 1MiB
    alloc a cuda:0 4MiB asking 3MiB at train.py:1 in layers.0
    backward alloc b cuda:0 8MiB at train.py:1 in layers.0
    free a
    free-unknown cuda:0 1MiB
    alloc c cpu 1MiB at train.py:2
    free b
    oom cuda:0 1GiB at train.py:3
    alloc d cuda:0 13MiB at train.py:4";

/// A block that another stream still uses is active and requested, but no longer allocated.
#[test]
fn a_deferred_free_stays_active_until_it_is_completed() {
    let trace = trace(
        "alloc a cuda:0 4MiB asking 3MiB at train.py:1
         alloc b cuda:0 1MiB asking 1MiB at train.py:2
         free a deferred",
    );
    let end = at(&trace, "cuda:0", "end").unwrap();
    assert_eq!((end.allocated, end.active), (Bytes(1 << 20), Some(Bytes(5 << 20))));
    assert_eq!(end.requested, Some(Bytes(4 << 20)));
}

#[test]
fn the_peak_is_the_first_moment_of_the_maximum() {
    let trace = trace(TRAINING);
    let peak = at(&trace, "cuda:0", "peak").unwrap();
    assert_eq!((peak.allocated, peak.reserved), (Bytes(14 << 20), Some(Bytes(14 << 20))));
    assert_eq!((peak.seconds, peak.step), (0.004, None));
    assert_eq!(
        (peak.phase.as_deref(), peak.module.as_deref()),
        (Some("backward"), Some("layers.0"))
    );
    assert_eq!(peak.requested, None, "requested bytes from before the recording are unknown");
    assert_eq!(at(&trace, "cpu", "peak").unwrap().reserved, None);
}

#[test]
fn a_moment_counts_what_happened_up_to_it() {
    let trace = trace(TRAINING);
    let allocated = |when| at(&trace, "cuda:0", when).unwrap().allocated.0 >> 20;
    assert_eq!(
        ["0", "0.003", "0.0049", "0.005", "0.006", "end"].map(allocated),
        [2, 6, 14, 10, 9, 14]
    );
    assert_eq!(at(&trace, "cuda:0", "end").unwrap().requested, Some(Bytes(14 << 20)));
}

#[test]
fn a_failed_request_is_shown_with_what_was_there_before_it() {
    let oom = at(&trace(TRAINING), "cuda:0", "oom").unwrap();
    assert_eq!(oom.allocated, Bytes(1 << 20));
    let request = oom.request.unwrap();
    assert_eq!(
        (request.bytes, request.location.as_deref()),
        (Bytes(1 << 30), Some("train.py:3 (main)"))
    );
}

#[test]
fn the_device_is_the_fullest_that_is_not_the_cpu() {
    let trace = trace(
        "alloc a cpu 9MiB
         alloc b cuda:0 1MiB
         alloc c cuda:1 2MiB
         oom cuda:0 1GiB",
    );
    assert_eq!(default_device(&trace, At::Peak), Ok(Device::cuda(1)));
    assert_eq!(default_device(&trace, At::Oom), Ok(Device::cuda(0)));
}

#[test]
fn a_question_without_an_answer_says_why() {
    let trace = trace("alloc a cpu 1KiB");
    let errors = [
        at(&trace, "cuda:1", "peak").unwrap_err(),
        at(&trace, "cpu", "oom").unwrap_err(),
        at(&trace, "cpu", "7.5").unwrap_err(),
        report(&crate::trace("step"), &Question::default()).unwrap_err(),
        at(&crate::trace("oom cuda:0 1GiB"), "cpu", "oom").unwrap_err(),
    ];
    let actual: Vec<String> =
        errors.iter().map(|error| format!("{error} | {}", error.hint().unwrap_or("-"))).collect();
    insta::assert_snapshot!(actual.join("\n"), @"
    nothing was recorded on cuda:1; the trace has cpu | choose one of them with `--device`
    no allocation failed in this trace | `floodmark report --at peak` shows the peak
    7.5 s is after the end of the recording, which is 0.001 s long | `--at end` shows the end
    the trace has no allocations | did the program use torch? `floodmark info` shows what was recorded
    no allocation failed on cpu; one failed on cuda:0 | choose that one with `--device`
    ");
}

#[test]
fn every_part_of_a_recording_is_refused_in_a_sentence_or_says_what_is_missing() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/page/plan.flood");
    let whole = std::fs::read(path).unwrap();
    let missing =
        "the recording is not finished: what came after the last flush is not in the file";
    let (mut nothing, mut part) = (0, 0);
    // Every byte of the beginning and the end, and some between.
    let near = 3000.min(whole.len() / 2);
    let between = (near..whole.len() - near).step_by(997);
    for end in (0..near).chain(between).chain(whole.len() - near..whole.len() - 1) {
        let trace = match floodmark_trace::read_trace(&whole[..end], &[]) {
            Ok(trace) => trace,
            Err(error) => {
                assert_eq!((nothing, part), (0, 0), "{end}: {error}");
                assert!(error.hint().is_some(), "{end}: {error}");
                continue;
            }
        };
        let is_unfinished = trace.losses.0.iter().any(|loss| loss.to_string() == missing);
        // Behind the ending there are stored answers alone.
        assert!(is_unfinished || part > 0, "{end}");
        match report(&trace, &Question::default()) {
            Ok(_) => part += 1,
            Err(error) => {
                assert_eq!(part, 0, "{end}: {error}");
                let expected = format!("no allocation is left in the trace: {missing}");
                assert_eq!(error.to_string(), expected, "{end}");
                nothing += 1;
                let error = at(&trace, "cuda:0", "oom").unwrap_err();
                assert_eq!(error.to_string(), expected, "{end}");
            }
        }
    }
    assert!(nothing > 10 && part > 10, "{nothing} {part}");
}

#[test]
fn a_time_is_given_as_a_word_or_seconds() {
    let parse = |text: &str| text.parse::<At>().ok();
    assert_eq!(parse("1.25"), Some(At::Seconds(1.25)));
    for text in ["1.25s", "1.25 s", "1250ms", "1250 ms"] {
        assert_eq!(parse(text), Some(At::Seconds(1.25)), "{text}");
    }
    assert_eq!(["", "now", "-1", "nan", "inf", "s", "1 m", "-1 s"].map(parse), [None; 8]);
}

#[test]
fn a_summary_has_every_device() {
    let summary = summary(&trace(TRAINING));
    assert_eq!((summary.steps, summary.threads, summary.failed_requests), (0, 1, 1));
    assert_eq!(summary.allocations, 4);
    let devices: Vec<_> = summary
        .devices
        .iter()
        .map(|found| {
            (found.device.to_string(), found.peak.0 >> 20, found.end.0 >> 20, found.allocations)
        })
        .collect();
    assert_eq!(devices, [("cpu".to_owned(), 1, 1, 1), ("cuda:0".to_owned(), 14, 14, 3)]);
}
