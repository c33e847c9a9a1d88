//! What threads write, into chunks of their own or shared ones.

use floodmark_trace::EventKind;
use floodmark_trace::journal::{MAX_PAYLOAD_BYTES, SLOTS_PER_CHUNK};

use super::*;
use crate::test_recorder::{MAX_MEMORY, recording, records};

fn record() -> Record {
    Record::new(EventKind::Mark as u8, Device::CPU)
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
fn a_full_chunk_is_sealed_and_the_next_one_begun() {
    let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
    let most = SLOTS_PER_CHUNK / record().slots(0);
    for _ in 0..=most {
        local.write(&recording, record(), &[]);
    }
    let lengths: Vec<_> = records(&recording).iter().map(Vec::len).collect();
    assert_eq!(lengths, [most, 1]);
}

#[test]
fn a_record_that_does_not_fit_is_written_to_the_next_chunk() {
    let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
    let text = vec![7; MAX_PAYLOAD_BYTES + 9];
    let slots = record().slots(MAX_PAYLOAD_BYTES);
    let most = SLOTS_PER_CHUNK / slots;
    for _ in 0..=most {
        local.write(&recording, record(), &text);
    }
    let written = records(&recording);
    assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), [most, 1]);
    assert!(written.concat().iter().all(|(_, payload)| payload.len() == MAX_PAYLOAD_BYTES));
}

#[test]
fn threads_without_a_chunk_of_their_own_share_one() {
    let recording = recording(16 << 20);
    let mut locals: Vec<_> = (0..10).map(|number| Local { number, ..Local::default() }).collect();
    for local in &mut locals {
        local.write(&recording, record(), &[]);
    }
    let by_chunk: Vec<Vec<_>> = records(&recording)
        .iter()
        .map(|written| written.iter().map(|(record, _)| record.thread).collect())
        .collect();
    let (own, shared) = by_chunk.split_at(8);
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
