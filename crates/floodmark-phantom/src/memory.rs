//! The addresses of a simulated device, up to its capacity.
//!
//! Every device has a stretch of the process's address space, backed by nothing: pages are mapped
//! only where a value is kept (`contents.rs`). Where a block is placed and how many bytes it takes are
//! rules of `floodmark-cuda-model`.

use std::collections::BTreeMap;
use std::ptr;

use floodmark_cuda_model::library_memory::{LibraryMemory, Use};
use floodmark_cuda_model::{AddressSpace, RANGE_BYTES, granted_bytes};

/// The memory of one device.
#[derive(Debug)]
pub(crate) struct Memory {
    start: u64,
    end: u64,
    space: AddressSpace,
    blocks: BTreeMap<u64, Block>,
    capacity: u64,
    used: u64,
    /// The part of `used` that was created and never mapped.
    unmapped: u64,
    peak: u64,
    /// What CUDA's libraries hold; a part of `used`.
    libraries: LibraryMemory,
    libraries_at_peak: LibraryMemory,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    /// The requested bytes.
    bytes: u64,
    /// The bytes of address space, and of capacity, that it uses.
    taken: u64,
}

impl Memory {
    /// Address space for a device of `capacity` bytes. `None` when the system refuses.
    pub(crate) fn new(capacity: u64, libraries: LibraryMemory) -> Option<Self> {
        // Four times the capacity, since freed address space is fragmented.
        let length = (capacity.max(1 << 36) * 4).next_multiple_of(RANGE_BYTES);
        let start = reserve(length, RANGE_BYTES)?;
        let end = start + length;
        let (space, blocks) = (AddressSpace::new(start..end), BTreeMap::new());
        let used = libraries.bytes();
        let (unmapped, peak, libraries_at_peak) = (0, used, libraries);
        Some(Self {
            start,
            end,
            space,
            blocks,
            capacity,
            used,
            unmapped,
            peak,
            libraries,
            libraries_at_peak,
        })
    }

    /// Whether the address is one of this device's own stretch.
    pub(crate) fn contains(&self, addr: u64) -> bool {
        (self.start..self.end).contains(&addr)
    }

    /// `cudaMalloc`: an address, or nothing when the device is full.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let taken = granted_bytes(bytes)?;
        if taken > self.free_bytes() {
            return None;
        }
        let addr = self.space.place(taken)?;
        self.blocks.insert(addr, Block { bytes, taken });
        self.charge(taken);
        Some(addr)
    }

    /// `cudaFree`: how many bytes were requested at that address, or nothing when it was not allocated.
    pub(crate) fn release(&mut self, addr: u64) -> Option<u64> {
        let block = self.blocks.remove(&addr)?;
        self.space.free(addr, block.taken);
        self.used -= block.taken;
        Some(block.bytes)
    }

    /// Memory without an address. It counts towards the peak once it is mapped: torch creates an expandable segment in small
    /// handles and releases them unmapped when one of them fails, and the program never uses that memory.
    pub(crate) fn create(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free_bytes();
        if fits {
            self.used += bytes;
            self.unmapped += bytes;
        }
        fits
    }

    /// What [`Memory::create`] created is mapped for the first time.
    pub(crate) fn map_created(&mut self, bytes: u64) {
        self.unmapped = self.unmapped.saturating_sub(bytes);
        self.charge(0);
    }

    /// Releases what [`Memory::create`] created.
    pub(crate) fn release_created(&mut self, bytes: u64, was_mapped: bool) {
        self.used = self.used.saturating_sub(bytes);
        if !was_mapped {
            self.unmapped = self.unmapped.saturating_sub(bytes);
        }
    }

    /// A library allocates memory for itself. `false` when the device is full.
    pub(crate) fn hold(&mut self, what: Use) -> bool {
        let after = self.libraries.with(what);
        let more = after.bytes() - self.libraries.bytes();
        let fits = more <= self.free_bytes();
        if fits {
            self.libraries = after;
            self.charge(more);
        }
        fits
    }

    /// A library frees what it allocated in [`Memory::hold`].
    pub(crate) fn release_held(&mut self, what: Use) {
        let after = self.libraries.without(what);
        self.used -= self.libraries.bytes() - after.bytes();
        self.libraries = after;
    }

    /// What libraries held at the peak.
    pub(crate) fn libraries_at_peak(&self) -> LibraryMemory {
        self.libraries_at_peak
    }

    /// The block that contains an address: its start and its requested length.
    pub(crate) fn block_of(&self, addr: u64) -> Option<(u64, u64)> {
        let (&start, block) = self.blocks.range(..=addr).next_back()?;
        (addr < start + block.taken).then_some((start, block.bytes))
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether more than the libraries had memory.
    pub(crate) fn is_used(&self) -> bool {
        self.peak > self.libraries_at_peak.bytes()
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    fn charge(&mut self, bytes: u64) {
        self.used += bytes;
        if self.used - self.unmapped > self.peak {
            self.peak = self.used - self.unmapped;
            self.libraries_at_peak = self.libraries;
        }
    }
}

/// Address space of that length, backed by nothing until it is written to.
pub(crate) fn reserve(length: u64, alignment: u64) -> Option<u64> {
    let whole = usize::try_from(length.checked_add(alignment)?).ok()?;
    // The same as without a file, but a search of the heaps of this process passes it by.
    // SAFETY: the path ends with a zero.
    let zeros = unsafe { libc::open(c"/dev/zero".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    let no_file = if zeros < 0 { libc::MAP_ANONYMOUS } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE | no_file;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the system's choice replaces no other.
    let start = unsafe { libc::mmap(ptr::null_mut(), whole, access, flags, zeros, 0) };
    if zeros >= 0 {
        // SAFETY: it was just opened; the mapping does not need it.
        unsafe { libc::close(zeros) };
    }
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range was just mapped; it is left out of core files, which it would fill.
    unsafe { libc::madvise(start, whole, libc::MADV_DONTDUMP) };
    Some((start as u64).next_multiple_of(alignment))
}

/// Returns the whole pages of a range to the system; they read as zeros afterwards. `false` where
/// it refuses.
pub(crate) fn discard(addr: u64, length: u64) -> bool {
    let (from, to) = (addr.next_multiple_of(4096), (addr + length) & !4095);
    if from >= to {
        return true;
    }
    let length = usize::try_from(to - from).unwrap_or(0);
    // SAFETY: the caller owns the range, which is private anonymous memory.
    unsafe { libc::madvise(from as *mut libc::c_void, length, libc::MADV_DONTNEED) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(capacity: u64) -> Memory {
        Memory::new(capacity, LibraryMemory::default()).expect("there is address space")
    }

    #[test]
    fn a_full_device_says_so_and_has_room_again_after_a_release() {
        let mut memory = memory(64 << 20);
        let block = memory.allocate(60 << 20).expect("there is room");
        assert_eq!(memory.allocate(6 << 20), None);
        assert_eq!(memory.release(block), Some(60 << 20));
        assert!(memory.allocate(64 << 20).is_some());
        assert_eq!(memory.free_bytes(), 0);
        assert_eq!(memory.peak(), 64 << 20);
    }

    #[test]
    fn memory_that_is_released_unmapped_is_not_part_of_the_peak() {
        let mut memory = memory(64 << 20);
        assert!(memory.create(20 << 20));
        memory.map_created(20 << 20);
        // Two handles of a segment of three, of which the last one fails.
        assert!(memory.create(20 << 20) && memory.create(20 << 20) && !memory.create(20 << 20));
        memory.release_created(20 << 20, false);
        memory.release_created(20 << 20, false);
        assert_eq!((memory.peak(), memory.free_bytes()), (20 << 20, 44 << 20));
        memory.release_created(20 << 20, true);
        assert_eq!((memory.peak(), memory.free_bytes()), (20 << 20, 64 << 20));
    }

    #[test]
    fn libraries_take_memory_that_the_program_does_not_get() {
        let mut memory = memory(200 << 20);
        assert!(memory.hold(Use::Kernel));
        let block = memory.allocate(100 << 20).expect("there is room");
        assert!(!memory.hold(Use::CublasHandle), "a handle needs more than is left");
        assert_eq!((memory.free_bytes(), memory.peak()), (8 << 20, 192 << 20));
        memory.release(block);
        assert!(memory.hold(Use::CublasHandle));
        assert_eq!(memory.libraries_at_peak().bytes(), 92 << 20, "of the peak, not of the end");
        assert!(memory.hold(Use::Graph(9_000)));
        memory.release_held(Use::Graph(9_000));
        assert_eq!(memory.free_bytes(), (200 - 92 - 66) << 20);
    }

    #[test]
    fn an_unknown_address_is_not_released() {
        let mut memory = memory(64 << 20);
        let block = memory.allocate(4096).expect("there is room");
        assert_eq!(memory.release(block + 512), None);
        assert_eq!(memory.release(block), Some(4096));
        assert_eq!(memory.release(block), None);
    }

    #[test]
    fn a_request_of_any_size_is_answered() {
        let mut memory = memory(64 << 20);
        assert_eq!(memory.allocate(u64::MAX), None);
        assert_eq!(memory.allocate(u64::MAX - 4096), None);
        assert!(memory.allocate(0).is_some());
    }
}
