//! Threads get a state, share one, and pass it on.

use std::sync::mpsc::channel;

use floodmark_trace::journal::Record;
use floodmark_trace::{Device, EventKind, Window};

use super::*;
use crate::recorder::local::SHARED_THREAD;
use crate::test_recorder::MAX_MEMORY;
use crate::test_recorder::{Installed, records};

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
fn a_thread_continues_the_chunk_of_one_that_ended() {
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
    assert_eq!([on_a_new_thread(), on_a_new_thread()], [Some(SHARED_THREAD); 2]);
    let is_shared = std::thread::spawn(|| with_recording(|_, local| local.is_shared));
    assert_eq!(is_shared.join().unwrap(), Some(true));
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
            entered.send(local.last_nanos()).unwrap();
            may_leave.recv().unwrap();
        });
        // Its state lives until the test has read it.
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
    assert_eq!(records(installed.recording).len(), 3, "a chunk of the parent's is not used");
}
