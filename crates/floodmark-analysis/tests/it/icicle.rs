//! Live memory at a time, as a tree.

use floodmark_analysis::{
    At, By, Detail, FrameChoice, Icicle, IcicleBy, IcicleNode, MomentIndex, Question, Sandwich,
    TraceIndex, icicle, report, sandwich,
};
use floodmark_trace::{Bytes, Device, Trace};
use proptest::prelude::*;

use crate::laws::program;
use crate::timeline::long;
use crate::trace;

fn ask(trace: &Trace, device: Device, by: IcicleBy, at: At) -> Icicle {
    let (index, moments) = (TraceIndex::new(trace), MomentIndex::new(trace, device).unwrap());
    icicle(trace, &index, &moments, by, FrameChoice::Python, at).unwrap()
}

/// One line for each node: its depth as dashes, name, KiB with what is inside and own.
fn picture(node: &IcicleNode, depth: usize) -> String {
    let place = node.line.map(|line| format!(":{line}")).unwrap_or_default();
    let file = node.file.as_deref().unwrap_or_default();
    let mut text = format!(
        "{}{} {file}{place} {} {} {}\n",
        "-".repeat(depth),
        node.name,
        node.bytes.0 >> 10,
        node.own.0 >> 10,
        node.count
    );
    for child in &node.children {
        text += &picture(child, depth + 1);
    }
    text
}

fn check(node: &IcicleNode) {
    let inside: Bytes = node.children.iter().map(|child| child.bytes).sum();
    assert_eq!(inside + node.own, node.bytes, "{}", node.name);
    let is_ordered =
        |one: &IcicleNode, other: &IcicleNode| one.bytes >= other.bytes || other.name == "smaller";
    assert!(node.children.windows(2).all(|pair| is_ordered(&pair[0], &pair[1])));
    node.children.iter().for_each(check);
}

fn check_all(trace: &Trace) {
    let end = trace.end().as_seconds();
    for device in trace.devices() {
        for at in [At::Peak, At::End, At::Seconds(end / 3.0)] {
            for by in [IcicleBy::Stack, IcicleBy::Module] {
                let found = ask(trace, device, by, at);
                assert_eq!(found.root.bytes, found.total);
                check(&found.root);
                let question = Question { device: Some(device), at, ..Question::default() };
                assert_eq!(report(trace, &question).unwrap().allocated, found.total);
            }
        }
    }
}

#[test]
fn frames_come_outermost_first_and_backward_is_a_part_of_its_frame() {
    let trace = trace(
        "unseen cuda:0 1KiB
         alloc a cuda:0 8KiB at a.py:1:main > b.py:2:inner
         alloc b cuda:0 4KiB at a.py:1:main
         backward alloc c cuda:0 2KiB at a.py:1:main > b.py:2:inner
         alloc d cuda:0 1KiB",
    );
    let found = ask(&trace, Device::cuda(0), IcicleBy::Stack, At::End);
    assert_eq!(
        picture(&found.root, 0),
        "cuda:0  16 0 4\n\
         -main a.py:1 14 4 3\n\
         --inner b.py:2 10 8 2\n\
         ---backward  2 2 1\n\
         -before recording  1 1 0\n\
         -no Python frame  1 1 1\n"
    );
}

#[test]
fn a_node_has_its_first_allocation() {
    let trace = trace(
        "unseen cuda:0 1KiB
         alloc a cuda:0 2KiB at a.py:1:main > b.py:2:inner
         alloc b cuda:0 8KiB at a.py:3:main",
    );
    let found = ask(&trace, Device::cuda(0), IcicleBy::Stack, At::End);
    let first = |name: &str, line: Option<u32>| {
        let mut children = found.root.children.iter();
        children.find(|node| node.name == name && node.line == line).unwrap().first_allocation
    };
    assert_eq!(found.root.first_allocation, Some(0));
    assert_eq!(first("main", Some(1)), Some(0));
    assert_eq!(first("main", Some(3)), Some(1));
    assert_eq!(first("before recording", None), None);
}

#[test]
fn modules_lie_in_the_modules_around_them() {
    let trace = trace(
        "alloc a cuda:0 8KiB at a.py:1 in layers.0.fc
         alloc b cuda:0 4KiB at a.py:1 in layers.0
         alloc c cuda:0 2KiB at a.py:1 in layers.1
         alloc d cuda:0 1KiB",
    );
    let found = ask(&trace, Device::cuda(0), IcicleBy::Module, At::End);
    let text = picture(&found.root, 0);
    assert!(text.contains("layers  14 0 3\n"), "{text}");
    assert!(text.contains("0  12 4 2\n"), "{text}");
    assert!(text.contains("fc  8 8 1\n"), "{text}");
    assert!(text.contains("-(no module)  1 1 1\n"), "{text}");
}

const FRAMEWORKS: &str = "
    alloc a cuda:0 8KiB at /v/lib/python3.12/runpy.py:1:run > train.py:5:main > /v/lib/python3.12/site-packages/transformers/trainer.py:7:train > train.py:9:loss > torch/nn.py:3:linear
    alloc b cuda:0 4KiB at train.py:5:main > /v/lib/python3.12/site-packages/transformers/llama.py:4:forward > torch/nn.py:3:linear
    alloc c cuda:0 2KiB at /v/lib/python3.12/threading.py:1:run > torch/x.py:2:work";

/// The line that a report by line has is always there.
#[test]
fn frames_of_frameworks_are_left_out_but_for_the_calling_line() {
    let trace = trace(FRAMEWORKS);
    let device = Device::cuda(0);
    let (index, moments) = (TraceIndex::new(&trace), MomentIndex::new(&trace, device).unwrap());
    let program = FrameChoice::Program;
    let found = icicle(&trace, &index, &moments, IcicleBy::Stack, program, At::End).unwrap();
    assert_eq!(
        picture(&found.root, 0),
        "cuda:0  14 0 3\n\
         -main train.py:5 12 0 2\n\
         --loss train.py:9 8 8 1\n\
         --forward /v/lib/python3.12/site-packages/transformers/llama.py:4 4 4 1\n\
         -run /v/lib/python3.12/threading.py:1 2 2 1\n"
    );
    assert!(found.root.children[0].children[1].framework);
    check(&found.root);
}

#[test]
fn a_node_has_the_category_with_most_of_its_bytes() {
    let trace = trace(
        "alloc w cuda:0 8KiB at a.py:1:main
         label w parameter fc.weight (4,4) float32
         alloc x cuda:0 2KiB at a.py:1:main > b.py:2:inner",
    );
    let found = ask(&trace, Device::cuda(0), IcicleBy::Stack, At::End);
    let main = &found.root.children[0];
    assert_eq!((main.category, main.children[0].category), ("parameter", "unknown"));
}

fn around(function: Option<(&str, &str)>) -> Sandwich {
    let trace = trace(
        "alloc a cuda:0 8KiB at a.py:1:main > b.py:2:make > c.py:3:empty
         alloc b cuda:0 4KiB at a.py:9:test > b.py:2:make > b.py:5:make
         alloc c cuda:0 2KiB at a.py:1:main",
    );
    let device = Device::cuda(0);
    let (index, moments) = (TraceIndex::new(&trace), MomentIndex::new(&trace, device).unwrap());
    sandwich(&trace, &index, &moments, FrameChoice::Python, At::End, function).unwrap()
}

#[test]
fn a_function_lies_between_its_callers_and_its_callees() {
    let found = around(Some(("make", "b.py")));
    let chosen = found.function.unwrap();
    assert_eq!((chosen.bytes.0 >> 10, chosen.own.0 >> 10, chosen.count), (12, 4, 2));
    assert_eq!(
        picture(&found.callers, 0),
        "make  12 0 2\n-main a.py:1 8 8 1\n-test a.py:9 4 4 1\n"
    );
    assert_eq!(
        picture(&found.callees, 0),
        "make  12 0 2\n-empty c.py:3 8 8 1\n-make b.py:5 4 4 1\n"
    );
}

#[test]
fn the_function_with_most_of_its_own_is_shown_first() {
    let found = around(None);
    assert_eq!(found.function.unwrap().name, "empty");
    let names: Vec<&str> = found.functions.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["empty", "make", "main", "test"]);
    assert_eq!(found.callers.children[0].name, "make");
}

/// Nodes that are too small to see become one node, and no byte is lost.
#[test]
fn small_nodes_become_one_node() {
    let mut script = String::from("alloc large cuda:0 1GiB at m.py:1\n");
    for line in 2..50 {
        script += &format!("alloc a{line} cuda:0 1KiB at m.py:{line}\n");
    }
    let found = ask(&trace(&script), Device::cuda(0), IcicleBy::Stack, At::End);
    assert_eq!(found.root.children.len(), 2);
    let smaller = &found.root.children[1];
    assert_eq!((smaller.name.as_str(), smaller.bytes.0, smaller.count), ("smaller", 48 << 10, 48));
    check(&found.root);
}

/// With what is inside, own, and depth of all below a node.
fn collect(node: &IcicleNode, depth: usize, into: &mut Vec<(Bytes, Bytes, usize)>) {
    for child in &node.children {
        into.push((child.bytes, child.own, depth));
        collect(child, depth + 1, into);
    }
}

#[test]
fn the_modules_of_the_tree_are_those_of_the_report() {
    let trace = trace(&long());
    let found = ask(&trace, Device::cuda(0), IcicleBy::Module, At::Peak);
    let question = Question { by: By::Module, ..Question::default() };
    let mut rows = Vec::new();
    for row in report(&trace, &question).unwrap().rows {
        let Detail::Module { own, depth, .. } = row.detail else { panic!("no module") };
        rows.push((row.bytes, own, depth as usize));
    }
    let mut actual = Vec::new();
    collect(&found.root, 0, &mut actual);
    actual.sort_unstable();
    rows.sort_unstable();
    assert_eq!(actual, rows);
    check_all(&trace);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// For any program, no byte is lost and none is counted twice.
    #[test]
    fn a_tree_adds_up_to_what_is_allocated(script in program()) {
        check_all(&trace(&script));
    }
}
