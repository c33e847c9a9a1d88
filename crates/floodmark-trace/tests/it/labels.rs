//! The final label of an allocation.

use floodmark_trace::journal::record_kind;
use floodmark_trace::{LabelId, Subject, read_trace};

use crate::recording::{Act, batches, finished_file, record};

/// The label of the one block, and how many label events there are, when labels 1 (without a name) and 2
/// (with one) are given in this order.
fn labelled(labels: &[u8], flush: usize) -> (LabelId, usize) {
    let define =
        |id, text: &str| Act::Define { kind: record_kind::LABEL, id, text: text.to_owned() };
    let mut acts = vec![
        define(1, ""),
        define(2, "weight"),
        Act::Alloc { device: 0, block: 1, bytes: 64, slack: 0, backward: false },
    ];
    acts.extend(labels.iter().map(|&label| Act::Label { device: 0, block: 1, inside: 8, label }));
    let program = acts.into_iter().map(|act| (act, 0, 10)).collect();
    let trace = read_trace(&finished_file(&batches(&record(&program), flush)), &[]).unwrap();
    let is_label = |subject| matches!(subject, Subject::Label { .. });
    let events = trace.events.iter().filter(|event| is_label(event.subject)).count();
    (trace.allocations[0].label, events)
}

#[test]
fn a_label_without_a_name_replaces_no_other() {
    for flush in [1, 100] {
        assert_eq!(labelled(&[1], flush), (LabelId(1), 1));
        assert_eq!(labelled(&[1, 2], flush), (LabelId(2), 2));
        assert_eq!(labelled(&[2, 1], flush), (LabelId(2), 1));
    }
}

#[test]
fn the_same_label_is_written_once() {
    assert_eq!(labelled(&[2, 2, 2], 1), (LabelId(2), 1));
    assert_eq!(labelled(&[1, 2, 1, 2], 1), (LabelId(2), 2));
}
