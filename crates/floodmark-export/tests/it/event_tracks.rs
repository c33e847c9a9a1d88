//! Counters and slices over time, as Chrome's JSON has them. What Perfetto's own messages hold is the same; they are read
//! again with Perfetto's library in the tests of the Python package.

use std::collections::BTreeMap;

use floodmark_export::{Options, write_chrome, write_perfetto};
use floodmark_trace::Trace;
use serde_json::Value;

use crate::{STEPS, on, text, trace, written};

/// The events of the file.
pub(crate) fn events(trace: &Trace, options: &Options) -> Vec<Value> {
    let mut file: Value = serde_json::from_str(&text(write_chrome, trace, options)).unwrap();
    serde_json::from_value(file["traceEvents"].take()).unwrap()
}

/// Asserts that time does not decrease, and that every slice that begins also ends.
pub(crate) fn check(events: &[Value]) {
    let mut last = 0;
    let mut open: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for event in events {
        let kind = event["ph"].as_str().unwrap();
        if kind == "M" {
            continue;
        }
        let now = event["ts"].as_u64().unwrap();
        assert!(now >= last, "{event}");
        last = now;
        match kind {
            "B" => {
                let name = event["name"].as_str().unwrap();
                open.entry(event["tid"].as_u64().unwrap()).or_default().push(name);
            }
            "E" => {
                let open = open.get_mut(&event["tid"].as_u64().unwrap()).unwrap();
                assert!(open.pop().is_some(), "{event}");
            }
            "C" | "X" | "s" | "t" | "f" => {}
            other => panic!("what is {other}?"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
}

/// The highest value of a counter.
pub(crate) fn highest(events: &[Value], name: &str) -> u64 {
    let of = events.iter().filter(|event| event["ph"] == "C" && event["name"] == name);
    of.map(|event| event["args"]["bytes"].as_u64().unwrap()).max().unwrap_or(0)
}

#[test]
fn the_whole_file() {
    let script = "initial w cuda:0 1MiB
        label w parameter fc.weight (512,512) float32
        phase begin warm up
        alloc h cuda:0 2MiB at train.py:5:main > model.py:12:forward in fc
        phase end
        backward alloc g cuda:0 1MiB at train.py:5:main > model.py:12:forward in fc
        free h
        step
        alloc x cuda:0 1MiB at train.py:3:main";
    let found = text(write_chrome, &trace(script), &on("cuda:0"));
    check(&events(&trace(script), &on("cuda:0")));
    insta::assert_snapshot!(found);
}

#[test]
fn categories_add_up_to_what_is_allocated() {
    let trace = trace(STEPS);
    let mut now: BTreeMap<String, u64> = BTreeMap::new();
    let mut allocated = 0;
    let mut compared = 0;
    for event in events(&trace, &on("cuda:0")) {
        if event["ph"] != "C" {
            continue;
        }
        let name = event["name"].as_str().unwrap().to_owned();
        let bytes = event["args"]["bytes"].as_u64().unwrap();
        match name.as_str() {
            "cuda:0 allocated" => allocated = bytes,
            "cuda:0 active" | "cuda:0 reserved" => {}
            _ => {
                now.insert(name, bytes);
                // The total comes first, then the one category that changed.
                if allocated > 0 {
                    assert_eq!(now.values().sum::<u64>(), allocated);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 5);
}

#[test]
fn only_the_latest_events_are_written_on_request() {
    let trace = trace(STEPS);
    let few = Options { max_events: Some(2), ..on("cuda:0") };
    let all = events(&trace, &on("cuda:0"));
    let some = events(&trace, &few);
    check(&some);
    assert!(some.len() < all.len());
}

#[test]
fn perfetto_is_a_packet_after_the_other() {
    let bytes = written(write_perfetto, &trace(STEPS), &Options::default());
    let mut rest = &bytes[..];
    let mut packets = 0;
    while let Some((&tag, after)) = rest.split_first() {
        assert_eq!(tag, 0x0a);
        let (mut length, mut at, mut shift) = (0_usize, 0, 0);
        loop {
            length |= usize::from(after[at] & 0x7f) << shift;
            at += 1;
            shift += 7;
            if after[at - 1] & 0x80 == 0 {
                break;
            }
        }
        rest = &after[at + length..];
        packets += 1;
    }
    assert!(packets > 40, "{packets}");
}
