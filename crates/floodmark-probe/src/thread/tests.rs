//! What threads write, into segments of their own or shared ones.

use std::sync::mpsc::channel;

use floodmark_trace::journal::FLAG_NAME_LEFT_OUT;
use floodmark_trace::{EventKind, Window};

use super::*;
use crate::test_recorder::{Installed, MAX_MEMORY, recording, records};

fn record() -> Record {
    Record::new(EventKind::Mark as u8, Device::CPU)
}

/// Writes a record as a hook does, and gives the number of the thread.
fn mark() -> Option<u32> {
    with_recording(|recording, local| {
        local.write(recording, record(), &[]);
        local.number
    })
}

fn on_a_new_thread() -> Option<u32> {
    std::thread::spawn(mark).join().unwrap()
}

fn installed() -> Installed {
    Installed::new(MAX_MEMORY, &[Window { cpu: true, ..Window::default() }])
}

#[test]
fn records_of_a_thread_have_later_and_later_times() {
    let (recording, mut local) = (recording(MAX_MEMORY), Local { number: 3, ..Local::default() });
    for _ in 0..100 {
        local.write(&recording, record(), &[]);
    }
    let written = records(&recording).concat();
    assert_eq!(written.len(), 100);
    assert!(written.iter().all(|(record, _)| record.thread == 3));
    assert!(written.windows(2).all(|pair| pair[0].0.time_nanos < pair[1].0.time_nanos));
}

#[test]
fn a_full_segment_is_sealed_and_the_next_one_begun() {
    let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
    let most = SLOTS_PER_SEGMENT / record().slots(0);
    for _ in 0..=most {
        local.write(&recording, record(), &[]);
    }
    let lengths: Vec<_> = records(&recording).iter().map(Vec::len).collect();
    assert_eq!(lengths, [most, 1]);
}

#[test]
fn a_record_that_does_not_fit_goes_into_the_next_segment() {
    let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
    let text = vec![7; MAX_PAYLOAD_BYTES + 9];
    let slots = record().slots(MAX_PAYLOAD_BYTES);
    let most = SLOTS_PER_SEGMENT / slots;
    for _ in 0..=most {
        local.write(&recording, record(), &text);
    }
    let written = records(&recording);
    assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), [most, 1]);
    assert!(written.concat().iter().all(|(_, payload)| payload.len() == MAX_PAYLOAD_BYTES));
}

#[test]
fn threads_without_a_segment_of_their_own_share_one() {
    let recording = recording(16 << 20);
    let mut locals: Vec<_> = (0..10).map(|number| Local { number, ..Local::default() }).collect();
    for local in &mut locals {
        local.write(&recording, record(), &[]);
    }
    let by_segment: Vec<Vec<_>> = records(&recording)
        .iter()
        .map(|written| written.iter().map(|(record, _)| record.thread).collect())
        .collect();
    let (own, shared) = by_segment.split_at(8);
    assert!(own.iter().zip(0..).all(|(threads, number)| *threads == [number]));
    assert_eq!(shared, [[8, 9]]);
    assert_eq!(recording.failure(), None);
}

#[test]
fn a_record_has_the_phase_and_the_operator_of_its_thread() {
    let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
    let named = |number| TextNumber { number, is_left_out: false };
    local.phases.extend([named(4), named(5)]);
    local.ops.push(RunningOp { name: named(6), call: 1 });
    local.write(&recording, record(), &[]);
    local.phases.push(TextNumber { number: 0, is_left_out: true });
    local.write(&recording, record(), &[]);
    let facts: Vec<_> = records(&recording)
        .concat()
        .iter()
        .map(|(record, _)| (record.phase, record.op, record.flags & FLAG_NAME_LEFT_OUT != 0))
        .collect();
    assert_eq!(facts, [(5, 6, false), (0, 6, true)]);
}

#[test]
fn the_first_block_of_an_operator_call_is_marked() {
    let (name, mut local) = (TextNumber::default(), Local::default());
    assert!(!local.is_first_of_op_call(), "no operator runs");
    let outer = local.begin_op_call();
    local.ops.push(RunningOp { name, call: outer });
    let inner = local.begin_op_call();
    local.ops.push(RunningOp { name, call: inner });
    let is_first = [local.is_first_of_op_call(), local.is_first_of_op_call()];
    assert_eq!(is_first, [true, false]);
    local.ops.pop();
    assert!(local.is_first_of_op_call(), "the outer operator allocates after the inner one");
}

#[test]
fn a_block_at_the_address_of_a_workspace_ends_it() {
    let mut local = Local { workspaces: vec![64, 128], ..Local::default() };
    local.note_block(Device::CPU, 64);
    assert_eq!((local.workspaces.len(), local.last_device), (2, None), "the host has none");
    local.note_block(Device::cuda(1), 64);
    assert_eq!((local.workspaces, local.last_device), (vec![128], Some(Device::cuda(1))));
}

#[test]
fn a_thread_goes_on_in_the_segment_of_one_that_ended() {
    let installed = installed();
    assert_eq!([on_a_new_thread(), on_a_new_thread()], [Some(0), Some(1)]);
    let written = records(installed.recording);
    let threads: Vec<Vec<_>> =
        written.iter().map(|one| one.iter().map(|(record, _)| record.thread).collect()).collect();
    assert_eq!(threads, [[0, 1]]);
}

#[test]
fn threads_beyond_the_limit_share_a_state() {
    let installed = installed();
    assert_eq!(mark(), Some(0));
    limit_states(1);
    assert_eq!([on_a_new_thread(), on_a_new_thread()], [Some(CROWD); 2]);
    let is_crowd = std::thread::spawn(|| with_recording(|_, local| local.is_crowd));
    assert_eq!(is_crowd.join().unwrap(), Some(true));
    assert_eq!(records(installed.recording).concat().len(), 3);
}

#[test]
fn a_hook_inside_a_hook_records_nothing() {
    let installed = installed();
    assert_eq!(with_recording(|_, _| mark()), Some(None));
    assert_eq!(records(installed.recording).concat().len(), 0);
    assert_eq!(mark(), Some(0));
}

#[test]
fn a_panic_in_a_hook_ends_the_recording() {
    let installed = installed();
    assert_eq!(with_recording(|_, _| panic!("on purpose")), None::<()>);
    assert_eq!(installed.recording.failure().unwrap().0, "the recorder failed: a bug in floodmark");
    assert_eq!(mark(), None);
    assert!(wait_until_idle());
}

#[test]
fn the_frontier_stops_at_a_thread_that_is_inside_a_hook() {
    let installed = installed();
    let recording = installed.recording;
    assert_eq!(frontier_nanos(recording, u64::MAX), u64::MAX, "it never goes back");
    let (entered, is_inside) = channel();
    let (leave, may_leave) = channel::<()>();
    let thread = std::thread::spawn(move || {
        mark();
        with_recording(|_, local| {
            entered.send(local.journal.last_nanos).unwrap();
            may_leave.recv().unwrap();
        });
        // Its state lives until the test has asked for it.
        may_leave.recv().unwrap();
    });
    let last_nanos = is_inside.recv().unwrap();
    assert_eq!(frontier_nanos(recording, 0), last_nanos);
    leave.send(()).unwrap();
    assert!(wait_until_idle());
    assert!(frontier_nanos(recording, 0) > last_nanos);
    leave.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_forked_child_begins_with_no_state() {
    let installed = installed();
    assert_eq!([mark(), on_a_new_thread()], [Some(0), Some(1)]);
    assert_eq!(threads().all.lock().len(), 2);
    forget_after_fork();
    assert_eq!(threads().all.lock().len(), 0);
    assert_eq!(mark(), Some(2));
    assert_eq!(records(installed.recording).len(), 3, "a segment of the parent's is not used");
}
