//! All that is known of one allocation, and its partner in the other direction.

use floodmark_analysis::{
    AllocationCard, Context, PartnerKind, QuestionError, allocation_card as ask,
};
use floodmark_trace::{AllocationId, Bytes};

use crate::trace;

fn card(script: &str, id: u32) -> AllocationCard {
    let trace = trace(script);
    ask(&trace, &Context::new(&trace), AllocationId(id)).unwrap()
}

const TWO_STEPS: &str = "
    alloc a cuda:0 2MiB asking 1500000B at model.py:5 in layers.0 op aten::mm stream 7
    save a
    backward alloc ga cuda:0 1MiB at model.py:5 in layers.0
    unpack a
    free a
    step
    alloc b cuda:0 2MiB at model.py:5 in layers.0
    alloc c cuda:0 2MiB at model.py:5 in layers.0
    backward alloc gb cuda:0 1MiB at model.py:5 in layers.0
    step";

#[test]
fn a_card_has_the_location_and_the_lifetime_of_its_allocation() {
    let card = card(TWO_STEPS, 0);
    assert_eq!((card.bytes, card.requested), (Bytes(2 << 20), Bytes(1_500_000)));
    assert_eq!((card.module.as_deref(), card.op.as_deref()), (Some("layers.0"), Some("aten::mm")));
    assert_eq!((card.stream.as_deref(), card.address.as_str()), (Some("0x7"), "0x10000000000"));
    assert_eq!((card.step, card.phase.as_deref()), (Some(0), Some("forward")));
    assert_eq!((card.category, card.saved_seconds), ("activation", Some(0.002)));
    assert_eq!((card.allocated_seconds, card.last_use_seconds), (0.001, Some(0.004)));
    assert_eq!(card.freed_seconds, Some(0.005));
    assert_eq!(card.location, "model.py:5 (main)");
    let files: Vec<_> = card.frames.iter().map(|frame| frame.file.as_str()).collect();
    assert_eq!(files, ["model.py", "torch/module.py"]);
    let folded: Vec<_> = card.frames.iter().map(|frame| frame.is_folded).collect();
    assert_eq!(folded, [false, true]);
}

/// Of one step alone: the same line runs in every step.
#[test]
fn forward_and_backward_of_one_operator_are_partners() {
    let forward = card(TWO_STEPS, 0).partner.unwrap();
    assert_eq!((forward.kind, forward.ids), (PartnerKind::Backward, vec![1]));
    let backward = card(TWO_STEPS, 1).partner.unwrap();
    assert_eq!((backward.kind, backward.ids), (PartnerKind::Forward, vec![0]));
    assert_eq!(backward.frames[0].line, 5);
}

#[test]
fn of_several_partners_the_nearest_comes_first() {
    assert_eq!(card(TWO_STEPS, 4).partner.unwrap().ids, [3, 2]);
}

#[test]
fn an_allocation_without_a_stack_has_no_partner() {
    let script = "
        initial w cuda:0 1MiB
        alloc a cuda:0 1MiB
        backward alloc g cuda:0 1MiB";
    for id in 0..3 {
        assert_eq!(card(script, id).partner, None, "{id}");
    }
    let initial = card(script, 0);
    assert!(
        initial.before_recording
            && initial.allocated_seconds == 0.0
            && initial.freed_seconds.is_none()
    );
}

#[test]
fn an_allocation_that_is_not_there_is_an_error() {
    let trace = trace("alloc a cuda:0 1MiB");
    let error = ask(&trace, &Context::new(&trace), AllocationId(1)).unwrap_err();
    assert_eq!(error, QuestionError::NoSuchAllocation { id: 1, allocations: 1 });
}
