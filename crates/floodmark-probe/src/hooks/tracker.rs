//! The caching allocator's own events: requested sizes, streams, pools, segments.
//!
//! The allocator has a virtual function that takes a callback for all its events. The native allocator's
//! functions are not exported, but the pluggable allocator's are, with their table: the function's index
//! in that table is its index in the native table too. Found this way at run time, it needs no header and
//! follows the versions (slot 28 in torch 2.4, 44 in 2.11, 50 in 2.15).
//!
//! A callback cannot be removed, so it is attached once and checks each time whether events are recorded.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use floodmark_trace::journal::{FLAG_NAME_LEFT_OUT, Record};
use floodmark_trace::{Device, EventKind, TextKind};

use crate::recorder::Recording;
use crate::recorder::TextNumber;
use crate::recorder::names::handle_id;
use crate::recorder::{Local, with_recording};
use crate::switches::ENABLED;
use floodmark_slots::{find_symbol, find_symbol_by_prefix};

/// `c10::CachingDeviceAllocator::TraceEntry`, as far as its layout is the same from 2.2 to 2.15.
#[repr(C)]
struct TraceEntry {
    action: i32,
    device: i8,
    addr: usize,
    context: [usize; 2],
    stream: usize,
    size: usize,
    /// Two words of pool id from 2.8 on; before, a time.
    pool: [u64; 2],
}

/// libstdc++'s `std::function`: storage, a manager, an invoker.
#[repr(C)]
struct StdFunction {
    storage: [usize; 2],
    manager: unsafe extern "C-unwind" fn(*mut [usize; 2], *const [usize; 2], i32) -> bool,
    invoker: unsafe extern "C-unwind" fn(*const [usize; 2], *const TraceEntry),
}

static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
static HAS_POOLS: AtomicBool = AtomicBool::new(false);

/// Attaches the callback. CUDA must be initialised and the native allocator be in use: otherwise torch
/// throws. Returns whether it is attached.
pub(crate) fn attach(has_pools: bool) -> bool {
    if IS_ATTACHED.load(Ordering::Acquire) {
        return true;
    }
    let Some((allocator, function)) = find_attach() else { return false };
    HAS_POOLS.store(has_pools, Ordering::Release);
    let mut callback = StdFunction { storage: [0; 2], manager: manage, invoker: invoke };
    // SAFETY: `void attachAllocatorTraceTracker(std::function<void(const TraceEntry&)>)`: an object with
    // a destructor is passed by address. torch copies it through `manage`.
    unsafe {
        let attach = std::mem::transmute::<
            usize,
            unsafe extern "C-unwind" fn(usize, *mut StdFunction),
        >(function);
        attach(allocator, &raw mut callback);
    }
    IS_ATTACHED.store(true, Ordering::Release);
    true
}

/// The native allocator, and its function that takes a callback.
fn find_attach() -> Option<(usize, usize)> {
    const CLASS: &str = "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator";
    let current = find_symbol(c"_ZN3c104cuda20CUDACachingAllocator9allocatorE")?;
    let table = find_symbol(c"_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE")?;
    let method = format!("_Z{CLASS}27attachAllocatorTraceTrackerE");
    let method = find_symbol_by_prefix(method.as_bytes())?;
    // SAFETY: a table of virtual functions has two words before its first one; the search ends at the
    // function, which is in it, or after more slots than any version has.
    unsafe {
        let slot = (0..128).find(|at| ((table + 16) as *const usize).add(*at).read() == method)?;
        let allocator = (current as *const usize).read();
        if allocator == 0 {
            return None;
        }
        let native = (allocator as *const usize).read();
        Some((allocator, (native as *const usize).add(slot).read()))
    }
}

/// The manager of libstdc++'s function object: 2 is a copy. There is nothing to destroy.
unsafe extern "C-unwind" fn manage(
    to: *mut [usize; 2],
    from: *const [usize; 2],
    what: i32,
) -> bool {
    if what == 2 {
        // SAFETY: both are storage of a function object.
        unsafe { to.write(from.read()) };
    }
    false
}

/// An allocation that the allocator's trace tracker has announced; the report follows.
///
/// The report follows on the same thread, under the same lock, so nothing more than a note is needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announced {
    addr: usize,
    requested: usize,
    stream: usize,
    pool: [u64; 2],
}

thread_local! {
    static ANNOUNCED: Cell<Announced> =
        const { Cell::new(Announced { addr: 0, requested: 0, stream: 0, pool: [0; 2] }) };
    /// The freed block, until every stream has finished using it.
    static FREEING: Cell<usize> = const { Cell::new(0) };
    /// The driver's free bytes when a request failed.
    static DEVICE_FREE: Cell<u64> = const { Cell::new(0) };
}

/// Adds the announced facts to the record of this block.
pub(crate) fn complete(recording: &Recording, local: &mut Local, record: &mut Record) {
    let announced = ANNOUNCED.get();
    if announced.addr as u64 == record.addr() {
        record.set_requested(announced.requested as u64);
        set_handles(recording, local, record, announced.stream, announced.pool);
    }
}

/// The driver's free bytes at the failed allocation that is being reported; 0 when unknown.
pub(crate) fn take_device_free() -> u64 {
    DEVICE_FREE.take()
}

/// Whether a block that is being freed is still in use by some stream.
pub(crate) fn is_deferred(addr: u64) -> bool {
    FREEING.replace(0) as u64 == addr
}

/// Called on the allocating thread, with the device allocator's lock held.
unsafe extern "C-unwind" fn invoke(_: *const [usize; 2], entry: *const TraceEntry) {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: torch passes a live entry.
    let entry = unsafe { &*entry };
    let kind = match entry.action {
        0 => {
            let TraceEntry { addr, size: requested, stream, pool, .. } = *entry;
            ANNOUNCED.set(Announced { addr, requested, stream, pool });
            return;
        }
        1 => {
            FREEING.set(entry.addr);
            return;
        }
        2 if FREEING.get() == entry.addr => {
            FREEING.set(0);
            return;
        }
        2 => EventKind::FreeCompleted,
        3 => EventKind::SegmentAlloc,
        4 => EventKind::SegmentFree,
        5 => EventKind::SegmentMap,
        6 => EventKind::SegmentUnmap,
        // The failed allocation is reported right after this; the driver's free bytes only here.
        8 => {
            DEVICE_FREE.set(entry.addr as u64);
            return;
        }
        // Snapshots and annotations belong to other tools.
        _ => return,
    };
    let device = Device::cuda(entry.device);
    with_recording(|recording, local| {
        if !recording.wants_torch(device) {
            return;
        }
        let mut record = Record::block(kind, device, entry.addr as u64, entry.size as u64);
        set_handles(recording, local, &mut record, entry.stream, entry.pool);
        // The call stack of a freed segment shows whether the program emptied the cache or torch needed room.
        if kind != EventKind::FreeCompleted {
            record.set_stack(local.stack(recording, false).0.id);
        }
        local.write(recording, record, &[]);
    });
}

fn set_handles(
    recording: &Recording,
    local: &mut Local,
    record: &mut Record,
    stream: usize,
    pool: [u64; 2],
) {
    let name = || format!("0x{stream:x}");
    let stream = handle_id(recording, local, TextKind::Stream, stream as u64, name);
    let has_pool = HAS_POOLS.load(Ordering::Relaxed) && pool != [0, 0];
    let [first, second] = pool;
    let pool = if has_pool {
        let name = || format!("({first}, {second})");
        handle_id(recording, local, TextKind::Pool, first << 32 ^ second, name)
    } else {
        TextNumber::default()
    };
    (record.stream, record.pool) = (stream.number, pool.number);
    if stream.is_left_out || pool.is_left_out {
        record.flags |= FLAG_NAME_LEFT_OUT;
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(TraceEntry, device) == 4 && offset_of!(TraceEntry, addr) == 8);
    assert!(offset_of!(TraceEntry, stream) == 32 && offset_of!(TraceEntry, size) == 40);
    assert!(offset_of!(TraceEntry, pool) == 48 && size_of::<StdFunction>() == 32);
};

#[cfg(test)]
mod tests {
    use floodmark_trace::Window;

    use super::*;
    use crate::test_recorder::{Installed, MAX_MEMORY, records};

    fn event(action: i32, addr: usize, size: usize) {
        let entry = TraceEntry {
            action,
            device: 0,
            addr,
            context: [0; 2],
            stream: 0x20,
            size,
            pool: [0, 7],
        };
        // SAFETY: the entry lives through the call.
        unsafe { invoke(std::ptr::null(), &raw const entry) };
    }

    fn installed() -> Installed {
        Installed::new(MAX_MEMORY, &[Window { cuda: 1, ..Window::default() }])
    }

    #[test]
    fn a_block_has_its_announced_facts() {
        let installed = installed();
        HAS_POOLS.store(true, Ordering::Release);
        event(0, 0x40, 400);
        let completed = |addr| {
            with_recording(|recording, local| {
                let mut record = Record::block(EventKind::Alloc, Device::cuda(0), addr, 0);
                complete(recording, local, &mut record);
                (record.requested(), record.stream != 0, record.pool != 0)
            })
        };
        assert_eq!(completed(0x40), Some((400, true, true)));
        assert_eq!(completed(0x80), Some((0, false, false)), "another block");
        HAS_POOLS.store(false, Ordering::Release);
        assert_eq!(completed(0x40), Some((400, true, false)), "this torch has no pools");
        assert_eq!(records(installed.recording).concat().len(), 2, "the names alone");
    }

    #[test]
    fn a_free_is_deferred_unless_it_completes_at_once() {
        let installed = installed();
        event(1, 0x40, 512);
        event(2, 0x40, 512);
        assert!(!is_deferred(0x40));
        event(1, 0x80, 512);
        assert!(is_deferred(0x80) && !is_deferred(0x80), "it is reported once");
        event(2, 0x80, 512);
        let written = records(installed.recording).concat();
        let (last, _) = written.last().expect("the stream is done with it");
        assert_eq!((last.kind, last.addr()), (EventKind::FreeCompleted as u8, 0x80));
    }

    #[test]
    fn segments_are_recorded_and_snapshots_are_not() {
        let installed = installed();
        for action in [3, 4, 5, 6, 7, 9] {
            event(action, 0x200, 2048);
        }
        let expected = [
            EventKind::SegmentAlloc,
            EventKind::SegmentFree,
            EventKind::SegmentMap,
            EventKind::SegmentUnmap,
        ];
        let kinds: Vec<_> = records(installed.recording)
            .concat()
            .iter()
            .filter_map(|(record, _)| EventKind::from_number(record.kind))
            .collect();
        assert_eq!(kinds, expected);
    }

    #[test]
    fn the_free_memory_of_the_driver_is_stored_for_the_report() {
        let _installed = installed();
        event(8, 4096, 1 << 40);
        assert_eq!((take_device_free(), take_device_free()), (4096, 0));
    }
}
