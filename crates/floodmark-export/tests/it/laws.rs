//! Properties of the exports of every recording.

use floodmark_analysis::{At, Question, report};
use floodmark_export::{Options, write_collapsed, write_speedscope, write_timeline};
use proptest::prelude::*;
use proptest::sample::select;

use crate::event_tracks::{events, highest};
use crate::speedscope::check;
use crate::{text, trace};

/// A valid script: it frees only live allocations.
fn program() -> impl Strategy<Value = String> {
    let stack =
        select(vec!["", "at a.py:1", "at a.py:2 > torch/x.py:1", "at a.py:1 in layers.0.fc"]);
    let device = select(vec!["cpu", "cuda:0"]);
    let action = (0..9_u8, device, 1..9_u64, stack, any::<prop::sample::Index>());
    prop::collection::vec(action, 1..40).prop_map(|actions| {
        let mut script =
            String::from("unseen cuda:0 64KiB\ninitial b0 cuda:0 2KiB\ninitial b1 cpu 3KiB\n");
        let mut live = vec!["b0".to_owned(), "b1".to_owned()];
        for (number, (what, device, kib, stack, which)) in actions.into_iter().enumerate() {
            match what {
                0..=4 => {
                    let backward = if what == 0 { "backward " } else { "" };
                    script += &format!("{backward}alloc n{number} {device} {kib}KiB {stack}\n");
                    live.push(format!("n{number}"));
                }
                5..=7 if !live.is_empty() => {
                    let freed = live.swap_remove(which.index(live.len()));
                    script += &format!("free {freed}\n");
                }
                _ => script += "step\n",
            }
        }
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In every format, the bytes of stacks at the peak add up to it.
    #[test]
    fn weights_at_the_peak_add_up_to_it(script in program()) {
        let trace = trace(&script);
        for device in trace.devices() {
            let options = Options { device: Some(device), ..Options::default() };
            let question = Question { device: Some(device), at: At::Peak, ..Question::default() };
            let peak = report(&trace, &question).unwrap().allocated.0;
            let file: serde_json::Value =
                serde_json::from_str(&text(write_speedscope, &trace, &options)).unwrap();
            check(&file);
            prop_assert_eq!(file["profiles"][0]["endValue"].as_u64().unwrap(), peak);
            let lines = text(write_collapsed, &trace, &options);
            let bytes = lines.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
            prop_assert_eq!(bytes.sum::<u64>(), peak);
        }
    }

    /// A timeline ends where the recording does, never rises above its peak, and has every layer that it names.
    #[test]
    fn a_timeline_agrees_with_the_reports(script in program()) {
        let trace = trace(&script);
        for device in trace.devices() {
            let options = Options { device: Some(device), ..Options::default() };
            let ask = |at| report(&trace, &Question { device: Some(device), at, ..Question::default() });
            let file: serde_json::Value =
                serde_json::from_str(&text(write_timeline, &trace, &options)).unwrap();
            let events = file["events"].as_array().unwrap();
            let last = events.last().unwrap()["allocated_bytes"].as_u64().unwrap();
            prop_assert_eq!(last, ask(At::End).unwrap().allocated.0);
            let peak = ask(At::Peak).unwrap().allocated.0;
            prop_assert_eq!(file["summary"]["peak_allocated_bytes"].as_u64().unwrap(), peak);
            for event in events {
                prop_assert!(event["allocated_bytes"].as_u64().unwrap() <= peak);
                if let Some(layer) = event["layer_name"].as_str() {
                    prop_assert!(file["layer_stats"].get(layer).is_some());
                }
            }
        }
    }

    /// For every program, time does not decrease, every slice that begins also ends, and the counters reach the peak.
    #[test]
    fn tracks_of_time_are_in_order(script in program()) {
        let trace = trace(&script);
        let events = events(&trace, &Options::default());
        crate::event_tracks::check(&events);
        for device in trace.devices() {
            let question = Question { device: Some(device), at: At::Peak, ..Question::default() };
            let peak = report(&trace, &question).unwrap().allocated.0;
            prop_assert_eq!(highest(&events, &format!("{device} allocated")), peak);
        }
    }
}
