//! What every reader of a trace asks of it, with the answers that must hold.

use floodmark_trace::{EventNumber, HandleId, StackId, Subject, TextId, Trace};

/// The most frames that a stack may have, and the most devices that a trace may.
const MOST_FRAMES: usize = 4096;
const MOST_DEVICES: usize = 129;

/// Asks a trace everything.
pub fn ask(trace: &Trace) {
    for (at, event) in trace.events.iter().enumerate() {
        match event.subject {
            Subject::Alloc(id) => {
                assert_eq!(trace.allocations[id.index()].made_at as usize, at);
            }
            Subject::Free { allocation, .. } => {
                assert_eq!(
                    trace.allocations[allocation.index()].freed_at,
                    Some(EventNumber::new(at as u32))
                );
            }
            Subject::FreeCompleted(id) => {
                assert_eq!(
                    trace.allocations[id.index()].completed_at,
                    Some(EventNumber::new(at as u32))
                );
            }
            Subject::Label { allocation, label } => {
                assert!(trace.allocations[allocation.index()].made_at < at as u32);
                assert!(label.0 == 0 || trace.label(label).is_some());
            }
            Subject::Saved(id) | Subject::Unpacked(id) => {
                assert!(trace.allocations[id.index()].is_live_after(at as u32));
            }
            Subject::SegmentAlloc(id)
            | Subject::SegmentFree(id)
            | Subject::SegmentMap(id)
            | Subject::SegmentUnmap(id)
            | Subject::InitialSegment(id) => assert!((id as usize) < trace.segments.len()),
            Subject::Oom(id) => assert!((id as usize) < trace.ooms.len()),
            Subject::Mark(text) | Subject::PhaseBegin(text) | Subject::PhaseEnd(text) => {
                assert!(has_text(trace, text));
            }
            Subject::FreeUnknown(_)
            | Subject::Reserved(_)
            | Subject::Step(_)
            | Subject::OptimizerBegin
            | Subject::OptimizerEnd => {}
        }
    }
    assert!(trace.events.windows(2).all(|pair| pair[0].time <= pair[1].time));
    for id in 0..trace.stack_count().min(1000) {
        let id = StackId(id as u32);
        assert!(trace.frames(id).count() <= MOST_FRAMES);
        for (_, frame) in trace.frames(id) {
            assert!(frame.code.0 == 0 || trace.code(frame.code).is_some());
            assert!(frame.module.0 == 0 || trace.module(frame.module).is_some());
        }
        let _ = (trace.module_path(id), trace.module_class(id));
    }
    for allocation in &trace.allocations {
        assert!(has_stack(trace, allocation.stack));
        assert!(allocation.label.0 == 0 || trace.label(allocation.label).is_some());
        assert!(has_text(trace, allocation.op) && has_text(trace, allocation.phase));
        assert!(has_handle(trace, allocation.stream) && has_handle(trace, allocation.pool));
    }
    for segment in &trace.segments {
        assert!(has_stack(trace, segment.stack));
        assert!(has_handle(trace, segment.stream) && has_handle(trace, segment.pool));
    }
    assert!(trace.ooms.iter().all(|oom| has_stack(trace, oom.stack)));
    assert!(trace.devices().len() <= MOST_DEVICES);
    for device in trace.devices() {
        let _ = trace.unseen_at_start(device);
    }
    for loss in &trace.losses.0 {
        assert!(!loss.to_string().is_empty());
    }
}

fn has_stack(trace: &Trace, stack: StackId) -> bool {
    stack.index() < trace.stack_count()
}

fn has_text(trace: &Trace, text: TextId) -> bool {
    text.0 == 0 || trace.text(text).is_some()
}

fn has_handle(trace: &Trace, handle: HandleId) -> bool {
    has_text(trace, handle.into())
}
