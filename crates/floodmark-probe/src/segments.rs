//! The files behind the journal: made, mapped, recycled.
//!
//! A segment is allocated on disk before it is mapped, so a full disk is an error here and never a signal
//! later, when a record is written into a page that has no place on disk.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use floodmark_trace::journal::{
    COMMITTED_OFFSET, SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SLOT_BYTES, SLOTS_PER_SEGMENT,
    segment_header,
};
use parking_lot::Mutex;

/// Segments that are made before anyone asks for them.
const READY_AHEAD: usize = 3;
/// Drained segments that are kept, since to make one costs more than to fill it.
const MOST_READY: usize = 16;

/// A mapped segment. One thread writes it, the writer thread reads what is committed.
#[derive(Debug)]
pub(crate) struct Segment {
    addr: *mut u8,
    number: u32,
    thread: AtomicU32,
    /// Its thread will write no more.
    pub(crate) sealed: AtomicBool,
}

// SAFETY: the mapping is shared memory; the one writer and the one reader meet at `committed`.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `create`, and nobody else has the address any more.
        unsafe { libc::munmap(self.addr.cast(), SEGMENT_BYTES) };
    }
}

impl Segment {
    /// The thread that writes it.
    #[expect(clippy::cast_possible_truncation, reason = "stored from a u16")]
    pub(crate) fn thread(&self) -> u16 {
        self.thread.load(Ordering::Relaxed) as u16
    }

    fn counter(&self) -> &AtomicU64 {
        // SAFETY: the header is mapped as long as the segment is, and the offset is a multiple of 8.
        unsafe { AtomicU64::from_ptr(self.addr.add(COMMITTED_OFFSET).cast()) }
    }

    /// How many slots are complete.
    pub(crate) fn committed(&self) -> usize {
        usize::try_from(self.counter().load(Ordering::Acquire)).unwrap_or(0).min(SLOTS_PER_SEGMENT)
    }

    /// The bytes of the slots before `end`, which must be committed.
    pub(crate) fn slots(&self, end: usize) -> &[u8] {
        let bytes = end.min(SLOTS_PER_SEGMENT) * SLOT_BYTES;
        // SAFETY: committed slots are never written again while anyone reads them.
        unsafe { std::slice::from_raw_parts(self.addr.add(SEGMENT_HEADER_BYTES), bytes) }
    }

    /// Writes into slots from `slot` on. Only the owner calls it, before it commits them.
    pub(crate) fn write(&self, slot: usize, bytes: &[u8]) {
        debug_assert!(slot * SLOT_BYTES + bytes.len() <= SLOTS_PER_SEGMENT * SLOT_BYTES);
        // SAFETY: the caller has checked that the slots are there; nobody reads them yet.
        unsafe {
            let to = self.addr.add(SEGMENT_HEADER_BYTES + slot * SLOT_BYTES);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Says that the slots before `end` are complete.
    pub(crate) fn commit(&self, end: usize) {
        self.counter().store(end as u64, Ordering::Release);
    }

    /// Begins anew, for another thread or another lap.
    fn reset(&self, session: u64, thread: u16) {
        self.commit(0);
        self.sealed.store(false, Ordering::Relaxed);
        self.thread.store(u32::from(thread), Ordering::Relaxed);
        let header = segment_header(session, thread);
        // `committed` is the header's only field that a reader trusts; it is zero already.
        // SAFETY: the header is mapped; nobody reads it before the first commit.
        unsafe { self.addr.copy_from_nonoverlapping(header.as_ptr(), COMMITTED_OFFSET) };
    }

    /// Lets go of the pages; what is in them stays in the file, and comes back when it is read.
    fn page_out(&self) {
        // SAFETY: the mapping is a shared file: dropping its pages loses nothing.
        unsafe { libc::madvise(self.addr.cast(), SEGMENT_BYTES, libc::MADV_DONTNEED) };
    }
}

/// All segments of one recording.
#[derive(Debug)]
pub(crate) struct Segments {
    folder: PathBuf,
    session: u64,
    next_number: AtomicU32,
    ready: Mutex<Vec<Arc<Segment>>>,
    /// Handed out since the writer last looked.
    fresh: Mutex<Vec<Arc<Segment>>>,
    mapped: AtomicUsize,
    most_mapped: usize,
}

impl Segments {
    /// Makes the folder. Fails when it cannot be made, or when one is there already.
    pub(crate) fn create(folder: PathBuf, session: u64, max_memory: u64) -> io::Result<Self> {
        std::fs::create_dir(&folder)?;
        let segments = Self {
            folder,
            session,
            next_number: AtomicU32::new(0),
            ready: Mutex::new(Vec::new()),
            fresh: Mutex::new(Vec::new()),
            mapped: AtomicUsize::new(0),
            // A quarter is for segments; tables and batches take the rest.
            most_mapped: usize::try_from(max_memory / 4 / SEGMENT_BYTES as u64)
                .unwrap_or(64)
                .max(4),
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

    /// Keeps segments ready, so that no thread of the program has to make one.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        while self.ready.lock().len() < READY_AHEAD {
            let segment = self.make()?;
            self.ready.lock().push(segment);
        }
        Ok(())
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:08}.seg"))
    }

    fn make(&self) -> io::Result<Arc<Segment>> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let path = self.path(number);
        let name = CString::new(path.as_os_str().as_bytes())?;
        let bytes = libc::off_t::try_from(SEGMENT_BYTES).expect("a megabyte");
        // SAFETY: plain system calls on a descriptor that is closed before it is forgotten.
        let addr = unsafe {
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            let file = libc::open(name.as_ptr(), flags, 0o600);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            let failed = libc::posix_fallocate(file, 0, bytes);
            if failed != 0 {
                libc::close(file);
                libc::unlink(name.as_ptr());
                return Err(io::Error::from_raw_os_error(failed));
            }
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let addr =
                libc::mmap(std::ptr::null_mut(), SEGMENT_BYTES, access, libc::MAP_SHARED, file, 0);
            let error = io::Error::last_os_error();
            libc::close(file);
            if addr == libc::MAP_FAILED {
                libc::unlink(name.as_ptr());
                return Err(error);
            }
            addr
        };
        for page in (0..SEGMENT_BYTES).step_by(4096) {
            // A page that is first touched inside a hook costs the program more than the record does.
            // SAFETY: inside the mapping, which is all zero and known to nobody yet.
            unsafe { addr.cast::<u8>().add(page).write_volatile(0) };
        }
        self.mapped.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Segment {
            addr: addr.cast(),
            number,
            thread: AtomicU32::new(0),
            sealed: AtomicBool::new(false),
        }))
    }

    /// A segment for a thread.
    pub(crate) fn take(&self, thread: u16) -> io::Result<Arc<Segment>> {
        let ready = self.ready.lock().pop();
        let segment = match ready {
            Some(segment) => segment,
            None => self.make()?,
        };
        segment.reset(self.session, thread);
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

    /// All of it is in the file: keep the segment for later, or remove it.
    pub(crate) fn recycle(&self, segment: Arc<Segment>) {
        let mut ready = self.ready.lock();
        if ready.len() < MOST_READY {
            // A reader that salvages must not see old records under a new session's eyes.
            segment.commit(0);
            ready.push(segment);
            return;
        }
        drop(ready);
        self.mapped.fetch_sub(1, Ordering::Relaxed);
        // A file that is gone already is as good.
        let _ = std::fs::remove_file(self.path(segment.number));
    }

    /// The recording is complete: no file of the journal is needed any more.
    pub(crate) fn remove(&self) {
        for number in 0..self.next_number.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(self.path(number));
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}
