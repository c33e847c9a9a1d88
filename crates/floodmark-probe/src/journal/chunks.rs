//! The files of the journal: created, mapped ([`Mapping`]), recycled.
//!
//! A file holds several chunks and is written before it is mapped. Creating a file, or faulting its
//! pages in one by one, takes several times as long.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use floodmark_trace::journal::{
    CHUNK_BYTES, CHUNK_EXTENSION, CHUNK_HEADER_BYTES, LEDGER_BYTES, LEDGER_NAME, LedgerLine,
    MOST_CHUNKS, SHORT_WORDS, SLOT_BYTES, SLOTS_PER_CHUNK, chunk_header, ledger_header,
    ledger_line_offset,
};
use parking_lot::{Condvar, Mutex};

use crate::budget::Budget;
use crate::journal::mapping::{Mapping, PAGE_BYTES};

/// When fewer chunks than this are ready, more are created before a thread needs one.
const READY_AHEAD: usize = 4;
/// Chunks of the first file: enough that a short recording needs no other one.
const CHUNKS_OF_FIRST_FILE: usize = 8;
/// Chunks of every other file.
const CHUNKS_PER_FILE: usize = 16;
/// Full chunks that may wait for the writer: 1 GiB on disk. Threads that need one more wait for it.
const MOST_SEALED: usize = 4096;

/// A mapped chunk. One thread writes it, the writer thread reads what is committed.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Its start in the mapped file.
    start: *mut u8,
    /// Its line of the ledger.
    line: *mut u8,
    /// Its file and the ledger, mapped as long as the chunk exists.
    _mappings: [Arc<Mapping>; 2],
    /// Its thread does not write any more.
    pub(crate) sealed: AtomicBool,
    /// Its pages are not kept in memory: too many chunks wait.
    is_paged_out: AtomicBool,
}

// SAFETY: the pointers go into mappings that live as long as the chunk; the methods below state what threads may do with them
// where they do it.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
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
        ((slots as usize).min(SLOTS_PER_CHUNK), records)
    }

    /// The ordinal of the first record.
    pub(crate) fn first_ordinal(&self) -> u32 {
        self.field(LedgerLine::FIRST_ORDINAL_OFFSET).load(Ordering::Acquire)
    }

    /// The bytes of slots that are committed.
    pub(crate) fn slots(&self, from: usize, to: usize) -> &[u8] {
        let to = to.min(SLOTS_PER_CHUNK);
        let from = from.min(to);
        // SAFETY: committed slots are never written again while they are read.
        unsafe {
            let start = self.start.add(CHUNK_HEADER_BYTES + from * SLOT_BYTES);
            std::slice::from_raw_parts(start, (to - from) * SLOT_BYTES)
        }
    }

    /// Writes a record from `slot` on. Only the owner calls it, before it commits.
    #[inline]
    pub(crate) fn write(&self, slot: usize, words: &[u64], payload: &[u8]) {
        let at = CHUNK_HEADER_BYTES + slot * SLOT_BYTES;
        debug_assert!(at + words.len() * 8 + payload.len() <= CHUNK_BYTES);
        // SAFETY: the caller has checked that the slots exist; no other thread reads them yet. Numbers of
        // this processor are little-endian (asserted below).
        unsafe {
            let to = self.start.add(at);
            if words.len() == SHORT_WORDS {
                // A constant length.
                to.copy_from_nonoverlapping(words.as_ptr().cast(), SHORT_WORDS * 8);
                return;
            }
            to.copy_from_nonoverlapping(words.as_ptr().cast(), words.len() * 8);
            to.add(words.len() * 8).copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        }
    }

    /// Publishes that the slots before `slots` are complete and hold this number of records.
    #[inline]
    pub(crate) fn commit(&self, slots: usize, records: u32) {
        #[expect(clippy::cast_possible_truncation, reason = "at most `SLOTS_PER_CHUNK`")]
        let word = LedgerLine::commit_word(slots as u32, records);
        self.counter().store(word, Ordering::Release);
    }

    /// Sets the number of its records that are in the file.
    pub(crate) fn set_flushed(&self, records: u32) {
        self.field(LedgerLine::FLUSHED_OFFSET).store(records, Ordering::Release);
    }

    /// Empties the chunk. Ordinals continue after those that it has used.
    fn reset(&self) {
        let (_, records) = self.committed();
        let next = self.first_ordinal().wrapping_add(records);
        self.commit(0, 0);
        self.set_flushed(0);
        self.field(LedgerLine::FIRST_ORDINAL_OFFSET).store(next, Ordering::Release);
        self.sealed.store(false, Ordering::Release);
        self.is_paged_out.store(false, Ordering::Relaxed);
    }

    /// Pages out again what was read of a chunk that is paged out.
    pub(crate) fn stay_paged_out(&self) {
        if self.is_paged_out.load(Ordering::Relaxed) {
            self.page_out();
        }
    }

    /// Unmaps the pages. Their contents stay in the file; reading maps them again.
    fn page_out(&self) {
        self.is_paged_out.store(true, Ordering::Relaxed);
        // SAFETY: the mapping is a shared file: dropping its pages loses nothing.
        unsafe { libc::madvise(self.start.cast(), CHUNK_BYTES, libc::MADV_DONTNEED) };
    }
}

const _: () = assert!(cfg!(target_endian = "little"));

/// The files of a recording, by the numbers of their chunks.
#[derive(Debug, Default)]
struct Files {
    /// The first number of each.
    first_numbers: Vec<u32>,
    next_number: u32,
}

/// All chunks of one recorder.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// The folder of the journal; `None` while no window that is open owns one: chunks are then memory.
    folder: Mutex<Option<PathBuf>>,
    session: u64,
    ledger: Arc<Mapping>,
    /// Locked while a file is created.
    files: Mutex<Files>,
    ready: Mutex<Vec<Arc<Chunk>>>,
    /// A chunk is ready again.
    recycled: Condvar,
    /// How many are sealed and not in the file yet.
    sealed: AtomicUsize,
    /// Chunks taken since the writer's last check.
    fresh: Mutex<Vec<Arc<Chunk>>>,
    /// How many were taken since the writer's last check.
    demand: AtomicUsize,
    mapped: AtomicUsize,
    /// How many threads have one.
    owned: AtomicUsize,
    /// How many may have their pages in memory.
    most_mapped: usize,
    /// How many threads may have their own chunk; the others share one.
    most_owned: usize,
    most_sealed: usize,
}

impl Chunks {
    /// The chunks in `folder`, which exists, or in memory. Fails when none can be created there.
    pub(crate) fn create(
        folder: Option<PathBuf>,
        session: u64,
        max_memory: u64,
    ) -> io::Result<Self> {
        let ledger = match &folder {
            Some(folder) => {
                let path = folder.join(LEDGER_NAME);
                // Mapping a page that was written is faster than a page fault.
                let first_page = [0; PAGE_BYTES];
                Mapping::create(&path, LEDGER_BYTES, MOST_CHUNKS, |file| {
                    file.write_all(&first_page)
                })?
            }
            None => Mapping::of_memory(LEDGER_BYTES)?,
        };
        ledger.write(0, &ledger_header(session, LEDGER_BYTES));
        let most_mapped = Budget::journal_bytes(max_memory) / CHUNK_BYTES as u64;
        let most_mapped = usize::try_from(most_mapped).unwrap_or(64).max(2);
        let chunks = Self {
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
        // Created now, so that a failure is reported at the start.
        match chunks.make(1) {
            Ok(()) => Ok(chunks),
            Err(error) => {
                chunks.remove();
                Err(error)
            }
        }
    }

    /// Keeps chunks ready, so that no thread of the program has to create one.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        // A program that took many since the last round will take as many until the next one.
        let demand = self.demand.swap(0, Ordering::Relaxed);
        let wanted = demand.max(READY_AHEAD).min(self.most_mapped / 4);
        let room = self.most_mapped.saturating_sub(self.mapped.load(Ordering::Relaxed));
        let ready = self.ready.lock().len();
        self.make(wanted.min(ready + room))
    }

    /// The name of the file whose first chunk has this number.
    fn file_name(&self, number: u32) -> String {
        format!("{:016x}-{number:08}.{CHUNK_EXTENSION}", self.session)
    }

    fn path(&self, number: u32) -> Option<PathBuf> {
        // Another recording may have taken the name of a folder that was removed.
        let folder = self.folder.lock();
        folder.as_ref().map(|folder| folder.join(self.file_name(number)))
    }

    /// Creates files until `target` chunks are ready.
    fn make(&self, wanted: usize) -> io::Result<()> {
        let mut files = self.files.lock();
        // Another thread may have created them while this one waited for the lock.
        while self.ready.lock().len() < wanted {
            let first = files.next_number;
            let usual = if first == 0 { CHUNKS_OF_FIRST_FILE } else { CHUNKS_PER_FILE };
            let mut count = usual.min(self.most_mapped).min(MOST_CHUNKS - first as usize);
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

    /// The chunks of a file are ready.
    fn add(&self, file: &Arc<Mapping>, first: u32, count: usize) {
        self.mapped.fetch_add(count, Ordering::Relaxed);
        let made = (first..).zip((0..).step_by(CHUNK_BYTES)).take(count).map(|(number, at)| {
            // SAFETY: inside the file, which has room for all of them; the ledger has a line for each.
            let (start, line) =
                unsafe { (file.addr.add(at), self.ledger.addr.add(ledger_line_offset(number))) };
            Arc::new(Chunk {
                start,
                line,
                _mappings: [Arc::clone(file), Arc::clone(&self.ledger)],
                sealed: AtomicBool::new(false),
                is_paged_out: AtomicBool::new(false),
            })
        });
        self.ready.lock().extend(made);
    }

    /// Creates a file of `count` chunks.
    fn make_file(&self, first: u32, count: usize) -> io::Result<Arc<Mapping>> {
        let bytes = count * CHUNK_BYTES;
        let file = match self.path(first) {
            Some(path) => Mapping::create(&path, bytes, first as usize, |file| {
                let mut chunk = vec![0; CHUNK_BYTES];
                (first..).take(count).try_for_each(|number| {
                    let header = chunk_header(self.session, number);
                    chunk[..header.len()].copy_from_slice(&header);
                    file.write_all(&chunk)
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

    /// Whether one more thread may have its own chunk.
    pub(crate) fn has_room(&self) -> bool {
        self.owned.load(Ordering::Relaxed) < self.most_owned
    }

    /// A chunk for a thread, or for those that share one.
    pub(crate) fn take(&self) -> io::Result<Arc<Chunk>> {
        let chunk = loop {
            // Not in the condition: the lock would be held until the chunks are created.
            let ready = self.ready.lock().pop();
            match ready {
                Some(chunk) => break chunk,
                None => self.make(1)?,
            }
        };
        chunk.reset();
        self.owned.fetch_add(1, Ordering::Relaxed);
        self.demand.fetch_add(1, Ordering::Relaxed);
        self.fresh.lock().push(Arc::clone(&chunk));
        Ok(chunk)
    }

    /// Whether the next thread that needs a chunk has to wait for the writer.
    pub(crate) fn is_full(&self) -> bool {
        let is_in_memory = self.folder.lock().is_none();
        let most_sealed = if is_in_memory { self.most_mapped / 4 } else { self.most_sealed };
        self.sealed.load(Ordering::Relaxed) >= most_sealed && self.ready.lock().is_empty()
    }

    /// Waits a short time for a chunk.
    pub(crate) fn wait(&self, longest: Duration) {
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            self.recycled.wait_for(&mut ready, longest);
        }
    }

    /// A thread is done with a chunk.
    pub(crate) fn seal(&self, chunk: &Chunk) {
        let sealed = self.sealed.fetch_add(1, Ordering::Relaxed) + 1;
        let owned = self.owned.fetch_sub(1, Ordering::Relaxed) - 1;
        if owned + sealed + self.ready.lock().len() > self.most_mapped {
            chunk.page_out();
        }
        chunk.sealed.store(true, Ordering::Release);
    }

    /// The chunks that were taken since the last call.
    pub(crate) fn take_fresh(&self) -> Vec<Arc<Chunk>> {
        std::mem::take(&mut *self.fresh.lock())
    }

    /// Keeps a chunk whose records are in the file for later: creating one costs more than filling it.
    pub(crate) fn recycle(&self, chunk: Arc<Chunk>) {
        chunk.reset();
        let sealed = self.sealed.fetch_sub(1, Ordering::Relaxed) - 1;
        let owned = self.owned.load(Ordering::Relaxed);
        let mut ready = self.ready.lock();
        if owned + sealed.min(self.most_mapped / 4) + ready.len() >= self.most_mapped {
            chunk.page_out();
            // The most recent one is used first.
            ready.insert(0, chunk);
        } else {
            ready.push(chunk);
        }
        drop(ready);
        self.recycled.notify_one();
    }

    /// The window that owns the journal is complete: its files lose their names. Chunks that threads write stay
    /// mapped, and new ones are memory.
    pub(crate) fn remove(&self) {
        let files = self.files.lock();
        let Some(folder) = self.folder.lock().take() else { return };
        for &number in &files.first_numbers {
            let _ = std::fs::remove_file(folder.join(self.file_name(number)));
        }
        let _ = std::fs::remove_file(folder.join(LEDGER_NAME));
    }
}

#[cfg(test)]
mod tests;
