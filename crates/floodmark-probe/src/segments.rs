//! The files behind the journal: made, mapped, recycled.
//!
//! A file is allocated on disk before it is mapped, so a full disk is an error here and never a signal
//! later, when a record is written into a page that has no place on disk.
//!
//! A file holds several segments, and all of it is written before it is mapped. To create a file, or to fault its
//! pages in one by one, takes several times as long.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use floodmark_trace::journal::{
    LEDGER_BYTES, LEDGER_NAME, LedgerLine, MOST_SEGMENTS, SEGMENT_BYTES, SEGMENT_HEADER_BYTES,
    SHORT_WORDS, SLOT_BYTES, SLOTS_PER_SEGMENT, ledger_header, ledger_line_offset, segment_header,
};
use parking_lot::{Condvar, Mutex};

use crate::budget::Budget;
use crate::bus_error;
use crate::own_file::{OwnFile, check_length};

/// When fewer segments than this are ready, more are made before a thread needs one.
const READY_AHEAD: usize = 4;
/// Segments of the first file: enough that a short recording needs no other one.
const SEGMENTS_OF_FIRST_FILE: usize = 8;
/// Segments of every other file.
const SEGMENTS_PER_FILE: usize = 16;
const PAGE_BYTES: usize = 4096;
/// Full segments that may wait for the writer: 1 GiB on disk. Threads that need one more wait for it.
const MOST_SEALED: usize = 4096;

/// A file, mapped shared.
#[derive(Debug)]
struct Mapping {
    addr: *mut u8,
    bytes: usize,
    /// Its number for [`bus_error`], where it is a file.
    guarded: Option<usize>,
}

// SAFETY: shared memory; what threads may do with it is said where they do it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(number) = self.guarded {
            bus_error::forget(number, self.addr as usize);
        }
        // SAFETY: mapped by `create`, and no other thread has the address any more.
        unsafe { libc::munmap(self.addr.cast(), self.bytes) };
    }
}

impl Mapping {
    /// Maps memory that no file backs.
    fn of_memory(bytes: usize) -> io::Result<Self> {
        Ok(Self { addr: map_memory(bytes)?, bytes, guarded: None })
    }

    /// Makes a file, allocates all of it on disk, has its contents written and maps it.
    fn create(
        path: &Path,
        bytes: usize,
        guarded: usize,
        write: impl FnOnce(&mut OwnFile) -> io::Result<()>,
    ) -> io::Result<Self> {
        check_length(bytes)?;
        let mut file = OwnFile::create_new(path)?;
        let mapped = allocate(&file, bytes).and_then(|()| write(&mut file));
        let addr = match mapped.and_then(|()| map(&file, bytes)) {
            Ok(addr) => addr,
            Err(error) => {
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
        };
        bus_error::guard(guarded, addr as usize, bytes);
        Ok(Self { addr, bytes, guarded: Some(guarded) })
    }

    /// Has all pages mapped, to be written. A page that is first touched inside a hook costs the program more than the
    /// record does. No other thread has the mapping yet.
    fn touch(&self) {
        // SAFETY: the mapping is ours; this changes none of its bytes.
        let failed =
            unsafe { libc::madvise(self.addr.cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        if failed == 0 {
            return;
        }
        // Kernels before 5.14 do not have the call.
        for page in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: inside the mapping, which no other thread has.
            unsafe {
                let page = self.addr.add(page);
                page.write_volatile(page.read_volatile());
            }
        }
    }

    /// Writes bytes that no other thread reads yet.
    fn write(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.bytes);
        // SAFETY: inside the mapping, and the caller's promise.
        unsafe { self.addr.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// A mapped segment. One thread writes it, the writer thread reads what is committed.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Where it begins in its file.
    start: *mut u8,
    /// Its line of the ledger.
    line: *mut u8,
    /// Its file and the ledger, mapped as long as it is there.
    _mappings: [Arc<Mapping>; 2],
    /// Its thread will write no more.
    pub(crate) sealed: AtomicBool,
    /// Its pages are not kept in memory: too many segments wait.
    is_paged_out: AtomicBool,
}

// SAFETY: the pointers go into mappings that live as long as the segment; what threads may do with them is said
// where they do it.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    #[inline]
    fn counter(&self) -> &AtomicU64 {
        // SAFETY: a line is a multiple of 8 bytes, as is the offset.
        unsafe { AtomicU64::from_ptr(self.line.add(LedgerLine::COMMIT_OFFSET).cast()) }
    }

    fn field(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offsets of a line's fields are multiples of 4.
        unsafe { AtomicU32::from_ptr(self.line.add(offset).cast()) }
    }

    /// How many slots are complete, and how many records they hold.
    pub(crate) fn committed(&self) -> (usize, u32) {
        let word = self.counter().load(Ordering::Acquire);
        #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
        let (slots, records) = (word as u32, (word >> 32) as u32);
        ((slots as usize).min(SLOTS_PER_SEGMENT), records)
    }

    /// The ordinal of the first record.
    pub(crate) fn first_ordinal(&self) -> u32 {
        self.field(LedgerLine::FIRST_ORDINAL_OFFSET).load(Ordering::Acquire)
    }

    /// The bytes of slots that are committed.
    pub(crate) fn slots(&self, from: usize, to: usize) -> &[u8] {
        let to = to.min(SLOTS_PER_SEGMENT);
        let from = from.min(to);
        // SAFETY: committed slots are never written again while anyone reads them.
        unsafe {
            let start = self.start.add(SEGMENT_HEADER_BYTES + from * SLOT_BYTES);
            std::slice::from_raw_parts(start, (to - from) * SLOT_BYTES)
        }
    }

    /// Writes a record from `slot` on. Only the owner calls it, before it commits.
    #[inline]
    pub(crate) fn write(&self, slot: usize, words: &[u64], payload: &[u8]) {
        let at = SEGMENT_HEADER_BYTES + slot * SLOT_BYTES;
        debug_assert!(at + words.len() * 8 + payload.len() <= SEGMENT_BYTES);
        // SAFETY: the caller has checked that the slots are there; no other thread reads them yet. Numbers of
        // this processor are little-endian (asserted below).
        unsafe {
            let to = self.start.add(at);
            if words.len() == SHORT_WORDS {
                // A length that the compiler knows.
                to.copy_from_nonoverlapping(words.as_ptr().cast(), SHORT_WORDS * 8);
                return;
            }
            to.copy_from_nonoverlapping(words.as_ptr().cast(), words.len() * 8);
            to.add(words.len() * 8).copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        }
    }

    /// Says that the slots before `slots` are complete, and hold so many records.
    #[inline]
    pub(crate) fn commit(&self, slots: usize, records: u32) {
        #[expect(clippy::cast_possible_truncation, reason = "at most `SLOTS_PER_SEGMENT`")]
        let word = LedgerLine::commit_word(slots as u32, records);
        self.counter().store(word, Ordering::Release);
    }

    /// So many of its records are in the file.
    pub(crate) fn set_flushed(&self, records: u32) {
        self.field(LedgerLine::FLUSHED_OFFSET).store(records, Ordering::Release);
    }

    /// Begins anew, after the ordinals that it has used.
    fn reset(&self) {
        let (_, records) = self.committed();
        let next = self.first_ordinal().wrapping_add(records);
        self.commit(0, 0);
        self.set_flushed(0);
        self.field(LedgerLine::FIRST_ORDINAL_OFFSET).store(next, Ordering::Release);
        self.sealed.store(false, Ordering::Release);
        self.is_paged_out.store(false, Ordering::Relaxed);
    }

    /// Pages out again what was read of a segment that is paged out.
    pub(crate) fn stay_paged_out(&self) {
        if self.is_paged_out.load(Ordering::Relaxed) {
            self.page_out();
        }
    }

    /// Unmaps the pages; what is in them stays in the file, and comes back when it is read.
    fn page_out(&self) {
        self.is_paged_out.store(true, Ordering::Relaxed);
        // SAFETY: the mapping is a shared file: dropping its pages loses nothing.
        unsafe { libc::madvise(self.start.cast(), SEGMENT_BYTES, libc::MADV_DONTNEED) };
    }
}

const _: () = assert!(cfg!(target_endian = "little"));

/// Gives a file that was just created its place on disk.
fn allocate(file: &OwnFile, bytes: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: a plain system call on a descriptor that is open.
    let failed = unsafe { libc::posix_fallocate(file.descriptor(), 0, length) };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

/// Maps a file that was just created.
fn map(file: &OwnFile, bytes: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (fd, shared) = (file.descriptor(), libc::MAP_SHARED);
    // SAFETY: a new mapping of a descriptor that is open.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, shared, fd, 0) };
    if addr == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(addr.cast()) }
}

/// The files of a recording, by the numbers of their segments.
#[derive(Debug, Default)]
struct Files {
    /// The first number of each.
    first_numbers: Vec<u32>,
    next_number: u32,
}

/// Maps memory that no file backs.
fn map_memory(bytes: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if addr == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(addr.cast()) }
}

/// All segments of one recorder.
#[derive(Debug)]
pub(crate) struct Segments {
    /// The folder of the journal; `None` while no window that is open owns one: segments are then memory.
    folder: Mutex<Option<PathBuf>>,
    session: u64,
    ledger: Arc<Mapping>,
    /// Locked while a file is made.
    files: Mutex<Files>,
    ready: Mutex<Vec<Arc<Segment>>>,
    /// A segment is ready again.
    recycled: Condvar,
    /// How many are sealed and not in the file yet.
    sealed: AtomicUsize,
    /// Taken since the writer last looked.
    fresh: Mutex<Vec<Arc<Segment>>>,
    /// How many were taken since the writer last looked.
    demand: AtomicUsize,
    mapped: AtomicUsize,
    /// How many threads have one.
    owned: AtomicUsize,
    /// How many may have their pages in memory.
    most_mapped: usize,
    /// How many threads may have one of their own; the others share one.
    most_owned: usize,
    most_sealed: usize,
}

impl Segments {
    /// The segments in `folder`, which exists, or in memory. Fails when none can be created there.
    pub(crate) fn create(
        folder: Option<PathBuf>,
        session: u64,
        max_memory: u64,
    ) -> io::Result<Self> {
        let ledger = match &folder {
            Some(folder) => {
                let path = folder.join(LEDGER_NAME);
                // A page that a write has made is mapped sooner than one that a fault makes.
                let first_page = [0; PAGE_BYTES];
                Mapping::create(&path, LEDGER_BYTES, MOST_SEGMENTS, |file| {
                    file.write_all(&first_page)
                })?
            }
            None => Mapping::of_memory(LEDGER_BYTES)?,
        };
        ledger.write(0, &ledger_header(session, LEDGER_BYTES));
        let most_mapped = Budget::journal_bytes(max_memory) / SEGMENT_BYTES as u64;
        let most_mapped = usize::try_from(most_mapped).unwrap_or(64).max(2);
        let segments = Self {
            folder: Mutex::new(folder),
            session,
            ledger: Arc::new(ledger),
            files: Mutex::default(),
            ready: Mutex::default(),
            recycled: Condvar::new(),
            sealed: AtomicUsize::new(0),
            fresh: Mutex::default(),
            demand: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            owned: AtomicUsize::new(0),
            most_mapped,
            most_owned: most_mapped / 2,
            most_sealed: MOST_SEALED,
        };
        // Now, to know that it can be done.
        match segments.make(1) {
            Ok(()) => Ok(segments),
            Err(error) => {
                segments.remove();
                Err(error)
            }
        }
    }

    /// Keeps segments ready, so that no thread of the program has to make one.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        // A program that took many since the last lap will take as many until the next one.
        let demand = self.demand.swap(0, Ordering::Relaxed);
        let wanted = demand.max(READY_AHEAD).min(self.most_mapped / 4);
        let room = self.most_mapped.saturating_sub(self.mapped.load(Ordering::Relaxed));
        let ready = self.ready.lock().len();
        self.make(wanted.min(ready + room))
    }

    fn path(&self, number: u32) -> Option<PathBuf> {
        // Another recording may have taken the name of a folder that was removed.
        let folder = self.folder.lock();
        folder.as_ref().map(|folder| folder.join(format!("{:016x}-{number:08}.seg", self.session)))
    }

    /// Makes files until so many segments are ready.
    fn make(&self, wanted: usize) -> io::Result<()> {
        let mut files = self.files.lock();
        // Another thread may have made them while this one waited for the lock.
        while self.ready.lock().len() < wanted {
            let first = files.next_number;
            let usual = if first == 0 { SEGMENTS_OF_FIRST_FILE } else { SEGMENTS_PER_FILE };
            let mut count = usual.min(self.most_mapped).min(MOST_SEGMENTS - first as usize);
            if count == 0 {
                return Err(io::Error::other("too many threads record at the same time"));
            }
            let file = loop {
                match self.make_file(first, count) {
                    Ok(file) => break file,
                    // A disk may still have room for a shorter file.
                    Err(_) if count > 1 => count /= 2,
                    Err(error) => return Err(error),
                }
            };
            files.first_numbers.push(first);
            files.next_number += u32::try_from(count).unwrap_or(0);
            self.add(&file, first, count);
        }
        Ok(())
    }

    /// The segments of a file are ready.
    fn add(&self, file: &Arc<Mapping>, first: u32, count: usize) {
        self.mapped.fetch_add(count, Ordering::Relaxed);
        let made = (first..).zip((0..).step_by(SEGMENT_BYTES)).take(count).map(|(number, at)| {
            // SAFETY: inside the file, which has room for all of them; the ledger has a line for each.
            let (start, line) =
                unsafe { (file.addr.add(at), self.ledger.addr.add(ledger_line_offset(number))) };
            Arc::new(Segment {
                start,
                line,
                _mappings: [Arc::clone(file), Arc::clone(&self.ledger)],
                sealed: AtomicBool::new(false),
                is_paged_out: AtomicBool::new(false),
            })
        });
        self.ready.lock().extend(made);
    }

    /// Makes a file of so many segments.
    fn make_file(&self, first: u32, count: usize) -> io::Result<Arc<Mapping>> {
        let bytes = count * SEGMENT_BYTES;
        let file = match self.path(first) {
            Some(path) => Mapping::create(&path, bytes, first as usize, |file| {
                let mut segment = vec![0; SEGMENT_BYTES];
                (first..).take(count).try_for_each(|number| {
                    let header = segment_header(self.session, number);
                    segment[..header.len()].copy_from_slice(&header);
                    file.write_all(&segment)
                })
            })?,
            None => Mapping::of_memory(bytes)?,
        };
        if self.mapped.load(Ordering::Relaxed) + count > self.most_mapped {
            return Ok(Arc::new(file));
        }
        file.touch();
        Ok(Arc::new(file))
    }

    /// Whether one more thread may have a segment of its own.
    pub(crate) fn has_room(&self) -> bool {
        self.owned.load(Ordering::Relaxed) < self.most_owned
    }

    /// A segment for a thread, or for those that share one.
    pub(crate) fn take(&self) -> io::Result<Arc<Segment>> {
        let segment = loop {
            // Not in the condition: the lock would be held until the segments are made.
            let ready = self.ready.lock().pop();
            match ready {
                Some(segment) => break segment,
                None => self.make(1)?,
            }
        };
        segment.reset();
        self.owned.fetch_add(1, Ordering::Relaxed);
        self.demand.fetch_add(1, Ordering::Relaxed);
        self.fresh.lock().push(Arc::clone(&segment));
        Ok(segment)
    }

    /// Whether the next thread that needs a segment has to wait for the writer.
    pub(crate) fn is_full(&self) -> bool {
        let is_in_memory = self.folder.lock().is_none();
        let most_sealed = if is_in_memory { self.most_mapped / 4 } else { self.most_sealed };
        self.sealed.load(Ordering::Relaxed) >= most_sealed && self.ready.lock().is_empty()
    }

    /// Waits until a segment is ready, but not for long.
    pub(crate) fn wait(&self, longest: Duration) {
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            self.recycled.wait_for(&mut ready, longest);
        }
    }

    /// A thread is done with a segment.
    pub(crate) fn seal(&self, segment: &Segment) {
        let sealed = self.sealed.fetch_add(1, Ordering::Relaxed) + 1;
        let owned = self.owned.fetch_sub(1, Ordering::Relaxed) - 1;
        if owned + sealed + self.ready.lock().len() > self.most_mapped {
            segment.page_out();
        }
        segment.sealed.store(true, Ordering::Release);
    }

    /// The segments that were taken since the last call.
    pub(crate) fn take_fresh(&self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut *self.fresh.lock())
    }

    /// All of it is in the file: keeps the segment for later, since to make one costs more than to fill it.
    pub(crate) fn recycle(&self, segment: Arc<Segment>) {
        segment.reset();
        let sealed = self.sealed.fetch_sub(1, Ordering::Relaxed) - 1;
        let owned = self.owned.load(Ordering::Relaxed);
        let mut ready = self.ready.lock();
        if owned + sealed.min(self.most_mapped / 4) + ready.len() >= self.most_mapped {
            segment.page_out();
            // The last one is used first.
            ready.insert(0, segment);
        } else {
            ready.push(segment);
        }
        drop(ready);
        self.recycled.notify_one();
    }

    /// The window that owns the journal is complete: its files lose their names. Segments that threads write stay
    /// mapped, and new ones are memory.
    pub(crate) fn remove(&self) {
        let files = self.files.lock();
        let Some(folder) = self.folder.lock().take() else { return };
        for &number in &files.first_numbers {
            let name = format!("{:016x}-{number:08}.seg", self.session);
            let _ = std::fs::remove_file(folder.join(name));
        }
        let _ = std::fs::remove_file(folder.join(LEDGER_NAME));
    }
}

#[cfg(test)]
mod tests {
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
}
