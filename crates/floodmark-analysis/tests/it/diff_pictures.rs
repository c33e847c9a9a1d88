//! What grew between two recordings, as pictures: both curves on one axis, both trees in one.

use floodmark_analysis::{
    At, AxisBy, Both, DiffCurves, DiffNode, DiffPoint, DiffSides, FrameChoice, IcicleBy,
    diff_curves, diff_tree,
};
use floodmark_trace::{Bytes, Device, Trace};
use proptest::prelude::*;

use crate::laws::program;
use crate::trace;

const BEFORE: &str = "
    alloc w cuda:0 8KiB at train.py:1:main
    alloc x cuda:0 4KiB at train.py:2:main > net.py:5:forward
    free x
    step
    alloc y cuda:0 2KiB at train.py:2:main > net.py:6:forward
    free y
    step";

const AFTER: &str = "
    alloc w cuda:1 8KiB at train.py:1:main
    alloc x cuda:1 6KiB at train.py:2:main > net.py:5:forward
    alloc n cuda:1 1KiB at train.py:2:main > net.py:9:extra
    free x
    step
    alloc y cuda:1 2KiB at train.py:2:main > net.py:6:forward
    step";

fn sides(at: At) -> DiffSides {
    DiffSides::new(None, at)
}

/// One line for each node: depth, name, what happened to it, KiB of both and width.
fn picture(node: &DiffNode, depth: usize) -> String {
    let [a, b, width] = [node.a, node.b, node.bytes].map(|bytes| bytes.0 >> 10);
    let place = node.line.map(|line| format!(":{line}")).unwrap_or_default();
    let kind = format!("{:?}", node.kind).to_lowercase();
    let mut text =
        format!("{}{}{place} {kind} {a}→{b} wide {width}\n", "-".repeat(depth), node.name);
    for child in &node.children {
        text += &picture(child, depth + 1);
    }
    text
}

#[test]
fn a_tree_shows_nodes_that_grew_shrank_are_new_or_are_gone() {
    let (a, b) = (trace(BEFORE), trace(AFTER));
    let ask = |a: &Trace, b: &Trace| {
        let found = diff_tree(a, b, &sides(At::Peak), IcicleBy::Stack, FrameChoice::Python);
        picture(&found.unwrap().root, 0)
    };
    assert_eq!(
        ask(&a, &b),
        "cuda:0 → cuda:1 grown 12→15 wide 15\n\
         -main:1 same 8→8 wide 8\n\
         -main:2 grown 4→7 wide 7\n\
         --forward:5 grown 4→6 wide 6\n\
         --extra:9 new 0→1 wide 1\n"
    );
    assert!(ask(&b, &a).contains("--extra:9 gone 1→0 wide 1\n"));
    assert!(ask(&b, &a).contains("--forward:5 shrunk 6→4 wide 6\n"));
}

#[test]
fn each_side_has_a_device_and_a_time_of_its_own() {
    let (a, b) = (trace(BEFORE), trace(AFTER));
    let cuda = |number| Some(Device::cuda(number));
    let sides = DiffSides {
        device: Both { a: cuda(0), b: cuda(1) },
        at: Both { a: At::Peak, b: At::End },
        renamed: Vec::new(),
    };
    let found = diff_tree(&a, &b, &sides, IcicleBy::Module, FrameChoice::Program).unwrap();
    assert_eq!((found.allocated.a.0 >> 10, found.allocated.b.0 >> 10), (12, 11));
    assert_eq!((found.at.a.what, found.at.b.what), (At::Peak, At::End));
    let wrong = DiffSides { device: Both { a: cuda(0), b: cuda(0) }, ..sides };
    let error = diff_curves(&a, &b, &wrong).unwrap_err();
    assert_eq!(error.to_string(), "the second trace has no answer");
}

fn steps_of(curves: &DiffCurves) -> Vec<(u64, u64)> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
    let thousandths = |position: f64| (position * 1000.0).round() as u64;
    let points = curves.curves.b.points.iter();
    points.map(|point| (thousandths(point.position), point.allocated.0 >> 10)).collect()
}

#[test]
fn curves_lie_on_each_other_step_by_step() {
    let found = diff_curves(&trace(BEFORE), &trace(AFTER), &sides(At::Peak)).unwrap();
    assert_eq!((found.axis, found.length, found.highest), (AxisBy::Steps, 2.0, Bytes(15 << 10)));
    assert_eq!(found.curves.a.peak.allocated, Bytes(12 << 10));
    // Step 0 has four events of the device, step 1 has one: each begins where its step does.
    assert_eq!(
        steps_of(&found),
        [(0, 0), (0, 8), (0, 8), (250, 14), (500, 15), (750, 9), (1000, 11), (2000, 11)]
    );
}

#[test]
fn without_steps_curves_begin_at_the_same_time() {
    let a = trace(BEFORE);
    let b = trace("alloc w cuda:0 8KiB at train.py:1:main");
    let found = diff_curves(&a, &b, &sides(At::End)).unwrap();
    assert_eq!(found.axis, AxisBy::Time);
    assert!((found.length - a.end().as_seconds()).abs() < 1e-9);
    let is_at_its_time = |point: &DiffPoint| (point.position - point.seconds).abs() < 1e-9;
    assert!(found.curves.a.points.iter().all(is_at_its_time));
    assert_eq!(found.curves.a.at.allocated, Bytes(8 << 10));
}

fn check(node: &DiffNode) {
    let sum = |of: fn(&DiffNode) -> Bytes| node.children.iter().map(of).sum::<Bytes>();
    assert!(sum(|child| child.bytes) <= node.bytes && sum(|child| child.a) <= node.a);
    assert!(node.bytes >= node.a.max(node.b));
    let changes: i64 = node.children.iter().map(|child| child.change).sum();
    assert_eq!(changes + node.own_change, node.change, "{}", node.name);
    node.children.iter().for_each(check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// For any two programs, the tree has the bytes of both, and children lie in their parents.
    #[test]
    fn a_tree_has_what_is_allocated_in_both(one in program(), other in program()) {
        let (one, other) = (trace(&one), trace(&other));
        for by in [IcicleBy::Stack, IcicleBy::Module] {
            let sides = DiffSides::new(Some(Device::cuda(0)), At::Peak);
            let Ok(found) = diff_tree(&one, &other, &sides, by, FrameChoice::Program) else {
                continue;
            };
            assert_eq!((found.root.a, found.root.b), (found.allocated.a, found.allocated.b));
            check(&found.root);
        }
    }
}
