//! Writes traces as snapshots and reads them again.

use floodmark_snapshot::{read_snapshot, write_snapshot};
use floodmark_trace::{Device, Subject, Trace};

use crate::recordings::{ALL, trace};
use crate::sample::{assert_is_sample, snapshot, story};

fn again(trace: &Trace) -> Trace {
    let mut written = Vec::new();
    write_snapshot(trace, None, &mut written).unwrap();
    read_snapshot(&written).unwrap()
}

#[test]
fn a_sample_is_read_as_it_was_written() {
    let first = read_snapshot(&snapshot().protocol_4()).unwrap();
    let second = again(&first);
    assert_eq!(story(&second), story(&first));
    assert_is_sample(&read_snapshot(&snapshot().protocol_4()).unwrap());
}

#[test]
fn recordings_are_read_as_they_were_written() {
    for name in ALL {
        let first = trace(name);
        let second = again(&first);
        assert_eq!(story(&second), story(&first), "{name}");
        assert_eq!(second.totals, first.totals, "{name}");
        assert_eq!(second.header.allocator_conf, first.header.allocator_conf, "{name}");
        for (before, after) in first.allocations.iter().zip(&second.allocations) {
            assert_eq!(first.frames(before.stack).count(), second.frames(after.stack).count());
            assert_eq!(first.text(before.stream.into()), second.text(after.stream.into()));
            assert_eq!(first.text(before.pool.into()), second.text(after.pool.into()), "{name}");
        }
    }
}

/// Strings, frames and stacks are written once: a written file is not larger than torch's.
#[test]
fn a_written_file_is_small() {
    for name in ALL {
        let mut written = Vec::new();
        write_snapshot(&trace(name), None, &mut written).unwrap();
        assert!(
            written.len() <= crate::recordings::pickle(name).len(),
            "{name}: {}",
            written.len()
        );
    }
}

#[test]
fn only_the_requested_device_is_written() {
    let first = read_snapshot(&snapshot().protocol_4()).unwrap();
    let mut written = Vec::new();
    write_snapshot(&first, Some(Device::cuda(3)), &mut written).unwrap();
    let other = read_snapshot(&written).unwrap();
    let is_memory = |subject: Subject| matches!(subject, Subject::Alloc(_) | Subject::Reserved(_));
    assert!(!other.events.iter().any(|event| is_memory(event.subject)));
    let mut written = Vec::new();
    write_snapshot(&first, Some(Device::cuda(0)), &mut written).unwrap();
    assert_eq!(story(&read_snapshot(&written).unwrap()), story(&first));
}
