//! Files of the journal: how many segments they hold, and what happens at a limit.

use std::path::Path;

use super::*;

const MIB: u64 = 1 << 20;

fn segments(folder: &Path, max_memory: u64) -> Segments {
    Segments::create(Some(folder.to_owned()), 7, max_memory).unwrap()
}

fn seg_files(folder: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let segs = files.filter(|path| path.extension().is_some_and(|name| name == "seg"));
    let mut bytes: Vec<_> = segs.map(|path| path.metadata().unwrap().len()).collect();
    bytes.sort_unstable();
    bytes
}

#[test]
fn a_file_holds_several_segments() {
    let folder = tempfile::TempDir::new().unwrap();
    let segments = segments(folder.path(), 256 * MIB);
    let taken: Vec<_> = (0..9).map(|_| segments.take().unwrap()).collect();
    let lengths =
        [SEGMENTS_OF_FIRST_FILE, SEGMENTS_PER_FILE].map(|count| (count * SEGMENT_BYTES) as u64);
    assert_eq!(seg_files(folder.path()), lengths);
    let mut starts: Vec<_> = taken.iter().map(|segment| segment.start as usize).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= SEGMENT_BYTES));
    segments.remove();
    assert!(seg_files(folder.path()).is_empty());
}

#[test]
fn a_small_limit_makes_short_files() {
    let folder = tempfile::TempDir::new().unwrap();
    let segments = segments(folder.path(), 3 * MIB);
    let _taken: Vec<_> = (0..4).map(|_| segments.take().unwrap()).collect();
    assert_eq!(seg_files(folder.path()), [3 * SEGMENT_BYTES as u64; 2]);
}

#[test]
fn a_thread_waits_only_while_the_writer_is_far_behind() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut segments = segments(folder.path(), 256 * MIB);
    segments.most_sealed = 2;
    let taken: Vec<_> = (0..SEGMENTS_OF_FIRST_FILE).map(|_| segments.take().unwrap()).collect();
    assert!(!segments.is_full(), "none is sealed");
    segments.seal(&taken[0]);
    segments.seal(&taken[1]);
    assert!(segments.is_full());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            while segments.is_full() {
                segments.wait(Duration::from_secs(1));
            }
        });
        segments.recycle(Arc::clone(&taken[0]));
        waits.join().unwrap();
    });
    assert!(!segments.is_full());
}

#[test]
fn segments_of_a_recorder_without_a_file_are_memory() {
    let segments = Segments::create(None, 7, 256 * MIB).unwrap();
    let taken = segments.take().unwrap();
    taken.write(0, &[5; 6], &[]);
    taken.commit(3, 1);
    assert_eq!((taken.committed(), segments.take_fresh().len()), ((3, 1), 1));
    assert_eq!(segments.take_fresh().len(), 0, "each is given to the writer once");
}

#[test]
fn new_segments_are_memory_when_the_journal_is_removed() {
    let folder = tempfile::TempDir::new().unwrap();
    let segments = segments(folder.path(), 256 * MIB);
    let first = segments.take().unwrap();
    segments.remove();
    let _more: Vec<_> = (0..9).map(|_| segments.take().unwrap()).collect();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    first.write(0, &[5; 6], &[]);
    first.commit(3, 1);
    assert_eq!(first.slots(0, 1), [5, 0, 0, 0, 0, 0, 0, 0].repeat(SLOT_BYTES / 8));
}

#[test]
fn a_segment_that_was_paged_out_keeps_its_records() {
    let folder = tempfile::TempDir::new().unwrap();
    // Room for two segments in memory.
    let segments = segments(folder.path(), 2 * MIB);
    let taken: Vec<_> = (0..4).map(|_| segments.take().unwrap()).collect();
    for segment in &taken {
        segment.write(0, &[5; 6], &[]);
        segment.commit(3, 1);
        segments.seal(segment);
    }
    assert!(taken.iter().any(|segment| segment.is_paged_out.load(Ordering::Relaxed)));
    for segment in &taken {
        assert_eq!(segment.slots(0, 1)[0], 5);
        segment.stay_paged_out();
        assert_eq!(segment.slots(2, 3)[0], 5);
    }
}

#[test]
fn threads_beyond_half_of_the_journal_have_no_segment_of_their_own() {
    let segments = Segments::create(None, 7, 16 * MIB).unwrap();
    let most = Budget::journal_bytes(16 * MIB) / SEGMENT_BYTES as u64 / 2;
    let taken: Vec<_> = (0..most).map(|_| segments.take().unwrap()).collect();
    assert!(!segments.has_room());
    segments.seal(&taken[0]);
    assert!(segments.has_room());
}
