//! The storages in host memory that are live when a recording begins.
//!
//! torch has no list of them. Python does not see them all: autograd saves outputs in C++ objects, and
//! other threads free tensors without the GIL. So the process's own writable memory is searched for
//! `c10::StorageImpl` objects, which begin with the address of their table of virtual functions
//! ([`crate::blocks::tensor_storage`]). A storage that was destroyed has a reference count of zero, or its memory has
//! other contents. Only blocks of torch's own CPU allocator count, as in the recording itself.
//!
//! Memory is copied by the kernel (`/proc/self/mem`), so a mapping that another thread removes in the meantime is an
//! error and no fault. `process_vm_readv` would do the same, but it gives a forked process a copy of its own of every
//! page that it reads. Pages that were never touched are not read (`/proc/self/pagemap`). The hooks are installed
//! before the search: allocations during it precede the found blocks in the journal, and freed blocks are left out
//! ([`crate::blocks::initial_blocks`]).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use floodmark_trace::Device;

use crate::blocks::initial_blocks::{InitialBlock, InitialBlocks};
use crate::blocks::tensor_storage::{Pattern, STORAGE_WORDS};

const WORD_BYTES: usize = size_of::<u64>();
const STORAGE_BYTES: usize = STORAGE_WORDS * WORD_BYTES;
/// The bytes copied at a time.
const COPIED_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// The most memory to search: about a second.
const MOST_BYTES: u64 = 4 << 30;

/// Records the storages in host memory that are live now. Returns how many bytes of the
/// process's memory were not searched; none when the layout of storages is not proven, or when the kernel
/// does not allow the search.
pub fn record_host_blocks() -> Option<u64> {
    let list = InitialBlocks::begin();
    let (found, unsearched) = search(Pattern::proven()?, MOST_BYTES)?;
    let block = |(&addr, &bytes): (&u64, &u64)| InitialBlock {
        device: Device::CPU,
        addr,
        bytes,
        requested: bytes,
        is_segment: false,
    };
    list.record(&found.iter().map(block).collect::<Vec<_>>());
    Some(unsearched)
}

/// Addresses and sizes of live blocks, and how much memory was not searched.
fn search(pattern: Pattern, most_bytes: u64) -> Option<(BTreeMap<u64, u64>, u64)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let pages = Pages::new()?;
    let buffer = Buffer::new()?;
    if buffer.copy(maps.as_ptr() as usize, WORD_BYTES).is_empty() {
        return None;
    }
    let mut search = Search { pattern, buffer, found: BTreeMap::new(), left: most_bytes };
    let mut unsearched = 0;
    for mapping in maps.lines().filter_map(heap_range) {
        let mut at = search.after_mapped_chunks(&mapping);
        while let Some(touched) = pages.next_touched(at..mapping.end) {
            unsearched += search.range(&touched);
            at = touched.end;
        }
    }
    Some((search.found, unsearched))
}

/// Which pages were touched.
struct Pages {
    /// `/proc/self/pagemap`: a word for each page of the process.
    file: File,
    page_bytes: usize,
}

impl Pages {
    fn new() -> Option<Self> {
        // SAFETY: returns a number.
        let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        Some(Self { file: File::open("/proc/self/pagemap").ok()?, page_bytes })
    }

    /// The first run of pages in a range that are in memory or swapped out; all pages where the kernel does not report it.
    fn next_touched(&self, range: Range<usize>) -> Option<Range<usize>> {
        const PRESENT_OR_SWAPPED: u64 = 3 << 62;
        let mut entries = [0_u8; 512 * WORD_BYTES];
        let mut start = None;
        let mut at = range.start;
        while at < range.end {
            let pages = (range.end - at).div_ceil(self.page_bytes).min(512);
            let entries = &mut entries[..pages * WORD_BYTES];
            let offset = at / self.page_bytes * WORD_BYTES;
            if self.file.read_exact_at(entries, offset as u64).is_err() {
                return Some(start.unwrap_or(at)..range.end);
            }
            for (number, entry) in entries.as_chunks::<WORD_BYTES>().0.iter().enumerate() {
                let page = (at / self.page_bytes + number) * self.page_bytes;
                let is_touched = u64::from_ne_bytes(*entry) & PRESENT_OR_SWAPPED != 0;
                match start {
                    None if is_touched => start = Some(page.max(range.start)),
                    Some(start) if !is_touched => return Some(start..page),
                    None | Some(_) => {}
                }
            }
            at = (at / self.page_bytes + pages) * self.page_bytes;
        }
        start.map(|start| start..range.end)
    }
}

/// The addresses of a line of `/proc/self/maps`, where a heap can be: private, writable, without a file.
fn heap_range(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (range, rights, inode) = (fields.next()?, fields.next()?, fields.nth(2)?);
    let is_stack = fields.next().is_some_and(|name| name.starts_with("[stack"));
    if rights != "rw-p" || inode != "0" || is_stack {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

/// Copies of the process's memory, in a shared mapping, so that the copies are not searched.
struct Buffer {
    words: *mut u64,
    /// `/proc/self/mem`.
    process: File,
}

impl Buffer {
    fn new() -> Option<Self> {
        let process = File::open("/proc/self/mem").ok()?;
        // SAFETY: fresh pages of our own.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                COPIED_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (memory != libc::MAP_FAILED).then_some(Self { words: memory.cast(), process })
    }

    /// The words at an address, as many as can be read; at most [`COPIED_BYTES`].
    fn copy(&self, from: usize, bytes: usize) -> &[u64] {
        // SAFETY: the buffer has that many bytes, which were mapped as zeros, and no other code has it.
        let to = unsafe {
            std::slice::from_raw_parts_mut(self.words.cast::<u8>(), bytes.min(COPIED_BYTES))
        };
        let copied = self.process.read_at(to, from as u64).unwrap_or(0);
        // SAFETY: the buffer has that many words, and the mutable slice of it is not used again.
        unsafe { std::slice::from_raw_parts(self.words, copied / WORD_BYTES) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no slice of it is left.
        unsafe { libc::munmap(self.words.cast(), COPIED_BYTES) };
    }
}

struct Search {
    pattern: Pattern,
    buffer: Buffer,
    found: BTreeMap<u64, u64>,
    /// How many more bytes may be searched.
    left: u64,
}

impl Search {
    /// Searches memory. Returns the bytes that were not searched.
    fn range(&mut self, range: &Range<usize>) -> u64 {
        let mut at = range.start;
        while at + STORAGE_BYTES <= range.end {
            if self.left == 0 {
                return (range.end - at) as u64;
            }
            let words = self.buffer.copy(at, range.end - at);
            let copied = words.len() * WORD_BYTES;
            self.left = self.left.saturating_sub(copied.max(PAGE_BYTES) as u64);
            let vtable = self.pattern.vtable;
            let mut rest = words;
            while let Some(start) = rest.iter().position(|&word| word == vtable) {
                let storage = rest[start..].first_chunk::<STORAGE_WORDS>();
                if let Some((data, bytes)) = storage.and_then(|words| self.pattern.block(words)) {
                    let known = self.found.entry(data).or_default();
                    *known = bytes.max(*known);
                }
                rest = &rest[start + 1..];
            }
            // A storage may start in the last words of the copy. A page that cannot be read is skipped.
            at += match copied {
                0..STORAGE_BYTES => PAGE_BYTES - at % PAGE_BYTES,
                _ => copied - STORAGE_BYTES + WORD_BYTES,
            };
        }
        0
    }

    /// The end of the large blocks at the start of a mapping: glibc maps each separately, and the kernel
    /// joins neighbours. They begin with zero and their size, with the second bit set, and contain no
    /// storages.
    fn after_mapped_chunks(&self, range: &Range<usize>) -> usize {
        let mut at = range.start;
        while at + PAGE_BYTES <= range.end {
            let Some(&[0, size]) = self.buffer.copy(at, 2 * WORD_BYTES).first_chunk() else {
                break;
            };
            let bytes = usize::try_from(size & !7).unwrap_or(usize::MAX);
            let is_chunk = size & 7 == 2 && bytes != 0 && bytes.is_multiple_of(PAGE_BYTES);
            if !is_chunk || bytes > range.end - at {
                break;
            }
            at += bytes;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of a storage: vtable, counts, data, deleter, context, device, size.
    fn storage(vtable: u64, data: u64, bytes: u64) -> Vec<u64> {
        with_counts(vtable, data, bytes, 1 | 1 << 32)
    }

    fn with_counts(vtable: u64, data: u64, bytes: u64, counts: u64) -> Vec<u64> {
        vec![vtable, counts, data, 0x1234_5678, data, 0xff00, bytes]
    }

    #[test]
    fn live_storages_are_found_wherever_they_are() {
        let pattern = Pattern { vtable: 0x7abc_0000_1230, deleter: 0x1234_5678 };
        let live = storage(pattern.vtable, 0x2000, 64);
        let same_data = storage(pattern.vtable, 0x2000, 128);
        let destroyed = with_counts(pattern.vtable, 0x3000, 64, 1 << 32);
        let kept = std::thread::spawn(move || storage(pattern.vtable, 0x4000, 8)).join().unwrap();
        let (found, unsearched) = search(pattern, u64::MAX).expect("the kernel copies our memory");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(0x2000, 128), (0x4000, 8)]);
        assert_eq!(unsearched, 0);
        drop((live, same_data, destroyed, kept));
    }

    #[test]
    fn a_storage_at_the_seam_of_two_copies_is_found() {
        let pattern = Pattern { vtable: 0x7abc_7777_0008, deleter: 0x1234_5678 };
        let mut memory = vec![0_u64; 3 * COPIED_BYTES / WORD_BYTES];
        let start = memory.as_ptr() as usize;
        for first in 0..STORAGE_WORDS {
            let at = COPIED_BYTES / WORD_BYTES - first;
            memory[at..at + STORAGE_WORDS].copy_from_slice(&storage(pattern.vtable, 0x9000, 16));
            let buffer = Buffer::new().expect("a megabyte");
            let mut search = Search { pattern, buffer, found: BTreeMap::new(), left: u64::MAX };
            assert_eq!(search.range(&(start..start + 2 * COPIED_BYTES)), 0);
            assert_eq!(search.found.len(), 1, "{first} words before the seam");
            memory[at..at + STORAGE_WORDS].fill(0);
        }
    }

    #[test]
    fn changes_without_time_are_counted() {
        let pattern = Pattern { vtable: 0x7abc_8888_0008, deleter: 0x1234_5678 };
        let live = storage(pattern.vtable, 0x1000, 4093);
        let buffer = Buffer::new().expect("a megabyte");
        let mut search = Search { pattern, buffer, found: BTreeMap::new(), left: 0 };
        let start = live.as_ptr() as usize;
        let range = start..start + STORAGE_BYTES;
        assert_eq!(search.range(&range), STORAGE_BYTES as u64);
        search.left = 1;
        assert_eq!(search.range(&range), 0);
        assert_eq!(search.found.into_iter().collect::<Vec<_>>(), [(0x1000, 4093)]);
    }

    #[test]
    fn pages_that_were_never_touched_are_passed() {
        let (pages, bytes) = (Pages::new().expect("a list of pages"), 1 << 24);
        let memory = vec![0_u8; bytes];
        let start = (memory.as_ptr() as usize).next_multiple_of(pages.page_bytes);
        let touch = |page: usize| {
            let at = (start + page * pages.page_bytes) as *mut u8;
            // SAFETY: inside of `memory`, which is alive.
            unsafe { at.write_volatile(1) };
        };
        touch(700);
        touch(2000);
        let mut found = Vec::new();
        let mut at = start;
        while let Some(run) = pages.next_touched(at..start + 3000 * pages.page_bytes) {
            found.extend((run.start..run.end).step_by(pages.page_bytes));
            at = run.end;
        }
        // The kernel may have given more than a page at a time.
        for page in [700, 2000] {
            assert!(found.contains(&(start + page * pages.page_bytes)), "{page}");
        }
        assert!(found.len() < 3000);
        drop(memory);
    }

    #[test]
    fn only_private_memory_without_a_file_is_a_heap() {
        let heap = "5581a000-5581c000 rw-p 00000000 00:00 0     [heap]";
        assert_eq!(heap_range(heap), Some(0x5581_a000..0x5581_c000));
        assert_eq!(heap_range("7f00-7f10 rw-p 00000000 00:00 0"), Some(0x7f00..0x7f10));
        for other in [
            "7f00-7f10 r--p 00000000 00:00 0",
            "7f00-7f10 rw-s 00000000 00:01 7 /dev/zero (deleted)",
            "7f00-7f10 rw-p 00001000 fe:00 93 /usr/lib/libc.so.6",
            "7f00-7f10 rw-p 00000000 00:00 0 [stack]",
            "",
        ] {
            assert_eq!(heap_range(other), None, "{other}");
        }
    }
}
