//! The forward stack that a backward allocation belongs to.
//!
//! Every node of the autograd graph gets a number from a counter of the thread that creates it. A hook replaces
//! the function of that counter and stores the call stack under the number. When backward allocates, torch has
//! the running node; its number and thread lead back to the stack. This is exact, also for operators that
//! allocate nothing in forward.
//!
//! A node's layout (`torch/csrc/autograd/function.h`, later `node.h`): vtable, then its reference counts,
//! then `sequence_nr_`, `topological_nr_`, `has_parent_`, `thread_id_`, a word each. The counts are the two
//! words of `enable_shared_from_this` (2.1 to 2.11), or the one of `c10::intrusive_ptr_target` (2.15).

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::node::Node;
use crate::budget::Budget;
use floodmark_slots::find_symbol;

/// The number of a thread's latest nodes that are stored: 8 MiB for each thread that runs forward.
const REMEMBERED: usize = 1 << 20;
/// torch numbers its threads from 1 upward.
const MOST_THREADS: usize = 4096;

/// The offset of `sequence_nr_` in a node of a `std::shared_ptr`, and of a `c10::intrusive_ptr`.
const SEQUENCE_SHARED: usize = 24;
const SEQUENCE_INTRUSIVE: usize = 16;
/// From `sequence_nr_` to `thread_id_`.
const THREAD_AFTER_SEQUENCE: usize = 24;

/// Per torch thread: the stacks of its latest nodes.
static RINGS: [AtomicPtr<AtomicU64>; MOST_THREADS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_THREADS];

static GET_CURRENT_NODE: AtomicUsize = AtomicUsize::new(0);
static CURRENT_THREAD_ID: AtomicUsize = AtomicUsize::new(0);
/// The offset of `sequence_nr_` in this torch.
static SEQUENCE_OFFSET: AtomicUsize = AtomicUsize::new(0);

/// The offset for this torch, by the mangled name of a function that takes a weak pointer to a node.
fn sequence_offset() -> Option<usize> {
    let shared =
        c"_ZN5torch8autograd4impl20set_grad_accumulatorERKN2at6TensorESt8weak_ptrINS0_4NodeEE";
    let intrusive = c"_ZN5torch8autograd4impl20set_grad_accumulatorERKN2at6TensorEN3c1018weak_intrusive_ptrINS0_4NodeENS6_6detail34intrusive_target_default_null_typeIS8_EEEE";
    if find_symbol(shared).is_some() {
        return Some(SEQUENCE_SHARED);
    }
    find_symbol(intrusive).map(|_| SEQUENCE_INTRUSIVE)
}

/// Looks up torch's functions. Returns whether all were found.
pub(crate) fn attach() -> bool {
    let offset = sequence_offset();
    // The function needs the layout.
    let node =
        offset.and_then(|_| find_symbol(c"_ZN5torch8autograd16get_current_nodeEv")).unwrap_or(0);
    let thread = find_symbol(c"_ZN2at14RecordFunction15currentThreadIdEv").unwrap_or(0);
    SEQUENCE_OFFSET.store(offset.unwrap_or(0), Ordering::Release);
    GET_CURRENT_NODE.store(node, Ordering::Release);
    CURRENT_THREAD_ID.store(thread, Ordering::Release);
    node != 0 && thread != 0
}

/// Whether torch's functions were found.
pub(crate) fn is_attached() -> bool {
    CURRENT_THREAD_ID.load(Ordering::Acquire) != 0
}

/// The pages of a thread's ring that are in use in this recording.
#[derive(Debug, Default)]
pub(crate) struct RingPages {
    last: Option<usize>,
    count: usize,
}

/// Nodes per page of a ring.
const NODES_PER_PAGE: usize = 4096 / size_of::<AtomicU64>();

impl RingPages {
    /// Takes memory for the page of a node before it is stored.
    pub(crate) fn make_room(&mut self, sequence: u64, budget: &Budget) -> bool {
        let page = place(sequence).0 / NODES_PER_PAGE;
        if self.last == Some(page) {
            return true;
        }
        // After the first round all pages are in use already.
        if self.count * NODES_PER_PAGE < REMEMBERED {
            if !budget.take(4096) {
                return false;
            }
            self.count += 1;
        }
        self.last = Some(page);
        true
    }
}

/// torch's number of this thread.
pub(crate) fn torch_thread() -> Option<usize> {
    let function = CURRENT_THREAD_ID.load(Ordering::Acquire);
    if function == 0 {
        return None;
    }
    // SAFETY: `static uint64_t at::RecordFunction::currentThreadId()`.
    let id =
        unsafe { std::mem::transmute::<usize, unsafe extern "C-unwind" fn() -> u64>(function)() };
    usize::try_from(id).ok().filter(|&id| id < MOST_THREADS)
}

fn ring(thread: usize) -> Option<*mut AtomicU64> {
    let ring = RINGS[thread].load(Ordering::Acquire);
    (!ring.is_null()).then_some(ring)
}

/// Creates the ring of a torch thread; only that thread calls it.
fn make_ring(thread: usize) -> Option<*mut AtomicU64> {
    let bytes = REMEMBERED * size_of::<AtomicU64>();
    // SAFETY: fresh zero pages, touched only as nodes are made; kept for the life of the process, since
    // backward may run on any thread at any time.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return None;
    }
    RINGS[thread].store(memory.cast(), Ordering::Release);
    Some(memory.cast())
}

#[expect(clippy::cast_possible_truncation, reason = "the low half tells rounds of the ring apart")]
fn place(sequence: u64) -> (usize, u64) {
    (sequence as usize % REMEMBERED, u64::from(sequence as u32) << 32)
}

/// Stores the call stack of the node with this number.
pub(crate) fn remember(thread: usize, sequence: u64, node: Node) {
    let Some(ring) = ring(thread).or_else(|| make_ring(thread)) else { return };
    let (at, tag) = place(sequence);
    // Node ids stay far below 2^24: 24 bits of id, 8 of flags.
    let value = tag | u64::from(node.id) << 8 | u64::from(node.flags);
    // SAFETY: `at` is below the ring's length, and rings are never unmapped.
    unsafe { (*ring.add(at)).store(value, Ordering::Release) };
}

/// The call stack under which a node was created.
fn recall(thread: usize, sequence: u64) -> Option<Node> {
    let (at, tag) = place(sequence);
    // SAFETY: as in `remember`.
    let value = unsafe { (*ring(thread)?.add(at)).load(Ordering::Acquire) };
    if value & !0xffff_ffff != tag || value == 0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the fields that `remember` packed")]
    Some(Node { id: (value as u32) >> 8, flags: value as u8 })
}

/// Clears all stacks: their numbers belong to a recording that has ended.
pub(crate) fn forget_all() {
    for ring in &RINGS {
        let ring = ring.load(Ordering::Acquire);
        if !ring.is_null() {
            // SAFETY: the mapping is private and anonymous: it reads as zero afterwards.
            unsafe {
                let bytes = REMEMBERED * size_of::<AtomicU64>();
                libc::madvise(ring.cast(), bytes, libc::MADV_DONTNEED);
            }
        }
    }
}

/// A `std::shared_ptr` or `c10::intrusive_ptr` as it is returned: through a hidden pointer, since it has a
/// destructor. The tail makes it too large for registers, so that Rust passes the same hidden pointer.
#[repr(C)]
struct ReturnedPointer {
    object: usize,
    /// Not written by an intrusive pointer.
    control: std::mem::MaybeUninit<usize>,
    tail: [std::mem::MaybeUninit<usize>; 4],
}

/// The node that the autograd engine runs on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackwardState {
    /// No backward pass runs on this thread.
    NotRunning,
    /// The backward of a node that was created under this stack.
    Backward(Node),
    /// The backward of a node whose stack is not known.
    Unknown,
}

/// The node that the autograd engine runs on this thread.
pub(crate) fn backward_state() -> BackwardState {
    let function = GET_CURRENT_NODE.load(Ordering::Acquire);
    if function == 0 {
        return BackwardState::NotRunning;
    }
    let offset = SEQUENCE_OFFSET.load(Ordering::Relaxed);
    // SAFETY: `std::shared_ptr<Node> torch::autograd::get_current_node()`, or `c10::intrusive_ptr<Node>`:
    // `attach` has found out which. The engine holds the node twice while it runs (in its task and in the
    // variable that is read here), so releasing our reference by hand never deletes it, nor touches the
    // node's Python object. The count is the 32-bit word at 8 of libstdc++'s control block, or of the node.
    unsafe {
        let ReturnedPointer { object: node, control, .. } = std::mem::transmute::<
            usize,
            unsafe extern "C-unwind" fn() -> ReturnedPointer,
        >(function)();
        if node == 0 {
            return BackwardState::NotRunning;
        }
        let sequence = ((node + offset) as *const u64).read();
        let thread = ((node + offset + THREAD_AFTER_SEQUENCE) as *const u64).read();
        let counted = if offset == SEQUENCE_INTRUSIVE { node } else { control.assume_init() };
        if counted != 0 {
            AtomicI32::from_ptr((counted + 8) as *mut i32).fetch_sub(1, Ordering::Release);
        }
        let thread = usize::try_from(thread).ok().filter(|&id| id < MOST_THREADS);
        let forward = thread.and_then(|thread| recall(thread, sequence));
        forward.map_or(BackwardState::Unknown, BackwardState::Backward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_recorder::alone;

    #[test]
    fn a_node_is_recalled_until_its_place_is_taken() {
        let _alone = alone();
        let node = Node { id: 70_000, flags: 5 };
        remember(4000, 7, node);
        assert_eq!(recall(4000, 7), Some(node));
        assert_eq!(recall(4000, 8), None);
        assert_eq!(recall(4000, 7 + REMEMBERED as u64), None);
        remember(4000, 7 + REMEMBERED as u64, Node { id: 1, flags: 0 });
        assert_eq!(recall(4000, 7), None);
    }

    #[test]
    fn memory_is_taken_for_each_page_of_a_ring_once() {
        // A quarter is for tables: two pages.
        let budget = Budget::new(4 * 2 * 4096);
        let mut pages = RingPages::default();
        let page = NODES_PER_PAGE as u64;
        let took = [0, 1, page - 1, page, 2 * page - 1, 2 * page, 2 * page + 1]
            .map(|sequence| pages.make_room(sequence, &budget));
        assert_eq!(took, [true, true, true, true, true, false, false]);
        assert!(pages.make_room(page, &budget), "the page before is in use already");
    }

    #[test]
    fn after_one_lap_all_pages_are_in_use() {
        let budget = Budget::new(4 * (8 << 20));
        let mut pages = RingPages::default();
        for sequence in (0..3 * REMEMBERED as u64).step_by(NODES_PER_PAGE) {
            assert!(pages.make_room(sequence, &budget));
        }
        assert!(!budget.take(1), "a ring is 8 MiB");
    }

    #[test]
    fn stacks_of_an_earlier_recording_are_forgotten() {
        let _alone = alone();
        remember(4001, 7, Node { id: 9, flags: 0 });
        forget_all();
        assert_eq!(recall(4001, 7), None);
    }
}
