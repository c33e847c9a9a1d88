//! Truncated and damaged files.

use floodmark_snapshot::{SnapshotError, read_snapshot};

use crate::recordings::pickle;
use crate::sample::snapshot;

fn assert_truncation_is_found(pickle: &[u8], step: usize) {
    for cut in (2..pickle.len()).step_by(step) {
        let error = read_snapshot(&pickle[..cut]).map(|_| ()).unwrap_err();
        let SnapshotError::Truncated { offset } = error else { panic!("cut at {cut}: {error:?}") };
        assert_eq!(offset, cut as u64);
    }
}

#[test]
fn truncation_at_any_byte_is_found() {
    assert_truncation_is_found(&snapshot().protocol_4(), 1);
    assert_truncation_is_found(&snapshot().cpp(), 1);
    assert_truncation_is_found(&snapshot().protocol_0(), 1);
}

#[test]
fn truncation_of_a_real_file_is_found() {
    assert_truncation_is_found(&pickle("lstm"), 1);
}

/// The decompressor or the unpickler finds it.
#[test]
fn truncation_of_a_compressed_file_is_found() {
    let file = crate::recordings::file("lstm.pickle.gz");
    for cut in (2..file.len() - 8).step_by(13) {
        read_snapshot(&file[..cut]).unwrap_err();
    }
}

#[test]
fn a_changed_byte_gives_an_error_or_a_trace() {
    for pickle in [snapshot().protocol_4(), snapshot().cpp(), snapshot().protocol_0()] {
        for at in 0..pickle.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut spoiled = pickle.clone();
                spoiled[at] ^= mask;
                let _ = read_snapshot(&spoiled);
            }
        }
    }
}

#[test]
fn a_changed_byte_of_a_real_file_gives_an_error_or_a_trace() {
    let pickle = pickle("lstm");
    for at in (0..pickle.len()).step_by(7) {
        let mut spoiled = pickle.clone();
        spoiled[at] ^= 0xff;
        let _ = read_snapshot(&spoiled);
    }
}
