//! What every reader of a trace asks of it, with the answers that must hold.

use floodmark_trace::{EventNumber, StackId, Subject, Trace};

/// Asks a trace everything.
pub fn ask(trace: &Trace) {
    for (at, event) in trace.events.iter().enumerate() {
        match event.subject {
            Subject::Alloc(id) => {
                assert_eq!(trace.allocations[id.index()].made_at as usize, at);
            }
            Subject::Free { allocation, .. } => {
                assert_eq!(trace.allocations[allocation.index()].freed_at, Some(EventNumber::new(at as u32)));
            }
            Subject::FreeCompleted(id) => {
                assert_eq!(trace.allocations[id.index()].completed_at, Some(EventNumber::new(at as u32)));
            }
            Subject::Label { allocation, label } => {
                assert!(trace.allocations[allocation.index()].made_at < at as u32);
                let _ = trace.label(label);
            }
            Subject::SegmentAlloc(id)
            | Subject::SegmentFree(id)
            | Subject::SegmentMap(id)
            | Subject::SegmentUnmap(id)
            | Subject::InitialSegment(id) => assert!((id as usize) < trace.segments.len()),
            Subject::Oom(id) => assert!((id as usize) < trace.ooms.len()),
            Subject::Mark(text) | Subject::PhaseBegin(text) | Subject::PhaseEnd(text) => {
                let _ = trace.text(text);
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
        assert!(trace.frames(id).count() <= trace.stack_count());
        let _ = (trace.module_path(id), trace.module_class(id));
    }
    for device in trace.devices() {
        let _ = trace.unseen_at_start(device);
    }
    for loss in &trace.losses.0 {
        assert!(!loss.to_string().is_empty());
    }
}
