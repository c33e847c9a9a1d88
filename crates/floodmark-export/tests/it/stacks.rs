//! Live bytes at the peak, as collapsed stacks and as a flame graph.

use floodmark_analysis::FrameChoice;
use floodmark_export::{Options, write_collapsed, write_flamegraph};

use crate::{STEPS, on, text, trace};

#[test]
fn a_stack_is_a_line_with_its_bytes() {
    insta::assert_snapshot!(text(write_collapsed, &trace(STEPS), &on("cuda:0")), @"
    main (train.py:5);forward (model.py:12) 8388608
    before recording 4194304
    main (train.py:5);forward (model.py:12);(backward) 4194304
    main (train.py:9) 2097152
    main (train.py:3) 1048576
    ");
}

#[test]
fn frames_of_torch_are_written_on_request() {
    let options = Options { frames: FrameChoice::Python, ..on("cuda:0") };
    let found = text(write_collapsed, &trace(STEPS), &options);
    assert!(found.starts_with("_call_impl (torch/module.py:9);main (train.py:5);forward"));
    assert!(found.contains("main (train.py:9);step (optim/adam.py:40) 2097152"));
}

#[test]
fn frames_cannot_break_a_line() {
    let found = text(write_collapsed, &trace("alloc a cpu 1KiB at a;b.py:1:x"), &on("cpu"));
    assert_eq!(found, "x (a:b.py:1) 1024\n");
}

#[test]
fn a_flame_graph_has_a_box_for_each_call_with_the_width_of_its_bytes() {
    let found = text(write_flamegraph, &trace(STEPS), &on("cuda:0"));
    let boxes: Vec<&str> = found.lines().filter(|line| line.starts_with("<g ")).collect();
    let title = |line: &str| {
        let from = line.find("<title>").unwrap() + 7;
        line[from..line.find("</title>").unwrap()].to_owned()
    };
    let titles: Vec<String> = boxes.iter().map(|line| title(line)).collect();
    insta::assert_snapshot!(titles.join("\n"));
    assert!(found.starts_with("<svg ") && found.trim_end().ends_with("</svg>"));
    // Nothing is fetched from anywhere.
    assert_eq!(found.matches("http").count(), 1, "only the name of SVG itself");
}

#[test]
fn names_are_text_and_no_markup() {
    let found = text(write_flamegraph, &trace("alloc a cpu 1KiB at <a>.py:1:<lambda>"), &on("cpu"));
    assert!(found.contains("&lt;lambda&gt; (&lt;a&gt;.py:1)"));
    assert!(!found.contains("<lambda>"));
}
