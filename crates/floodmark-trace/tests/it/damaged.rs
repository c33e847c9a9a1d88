//! Damaged files: reading gives an error, or a trace with losses.

use floodmark_trace::frame::{FrameKind, append_frame, prelude};
use floodmark_trace::journal::Entry;
use floodmark_trace::{
    Batch, DecompressionLimit, Event, Hint, Loss, ReadError, StackId, Trace, read_trace,
    read_trace_within,
};

use crate::recording::{Act, batches, finished_file, header, record};

/// `made_at` of an allocation that is lost.
const LOST: u32 = u32::MAX;

/// A few rows of each kind, in three flushes.
fn small_recording() -> Vec<Batch> {
    let alloc =
        |device, block| Act::Alloc { device, block, bytes: 700, slack: 188, backward: false };
    let free = |device, block| Act::Free { device, block, deferred: false };
    let define = |kind, id, text: &str| Act::Define { kind, id, text: text.to_owned() };
    let step =
        |number| Act::Other { kind: floodmark_trace::EventKind::Step, device: 0, bytes: 0, number };
    let label = Act::Label { device: 1, block: 1, inside: 4, label: 1 };
    let acts = [
        define(100, 1, "train.py"),
        define(101, 1, ""),
        define(102, 1, "Net"),
        alloc(1, 0),
        alloc(1, 1),
        define(103, 1, "weight"),
        label,
        alloc(0, 0),
        free(1, 0),
        step(1),
        define(104, 1, "warmup"),
        alloc(1, 2),
        free(1, 1),
        free(0, 0),
        alloc(1, 1),
        free(1, 2),
        step(2),
        free(1, 1),
    ];
    let program = acts.into_iter().map(|act| (act, 0, 1500)).collect();
    let entries: Vec<Entry> = record(&program);
    batches(&entries, 6)
}

fn small_file() -> (Vec<u8>, Trace) {
    let file = finished_file(&small_recording());
    let trace = read_trace(&file, &[]).unwrap();
    assert!(trace.losses.is_empty() && trace.events.len() > 10);
    (file, trace)
}

fn is_prefix(part: &[Event], whole: &[Event]) -> bool {
    whole.starts_with(part)
}

/// Every block is a recorded one.
fn blocks_are_true(trace: &Trace, truth: &Trace) -> bool {
    trace.allocations.len() <= truth.allocations.len()
        && trace.allocations.iter().zip(&truth.allocations).all(|(read, wrote)| {
            let same = read.device == wrote.device
                && read.addr == wrote.addr
                && (read.rounded, read.requested) == (wrote.rounded, wrote.requested)
                && (read.stack == wrote.stack || read.stack == StackId(0));
            read.made_at == LOST || same
        })
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_says_so() {
    let (file, truth) = small_file();
    for cut in 0..file.len() {
        let Ok(trace) = read_trace(&file[..cut], &[]) else { continue };
        assert_eq!(trace.losses.0, [Loss::Unfinished], "cut at {cut}");
        assert!(is_prefix(&trace.events, &truth.events), "cut at {cut}");
        assert!(blocks_are_true(&trace, &truth), "cut at {cut}");
    }
}

#[test]
fn a_flipped_byte_never_changes_an_answer_silently() {
    let (file, truth) = small_file();
    for at in 0..file.len() {
        for flip in [0x01, 0x10, 0x80, 0xFF] {
            let mut damaged = file.clone();
            damaged[at] ^= flip;
            let Ok(trace) = read_trace(&damaged, &[]) else { continue };
            let is_reported = !trace.losses.is_empty();
            assert!(is_reported || trace.events == truth.events, "byte {at} ^ {flip:#x}");
            assert!(blocks_are_true(&trace, &truth), "byte {at} ^ {flip:#x}");
        }
    }
}

/// Zeros, as after a disk error: Arrow alone would accept them.
#[test]
fn zeroed_bytes_never_change_an_answer_silently() {
    let (file, truth) = small_file();
    for at in 0..file.len() - 64 {
        let mut damaged = file.clone();
        damaged[at..at + 64].fill(0);
        if damaged == file {
            continue;
        }
        let Ok(trace) = read_trace(&damaged, &[]) else { continue };
        assert!(!trace.losses.is_empty(), "64 bytes from {at}");
        assert!(blocks_are_true(&trace, &truth), "64 bytes from {at}");
    }
}

/// A checkpoint and the events after it are lost, and both flushes have as many rows: the first rows
/// must not be taken for the second.
#[test]
fn events_are_not_read_under_the_checkpoint_of_others() {
    let (file, truth) = small_file();
    let frames = frame_ranges(&file);
    for lost in 1..frames.len() {
        for count in 1..=(frames.len() - lost).min(4) {
            let (start, end) = (frames[lost].start, frames[lost + count - 1].end);
            let damaged = [&file[..start], &file[end..]].concat();
            let trace = read_trace(&damaged, &[]).unwrap();
            assert!(!trace.losses.is_empty(), "{count} frames from {lost}");
            assert!(blocks_are_true(&trace, &truth), "{count} frames from {lost}");
        }
    }
}

fn frame_ranges(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 8;
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap()) as usize;
        ranges.push(at..at + 16 + length);
        at += 16 + length;
    }
    ranges
}

#[test]
fn events_after_a_lost_flush_are_still_there() {
    let (file, truth) = small_file();
    // The one byte of the second flush that makes its events unreadable.
    let frames = frame_ranges(&file);
    let events = frames.iter().filter(|range| file[range.start + 12] == FrameKind::Events as u8);
    let second_flush = events.clone().nth(2).unwrap();
    let mut damaged = file.clone();
    damaged[second_flush.end - 1] ^= 1;
    let trace = read_trace(&damaged, &[]).unwrap();
    assert_eq!(trace.events.first(), truth.events.first());
    assert_eq!(trace.end(), truth.end());
    assert_eq!(trace.totals, truth.totals);
    let losses: Vec<String> = trace.losses.0.iter().map(ToString::to_string).collect();
    assert_eq!(losses.len(), 3, "{losses:?}");
    assert!(
        losses[2].ends_with("events refer to allocations that are not in the file"),
        "{losses:?}"
    );
}

mod each_error {
    use super::*;

    fn refused(file: &[u8]) -> ReadError {
        read_trace(file, &[]).unwrap_err()
    }

    #[test]
    fn an_empty_file() {
        let error = refused(b"");
        assert!(matches!(error, ReadError::Empty));
        assert_eq!(error.to_string(), "the file is empty");
        assert!(error.hint().is_some());
    }

    #[test]
    fn something_else() {
        let error = refused(b"\x80\x04\x95\x10 a pickle");
        assert_eq!(error.to_string(), "this is a pickle of something else, not a recording");
        assert!(error.hint().is_some_and(|hint| hint.contains("pickle")));
    }

    #[test]
    fn a_file_that_ends_in_its_header() {
        let mut whole = prelude().to_vec();
        append_frame(&mut whole, FrameKind::Header, 0, &serde_json::to_vec(&header()).unwrap());
        for end in 1..whole.len() {
            let error = refused(&whole[..end]);
            assert_eq!(
                error.to_string(),
                format!(
                    "the file ends within its header, after {end} byte{}",
                    if end == 1 { "" } else { "s" }
                )
            );
        }
        assert!(read_trace(&whole, &[]).is_ok());
    }

    #[test]
    fn a_file_that_decompresses_to_too_much() {
        let (file, _) = small_file();
        let error = read_trace_within(DecompressionLimit::Bytes(100), &file, &[]).unwrap_err();
        assert_eq!(error.to_string(), "the file decompresses to more than 100 bytes");
        assert!(error.hint().is_some_and(|hint| hint.contains(DecompressionLimit::VARIABLE)));
        assert!(read_trace_within(DecompressionLimit::Bytes(1 << 20), &file, &[]).is_ok());
    }

    #[test]
    fn a_file_from_a_newer_build() {
        let (mut file, _) = small_file();
        file[4] = 9;
        let error = refused(&file);
        assert_eq!(
            error.to_string(),
            "trace format 9 is newer than this build, which reads up to 1"
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("the floodmark that recorded it")));
    }

    #[test]
    fn a_file_without_a_header() {
        let mut file = prelude().to_vec();
        file.extend_from_slice(b"no frame at all");
        let error = refused(&file);
        assert!(matches!(error, ReadError::NoHeader { damaged_bytes: 15 }), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn a_frame_of_a_kind_that_is_not_known_yet_is_passed_over() {
    let json = serde_json::to_vec(&header()).unwrap();
    let mut file = prelude().to_vec();
    append_frame(&mut file, FrameKind::Header, 0, &json);
    let start = file.len();
    append_frame(&mut file, FrameKind::Ending, 1, b"of another kind");
    file[start + 12] = 200;
    let crc = crc32fast::hash(&file[start + 12..]);
    file[start + 8..start + 12].copy_from_slice(&crc.to_le_bytes());
    // The checksum covers kind, number and payload, which are adjacent.
    append_frame(&mut file, FrameKind::Ending, 2, b"{}");
    let trace = read_trace(&file, &[]).unwrap();
    assert!(trace.losses.is_empty(), "{:?}", trace.losses);
}
