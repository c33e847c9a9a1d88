//! The address of a tensor, read from its C++ objects without calling torch.
//!
//! The layouts, a word each, are the same in torch 2.1 to 2.11. `c10::TensorImpl`: vtable, reference counts,
//! `storage_`. `c10::StorageImpl`: vtable, reference counts, `data_`, deleter and context of `data_`, device,
//! `size_bytes_`. They are checked on a tensor that Python created; until then no tensor has an address.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use floodmark_trace::Device;

use crate::blocks::fake_blocks;
use crate::recorder::Sources;

const WORD_BYTES: usize = size_of::<usize>();
/// The words of a storage that are read.
pub(crate) const STORAGE_WORDS: usize = 7;

/// A tensor in host memory that Python created, and what Python reports of it. torch's CPU allocator has not allocated
/// it: a profiler of the program would report that.
#[derive(Debug, Clone, Copy)]
pub struct KnownTensor {
    /// The address of its `c10::TensorImpl`.
    pub tensor: usize,
    /// The address of its `c10::StorageImpl`.
    pub storage: usize,
    /// The address of its data.
    pub data: u64,
    /// The size of its storage.
    pub bytes: u64,
    /// The address of another `c10::StorageImpl`: an empty one of torch's CPU allocator.
    pub empty: usize,
}

static IS_PROVEN: AtomicBool = AtomicBool::new(false);
/// The vtable of every storage, and the deleter of those in host memory.
static VTABLE: AtomicUsize = AtomicUsize::new(0);
static DELETER: AtomicUsize = AtomicUsize::new(0);

/// Compares the layouts with what Python reports of a tensor. Returns whether they agree.
///
/// Both storages must be alive.
pub fn prove_tensors(known: KnownTensor) -> bool {
    // SAFETY: both objects are alive and larger than the words read: more of torch's fields follow.
    let (storage, words, empty) = unsafe {
        let storage = (known.tensor as *const usize).add(2).read();
        let words = |at: usize| &*(at as *const [u64; STORAGE_WORDS]);
        (storage, words(known.storage), words(known.empty))
    };
    let pattern = Pattern { vtable: empty[0], deleter: empty[3] };
    let of_known = Pattern { deleter: words[3], ..pattern };
    let is_proven = storage == known.storage
        && pattern.vtable != 0
        && pattern.deleter != 0
        && empty[6] == 0
        && of_known.block(words) == Some((known.data, known.bytes));
    let address = |word: u64| usize::try_from(word).unwrap_or(0);
    VTABLE.store(address(pattern.vtable), Ordering::Relaxed);
    DELETER.store(address(pattern.deleter), Ordering::Relaxed);
    IS_PROVEN.store(is_proven, Ordering::Release);
    is_proven
}

/// No process has addresses above this.
const ADDRESS_BITS: u32 = 47;

/// The words that identify a storage of torch's CPU allocator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub(crate) vtable: u64,
    pub(crate) deleter: u64,
}

impl Pattern {
    /// The pattern of this torch; none where the layouts are not proven.
    pub(crate) fn proven() -> Option<Self> {
        IS_PROVEN.load(Ordering::Acquire).then(|| Self {
            vtable: VTABLE.load(Ordering::Relaxed) as u64,
            deleter: DELETER.load(Ordering::Relaxed) as u64,
        })
    }

    /// The block of the storage with these words; none when it is not a live storage.
    pub(crate) fn block(&self, words: &[u64; STORAGE_WORDS]) -> Option<(u64, u64)> {
        // Word by word: a copy on this thread's stack would be found as one more storage.
        if words[0] != self.vtable || words[3] != self.deleter || words[5] & 0xff != 0 {
            return None;
        }
        // Live storages have one weak reference at least. The highest bit of the weak count is a flag.
        let (strong, weak) = (words[1] & 0xffff_ffff, words[1] >> 32 & 0x7fff_ffff);
        let is_live = (1..1 << 31).contains(&strong) && weak > 0;
        let is_number = |word: u64| word != 0 && word >> ADDRESS_BITS == 0;
        (is_live && is_number(words[2]) && is_number(words[6])).then_some((words[2], words[6]))
    }
}

/// The device and the address of a tensor's storage. None for a tensor without memory.
/// A fake tensor has the address that the engine has set.
///
/// # Safety
/// `tensor` is null, or points to an `at::Tensor` that no other thread changes now.
pub(crate) unsafe fn storage_of(sources: Sources, tensor: *const usize) -> Option<(Device, u64)> {
    if tensor.is_null() || !IS_PROVEN.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: an `at::Tensor` is a pointer to a `c10::TensorImpl`, also where it is undefined; every kind of
    // tensor derives from it. Its storage is null or alive.
    unsafe {
        let implementation = tensor.read();
        if implementation == 0 {
            return None;
        }
        let storage = ((implementation + 2 * WORD_BYTES) as *const usize).read();
        if storage == 0 {
            return None;
        }
        let fake = if sources.fake { fake_blocks::address_of_fake_storage(storage) } else { None };
        if fake.is_some() || !sources.torch {
            return fake;
        }
        let data = ((storage + 2 * WORD_BYTES) as *const u64).read();
        let [kind, index] = ((storage + 5 * WORD_BYTES) as *const [i8; 2]).read();
        (data != 0).then(|| (Device { kind, index }.canonical(), data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of a storage: vtable, counts, data, deleter, context, device, size.
    fn storage(data: u64, bytes: u64) -> [u64; STORAGE_WORDS] {
        [0x7abc_1230, 1 | 1 << 32, data, 0x1234_5678, data, 0xff00, bytes]
    }

    #[test]
    fn a_tensor_has_a_place_once_its_layout_is_proven() {
        let (mut borrowed, of_allocator) = (storage(0x1000, 4093), storage(0, 0));
        borrowed[3] = 0x8888;
        let (of_borrowed, empty) = (borrowed.as_ptr() as usize, of_allocator.as_ptr() as usize);
        let implementation = Box::new([0, 0, of_borrowed]);
        let tensor = implementation.as_ptr() as usize;
        let known = KnownTensor { tensor, storage: of_borrowed, data: 0x1000, bytes: 4093, empty };
        assert!(!prove_tensors(KnownTensor { bytes: 4092, ..known }));
        assert!(!prove_tensors(KnownTensor { empty: of_borrowed, ..known }));
        // SAFETY: the words above.
        let place =
            || unsafe { storage_of(Sources { torch: true, fake: false }, &raw const tensor) };
        assert_eq!(place(), None);
        assert!(prove_tensors(known));
        assert_eq!(place(), Some((Device::CPU, 0x1000)));
        assert_eq!(Pattern::proven().map(|pattern| pattern.deleter), Some(0x1234_5678));
    }

    #[test]
    fn only_live_blocks_of_the_cpu_allocator_count() {
        let pattern = Pattern { vtable: 0x7abc_1230, deleter: 0x1234_5678 };
        let live = storage(0x2000, 64);
        assert_eq!(pattern.block(&live), Some((0x2000, 64)));
        let with = |at: usize, word: u64| {
            let mut words = live;
            words[at] = word;
            pattern.block(&words)
        };
        let others = [
            with(0, 8),        // another class
            with(1, 1 << 32),  // destroyed
            with(2, 0),        // without memory
            with(3, 8),        // of another allocator
            with(5, 0x0001),   // on a GPU
            with(6, 0),        // empty
            with(6, u64::MAX), // of a size that is not a number
        ];
        assert_eq!(others, [None; 7]);
    }
}
