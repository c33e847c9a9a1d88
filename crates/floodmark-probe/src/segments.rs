//! The files behind the journal: made, mapped, recycled.
//!
//! A file is allocated on disk before it is mapped, so a full disk is an error here and never a signal
//! later, when a record is written into a page that has no place on disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use floodmark_trace::journal::{
    LEDGER_BYTES, LEDGER_NAME, LedgerLine, MOST_SEGMENTS, SEGMENT_BYTES, SEGMENT_HEADER_BYTES,
    SLOT_BYTES, SLOTS_PER_SEGMENT, ledger_header, ledger_line_offset, segment_header,
};
use parking_lot::Mutex;

use crate::bus_error;
use crate::own_file::{OwnFile, check_length};

/// Segments that are made before a thread needs one.
const READY_AHEAD: usize = 8;

/// A file, mapped shared.
#[derive(Debug)]
struct Mapping {
    addr: *mut u8,
    bytes: usize,
    /// Its number for [`bus_error`].
    guarded: usize,
}

// SAFETY: shared memory; what threads may do with it is said where they do it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        bus_error::forget(self.guarded, self.addr as usize);
        // SAFETY: mapped by `create`, and no other thread has the address any more.
        unsafe { libc::munmap(self.addr.cast(), self.bytes) };
    }
}

impl Mapping {
    /// Makes a file, allocates all of it on disk and maps it.
    fn create(path: &Path, bytes: usize, guarded: usize) -> io::Result<Self> {
        check_length(bytes)?;
        let file = OwnFile::create_new(path)?;
        let addr = match map(&file, bytes) {
            Ok(addr) => addr,
            Err(error) => {
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
        };
        bus_error::guard(guarded, addr as usize, bytes);
        Ok(Self { addr, bytes, guarded })
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
    mapping: Mapping,
    ledger: Arc<Mapping>,
    pub(crate) number: u32,
    /// Its thread will write no more.
    pub(crate) sealed: AtomicBool,
}

impl Segment {
    fn line(&self) -> *mut u8 {
        // SAFETY: the ledger has a line for every segment, and lives as long as they do.
        unsafe { self.ledger.addr.add(ledger_line_offset(self.number)) }
    }

    #[inline]
    fn counter(&self) -> &AtomicU64 {
        // SAFETY: a line is a multiple of 8 bytes, as is the offset.
        unsafe { AtomicU64::from_ptr(self.line().add(LedgerLine::COMMIT_OFFSET).cast()) }
    }

    fn field(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offsets of a line's fields are multiples of 4.
        unsafe { AtomicU32::from_ptr(self.line().add(offset).cast()) }
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
            let start = self.mapping.addr.add(SEGMENT_HEADER_BYTES + from * SLOT_BYTES);
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
            let to = self.mapping.addr.add(at);
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
    }

    /// Unmaps the pages; what is in them stays in the file, and comes back when it is read.
    fn page_out(&self) {
        // SAFETY: the mapping is a shared file: dropping its pages loses nothing.
        unsafe { libc::madvise(self.mapping.addr.cast(), SEGMENT_BYTES, libc::MADV_DONTNEED) };
    }
}

const _: () = assert!(cfg!(target_endian = "little"));

/// Gives a file that was just created its place on disk, and maps it.
fn map(file: &OwnFile, bytes: usize) -> io::Result<*mut u8> {
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (fd, shared) = (file.descriptor(), libc::MAP_SHARED);
    // SAFETY: plain system calls on a descriptor that is open, and a new mapping.
    unsafe {
        let failed = libc::posix_fallocate(fd, 0, length);
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        let addr = libc::mmap(std::ptr::null_mut(), bytes, access, shared, fd, 0);
        if addr == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(addr.cast()) }
    }
}

/// All segments of one recording.
#[derive(Debug)]
pub(crate) struct Segments {
    folder: PathBuf,
    session: u64,
    ledger: Arc<Mapping>,
    next_number: AtomicU32,
    /// Numbers of segments that were removed.
    unused: Mutex<Vec<u32>>,
    ready: Mutex<Vec<Arc<Segment>>>,
    /// Handed out since the writer last looked.
    fresh: Mutex<Vec<Arc<Segment>>>,
    /// How many were handed out since the writer last looked.
    demand: AtomicUsize,
    mapped: AtomicUsize,
    most_mapped: usize,
}

impl Segments {
    /// The segments in `folder`, which exists. Fails when none can be created there.
    pub(crate) fn create(folder: PathBuf, session: u64, max_memory: u64) -> io::Result<Self> {
        let ledger = Mapping::create(&folder.join(LEDGER_NAME), LEDGER_BYTES, MOST_SEGMENTS)?;
        ledger.write(0, &ledger_header(session, LEDGER_BYTES));
        let segments = Self {
            folder,
            session,
            ledger: Arc::new(ledger),
            next_number: AtomicU32::new(0),
            unused: Mutex::new(Vec::new()),
            ready: Mutex::new(Vec::new()),
            fresh: Mutex::new(Vec::new()),
            demand: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            // A quarter is for segments; tables and batches take the rest.
            most_mapped: usize::try_from(max_memory / 4 / SEGMENT_BYTES as u64)
                .unwrap_or(64)
                .max(2),
        };
        // One now, to know that it can be done; the writer makes the others.
        match segments.make() {
            Ok(first) => {
                segments.ready.lock().push(first);
                Ok(segments)
            }
            Err(error) => {
                segments.remove();
                Err(error)
            }
        }
    }

    /// Bytes of the mapped segments, as far as they are not paged out.
    pub(crate) fn held_bytes(&self) -> usize {
        self.mapped.load(Ordering::Relaxed).min(self.most_mapped) * SEGMENT_BYTES
    }

    /// Keeps segments ready, so that no thread of the program has to make one.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        // A program that took many since the last lap will take as many until the next one.
        let demand = 2 * self.demand.swap(0, Ordering::Relaxed);
        let wanted = demand.max(READY_AHEAD).min(self.most_mapped / 2);
        while self.ready.lock().len() < wanted {
            let segment = self.make()?;
            self.ready.lock().push(segment);
        }
        Ok(())
    }

    /// The journal's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, number: u32) -> PathBuf {
        // Another recording may have taken the name of a folder that was removed.
        self.folder.join(format!("{:016x}-{number:08}.seg", self.session))
    }

    fn next_number(&self) -> io::Result<u32> {
        if let Some(number) = self.unused.lock().pop() {
            return Ok(number);
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        if number as usize >= MOST_SEGMENTS {
            self.next_number.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::other("too many threads record at the same time"));
        }
        Ok(number)
    }

    fn make(&self) -> io::Result<Arc<Segment>> {
        let number = self.next_number()?;
        let mapping = Mapping::create(&self.path(number), SEGMENT_BYTES, number as usize)?;
        for page in (0..SEGMENT_BYTES).step_by(4096) {
            // A page that is first touched inside a hook costs the program more than the record does.
            // SAFETY: inside the mapping, which is all zero and known to no other thread yet.
            unsafe { mapping.addr.add(page).write_volatile(0) };
        }
        mapping.write(0, &segment_header(self.session, number));
        self.mapped.fetch_add(1, Ordering::Relaxed);
        let ledger = Arc::clone(&self.ledger);
        Ok(Arc::new(Segment { mapping, ledger, number, sealed: AtomicBool::new(false) }))
    }

    /// A segment for a thread.
    pub(crate) fn take(&self) -> io::Result<Arc<Segment>> {
        let ready = self.ready.lock().pop();
        let segment = match ready {
            Some(segment) => segment,
            None => self.make()?,
        };
        segment.reset();
        self.demand.fetch_add(1, Ordering::Relaxed);
        self.fresh.lock().push(Arc::clone(&segment));
        Ok(segment)
    }

    /// A thread is done with a segment.
    pub(crate) fn seal(&self, segment: &Segment) {
        segment.sealed.store(true, Ordering::Release);
        if self.mapped.load(Ordering::Relaxed) > self.most_mapped {
            segment.page_out();
        }
    }

    /// The segments that were handed out since the last call.
    pub(crate) fn take_fresh(&self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut *self.fresh.lock())
    }

    /// All of it is in the file: keep the segment for later, since to make one costs more than to fill it, or
    /// remove it where memory is short.
    pub(crate) fn recycle(&self, segment: Arc<Segment>) {
        segment.reset();
        let mut ready = self.ready.lock();
        if ready.len() < self.most_mapped {
            ready.push(segment);
            return;
        }
        drop(ready);
        self.mapped.fetch_sub(1, Ordering::Relaxed);
        let number = segment.number;
        // A file that is gone already is as good.
        let _ = std::fs::remove_file(self.path(number));
        drop(segment);
        self.unused.lock().push(number);
    }

    /// The recording is complete: no segment is needed any more.
    pub(crate) fn remove(&self) {
        for number in 0..self.next_number.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(self.path(number));
        }
        let _ = std::fs::remove_file(self.folder.join(LEDGER_NAME));
    }
}
