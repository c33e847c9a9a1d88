//! Files of the journal: how many chunks they hold, and what happens at a limit.

use std::path::Path;

use super::*;

const MIB: u64 = 1 << 20;

fn chunks(folder: &Path, max_memory: u64) -> Chunks {
    Chunks::create(Some(folder.to_owned()), 7, max_memory).unwrap()
}

fn chunk_files(folder: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let chunks = files.filter(|path| path.extension().is_some_and(|name| name == CHUNK_EXTENSION));
    let mut bytes: Vec<_> = chunks.map(|path| path.metadata().unwrap().len()).collect();
    bytes.sort_unstable();
    bytes
}

#[test]
fn a_file_holds_several_chunks() {
    let folder = tempfile::TempDir::new().unwrap();
    let chunks = chunks(folder.path(), 256 * MIB);
    let taken: Vec<_> = (0..9).map(|_| chunks.take().unwrap()).collect();
    let lengths = [CHUNKS_OF_FIRST_FILE, CHUNKS_PER_FILE].map(|count| (count * CHUNK_BYTES) as u64);
    assert_eq!(chunk_files(folder.path()), lengths);
    let mut starts: Vec<_> = taken.iter().map(|chunk| chunk.start as usize).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= CHUNK_BYTES));
    chunks.remove();
    assert!(chunk_files(folder.path()).is_empty());
}

#[test]
fn a_small_limit_makes_short_files() {
    let folder = tempfile::TempDir::new().unwrap();
    let chunks = chunks(folder.path(), 3 * MIB);
    let _taken: Vec<_> = (0..4).map(|_| chunks.take().unwrap()).collect();
    assert_eq!(chunk_files(folder.path()), [3 * CHUNK_BYTES as u64; 2]);
}

#[test]
fn a_thread_waits_only_while_the_writer_is_far_behind() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut chunks = chunks(folder.path(), 256 * MIB);
    chunks.most_sealed = 2;
    let taken: Vec<_> = (0..CHUNKS_OF_FIRST_FILE).map(|_| chunks.take().unwrap()).collect();
    assert!(!chunks.is_full(), "none is sealed");
    chunks.seal(&taken[0]);
    chunks.seal(&taken[1]);
    assert!(chunks.is_full());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            while chunks.is_full() {
                chunks.wait(Duration::from_secs(1));
            }
        });
        chunks.recycle(Arc::clone(&taken[0]));
        waits.join().unwrap();
    });
    assert!(!chunks.is_full());
}

#[test]
fn chunks_of_a_recorder_without_a_file_are_memory() {
    let chunks = Chunks::create(None, 7, 256 * MIB).unwrap();
    let taken = chunks.take().unwrap();
    taken.write(0, &[5; 6], &[]);
    taken.commit(3, 1);
    assert_eq!((taken.committed(), chunks.take_fresh().len()), ((3, 1), 1));
    assert_eq!(chunks.take_fresh().len(), 0, "each is given to the writer once");
}

#[test]
fn new_chunks_are_memory_when_the_journal_is_removed() {
    let folder = tempfile::TempDir::new().unwrap();
    let chunks = chunks(folder.path(), 256 * MIB);
    let first = chunks.take().unwrap();
    chunks.remove();
    let _more: Vec<_> = (0..9).map(|_| chunks.take().unwrap()).collect();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    first.write(0, &[5; 6], &[]);
    first.commit(3, 1);
    assert_eq!(first.slots(0, 1), [5, 0, 0, 0, 0, 0, 0, 0].repeat(SLOT_BYTES / 8));
}

#[test]
fn a_chunk_that_was_paged_out_keeps_its_records() {
    let folder = tempfile::TempDir::new().unwrap();
    // Room for two chunks in memory.
    let chunks = chunks(folder.path(), 2 * MIB);
    let taken: Vec<_> = (0..4).map(|_| chunks.take().unwrap()).collect();
    for chunk in &taken {
        chunk.write(0, &[5; 6], &[]);
        chunk.commit(3, 1);
        chunks.seal(chunk);
    }
    assert!(taken.iter().any(|chunk| chunk.is_paged_out.load(Ordering::Relaxed)));
    for chunk in &taken {
        assert_eq!(chunk.slots(0, 1)[0], 5);
        chunk.stay_paged_out();
        assert_eq!(chunk.slots(2, 3)[0], 5);
    }
}

#[test]
fn threads_beyond_half_of_the_journal_have_no_chunk_of_their_own() {
    let chunks = Chunks::create(None, 7, 16 * MIB).unwrap();
    let most = Budget::journal_bytes(16 * MIB) / CHUNK_BYTES as u64 / 2;
    let taken: Vec<_> = (0..most).map(|_| chunks.take().unwrap()).collect();
    assert!(!chunks.has_room());
    chunks.seal(&taken[0]);
    assert!(chunks.has_room());
}
