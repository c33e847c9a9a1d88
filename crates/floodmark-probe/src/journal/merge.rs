//! The records of all threads in the order of their times, read in place.
//!
//! Each chunk is sorted. A heap has the next record of each; while only one thread runs, its records are read
//! without checking the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use floodmark_trace::journal::{Record, SLOT_BYTES, Seed, parse_record};

use crate::journal::chunks::Chunk;

/// A chunk that a thread writes, and how far it has been read.
#[derive(Debug)]
struct Cursor {
    chunk: Arc<Chunk>,
    first_ordinal: u32,
    /// The slot after `next`, or the start of the next record.
    slot: usize,
    /// Slots and records that were committed when they were last read.
    committed: (usize, u32),
    /// Records before `next`, the lost ones included.
    folded: u32,
    next: Option<Next>,
}

/// A record that was read but not processed yet, and the position of its payload.
#[derive(Debug, Clone, Copy)]
struct Next {
    record: Record,
    payload: (usize, usize),
}

/// The counters of a chunk went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl Cursor {
    fn new(chunk: Arc<Chunk>) -> Self {
        let first_ordinal = chunk.first_ordinal();
        Self { chunk, first_ordinal, slot: 0, committed: (0, 0), folded: 0, next: None }
    }

    /// Reads the counters. Fails when one is lower than before: another program wrote there.
    fn read_commits(&mut self) -> Result<(), Broken> {
        let committed = self.chunk.committed();
        if committed.0 < self.committed.0 || committed.1 < self.committed.1 {
            return Err(Broken);
        }
        self.committed = committed;
        Ok(())
    }

    /// Reads the next record, if there is one. Returns how many before it are damaged.
    fn advance(&mut self, seed: Seed) -> u64 {
        let mut at = self.slot;
        while self.folded < self.committed.1 && at < self.committed.0 {
            let slots = self.chunk.slots(at, self.committed.0);
            if let Some((ordinal, record, payload, taken)) = parse_record(slots, seed) {
                let number = ordinal.wrapping_sub(self.first_ordinal);
                if (self.folded..self.committed.1).contains(&number) {
                    let lost = number - self.folded;
                    self.folded = number;
                    self.slot = at + taken;
                    let begin = payload.as_ptr() as usize - slots.as_ptr() as usize;
                    let begin = at * SLOT_BYTES + begin;
                    let payload = (begin, begin + payload.len());
                    self.next = Some(Next { record, payload });
                    return u64::from(lost);
                }
            }
            at += 1;
        }
        let lost = self.committed.1 - self.folded;
        self.folded = self.committed.1;
        self.slot = self.committed.0;
        u64::from(lost)
    }

    fn payload(&self, (begin, end): (usize, usize)) -> &[u8] {
        if begin == end {
            return &[];
        }
        let slots = self.chunk.slots(0, self.committed.0);
        slots.get(begin..end).unwrap_or_default()
    }

    fn is_drained(&self) -> bool {
        self.next.is_none()
            && self.chunk.sealed.load(Ordering::Acquire)
            && self.chunk.committed() == self.committed
            && self.folded == self.committed.1
    }
}

/// All chunks that hold records which are not in the file yet.
#[derive(Debug)]
pub(crate) struct Merge {
    seed: Seed,
    cursors: Vec<Cursor>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

/// Whether [`Merge::fold`] continues.
pub(crate) enum Flow {
    Continue,
    /// Not after a record of the same time: a file ends between two times.
    Enough,
}

impl Merge {
    pub(crate) fn new(seed: Seed) -> Self {
        Self { seed, cursors: Vec::new(), heap: BinaryHeap::new() }
    }

    /// Adds the chunks that threads have started, and reads the counters of all chunks.
    pub(crate) fn read_commits(&mut self, fresh: Vec<Arc<Chunk>>) -> Result<(), Broken> {
        self.cursors.extend(fresh.into_iter().map(Cursor::new));
        self.cursors.iter_mut().try_for_each(Cursor::read_commits)
    }

    /// Calls `fold` with the records before `frontier`, in order. Returns how many were damaged, and whether
    /// `fold` stopped before the frontier.
    pub(crate) fn fold(
        &mut self,
        frontier: u64,
        mut fold: impl FnMut(&Record, &[u8]) -> Flow,
    ) -> (u64, bool) {
        let mut lost = 0;
        self.heap.clear();
        for (at, cursor) in self.cursors.iter_mut().enumerate() {
            if cursor.next.is_none() {
                lost += cursor.advance(self.seed);
                // Every waiting chunk is read here: one without room in memory must not stay mapped.
                cursor.chunk.stay_paged_out();
            }
            if let Some(next) = &cursor.next {
                self.heap.push(Reverse((next.record.time_nanos, at)));
            }
        }
        let mut enough_at = None;
        while let Some(Reverse((time, at))) = self.heap.pop() {
            if enough_at.is_some_and(|enough| time > enough) {
                return (lost, true);
            }
            if time >= frontier {
                break;
            }
            let others =
                self.heap.peek().map_or(frontier, |Reverse((time, _))| *time).min(frontier);
            let cursor = &mut self.cursors[at];
            while let Some(next) = cursor.next {
                let time = next.record.time_nanos;
                // Another thread may have a record with the time at which `fold` stopped.
                let is_later = enough_at.is_some_and(|enough| time > enough);
                if is_later || time > others || time >= frontier {
                    self.heap.push(Reverse((time, at)));
                    break;
                }
                if let Flow::Enough = fold(&next.record, cursor.payload(next.payload)) {
                    enough_at = Some(time);
                }
                cursor.folded += 1;
                cursor.next = None;
                lost += cursor.advance(self.seed);
            }
        }
        (lost, false)
    }

    /// Marks all processed records as flushed. Returns the chunks that are not needed any more.
    pub(crate) fn flushed(&mut self) -> Vec<Arc<Chunk>> {
        for cursor in &self.cursors {
            cursor.chunk.set_flushed(cursor.folded);
        }
        let drained = self.cursors.extract_if(.., |cursor| cursor.is_drained());
        drained.map(|cursor| cursor.chunk).collect()
    }
}

#[cfg(test)]
mod tests {
    use floodmark_trace::{Device, EventKind};

    use super::*;
    use crate::journal::chunks::Chunks;

    const SEED: Seed = Seed::of_session(7);

    /// A thread that writes records of given times.
    struct Thread {
        chunk: Arc<Chunk>,
        slot: usize,
        records: u32,
    }

    impl Thread {
        fn new(chunks: &Chunks) -> Self {
            Self { chunk: chunks.take().unwrap(), slot: 0, records: 0 }
        }

        fn write(&mut self, time_nanos: u64) {
            let block = Record::block(EventKind::Alloc, Device::CPU, time_nanos, 0);
            let record = block.at_time(time_nanos);
            let bytes = record.to_bytes(SEED, self.chunk.first_ordinal() + self.records, &[]);
            self.chunk.write(self.slot, bytes.words(), &[]);
            (self.slot, self.records) = (self.slot + bytes.slots, self.records + 1);
            self.chunk.commit(self.slot, self.records);
        }

        fn write_all(&mut self, times: &[u64]) {
            for &time in times {
                self.write(time);
            }
        }

        fn damage(&self, slot: usize) {
            self.chunk.write(slot, &[0; 6], &[]);
        }
    }

    fn chunks() -> Chunks {
        Chunks::create(None, 7, 64 << 20).unwrap()
    }

    fn times(merge: &mut Merge, frontier: u64) -> (Vec<u64>, u64) {
        let mut times = Vec::new();
        let (lost, is_enough) = merge.fold(frontier, |record, _| {
            times.push(record.time_nanos);
            Flow::Continue
        });
        assert!(!is_enough);
        (times, lost)
    }

    #[test]
    fn records_of_all_threads_come_in_the_order_of_their_times() {
        let (chunks, mut merge) = (chunks(), Merge::new(SEED));
        let (mut one, mut two) = (Thread::new(&chunks), Thread::new(&chunks));
        one.write_all(&[1, 4, 9]);
        two.write_all(&[2, 3, 5]);
        merge.read_commits(chunks.take_fresh()).unwrap();
        assert_eq!(times(&mut merge, 5), (vec![1, 2, 3, 4], 0), "the frontier is not passed");
        two.write(7);
        merge.read_commits(Vec::new()).unwrap();
        assert_eq!(times(&mut merge, u64::MAX), (vec![5, 7, 9], 0));
        assert_eq!(times(&mut merge, u64::MAX), (vec![], 0));
    }

    #[test]
    fn a_fold_that_has_enough_ends_between_two_times() {
        let (chunks, mut merge) = (chunks(), Merge::new(SEED));
        let (mut one, mut two) = (Thread::new(&chunks), Thread::new(&chunks));
        one.write_all(&[1, 2, 3]);
        two.write(2);
        merge.read_commits(chunks.take_fresh()).unwrap();
        let mut folded = Vec::new();
        let outcome = merge.fold(u64::MAX, |record, _| {
            folded.push(record.time_nanos);
            if folded.len() == 2 { Flow::Enough } else { Flow::Continue }
        });
        assert_eq!((folded, outcome), (vec![1, 2, 2], (0, true)));
        assert_eq!(times(&mut merge, u64::MAX), (vec![3], 0));
    }

    #[test]
    fn damaged_records_are_counted_and_the_others_read() {
        let (chunks, mut merge) = (chunks(), Merge::new(SEED));
        let mut thread = Thread::new(&chunks);
        thread.write(1);
        let first = thread.slot;
        thread.write_all(&[2, 3, 4]);
        thread.damage(first);
        thread.damage(3 * first);
        merge.read_commits(chunks.take_fresh()).unwrap();
        assert_eq!(times(&mut merge, u64::MAX), (vec![1, 3], 2));
    }

    #[test]
    fn a_decreasing_counter_is_an_error() {
        let (chunks, mut merge) = (chunks(), Merge::new(SEED));
        let mut thread = Thread::new(&chunks);
        thread.write(1);
        merge.read_commits(chunks.take_fresh()).unwrap();
        thread.chunk.commit(0, 0);
        assert_eq!(merge.read_commits(Vec::new()), Err(Broken));
    }

    #[test]
    fn a_chunk_is_used_again_when_its_thread_has_left_and_all_of_it_is_written() {
        let (chunks, mut merge) = (chunks(), Merge::new(SEED));
        let mut thread = Thread::new(&chunks);
        thread.write_all(&[1, 2]);
        merge.read_commits(chunks.take_fresh()).unwrap();
        times(&mut merge, 2);
        chunks.seal(&thread.chunk);
        assert_eq!(merge.flushed().len(), 0, "a record is left");
        times(&mut merge, u64::MAX);
        let done = merge.flushed();
        assert_eq!(done.len(), 1);
        chunks.recycle(Arc::clone(&done[0]));
        let again = chunks.take().unwrap();
        assert_eq!((again.committed(), again.first_ordinal()), ((0, 0), 2), "ordinals go on");
    }
}
