//! Timelines.

use floodmark_export::{Options, write_timeline};
use serde_json::Value;

use crate::{STEPS, on, text, trace};

fn timeline(script: &str, options: &Options) -> Value {
    serde_json::from_str(&text(write_timeline, &trace(script), options)).unwrap()
}

#[test]
fn the_whole_file() {
    let script = "alloc a cuda:0 1MiB asking 1000KiB at model.py:12:forward in fc
        free a";
    let file = timeline(script, &on("cuda:0"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&file).unwrap());
}

#[test]
fn only_the_latest_events_are_kept_and_statistics_are_of_all() {
    let file = timeline(STEPS, &Options { max_events: Some(2), ..on("cuda:0") });
    let kinds: Vec<&Value> =
        file["events"].as_array().unwrap().iter().map(|event| &event["event_type"]).collect();
    assert_eq!(kinds, ["layer_exit", "snapshot"]);
    assert_eq!(file["layer_stats"]["fc"]["total_allocations"], 3);
    assert_eq!(file["summary"]["total_events"], 2);
    assert_eq!(file["summary"]["at_start_bytes"], 4 << 20);
    assert_eq!(file["summary"]["allocated_bytes"], 23 << 20);
}

#[test]
fn fragmentation_can_be_left_out() {
    let file = timeline(STEPS, &Options { fragmentation: false, ..on("cuda:0") });
    for event in file["events"].as_array().unwrap() {
        assert_eq!(event["fragmentation_ratio"], 0.0);
    }
    assert_eq!(file["summary"]["avg_fragmentation"], 0.0);
}
