//! Hooks as torch calls them, where torch is not loaded.

use floodmark_trace::Window;
use floodmark_trace::journal::FLAG_DEFERRED;

use super::*;
use crate::blocks::initial_blocks::{InitialBlock, InitialBlocks};
use crate::test_recorder::{Installed, MAX_MEMORY, records};

/// `c10::Device` in a register: CUDA, ordinal 0.
const GPU: u16 = 1;
/// The CPU; its ordinal is −1.
const HOST: u16 = 0xff00;

fn installed() -> Installed {
    Installed::new(MAX_MEMORY, &[Window { cpu: true, cuda: 1, ..Window::default() }])
}

fn written(installed: &Installed) -> Vec<(u8, Device, u64, u64)> {
    let written = records(installed.recording).concat();
    let fact = |record: &Record| (record.kind, record.device, record.addr(), record.bytes());
    written.iter().map(|(record, _)| fact(record)).collect()
}

#[test]
fn a_report_is_an_allocation_or_a_free() {
    let installed = installed();
    // SAFETY: the hook replaces nothing here, and reads no memory.
    unsafe {
        report(0x40 as *mut c_void, 512, 512, 2048, GPU);
        report(0x40 as *mut c_void, -512, 0, 2048, GPU);
    }
    let gpu = Device::cuda(0);
    let [alloc, free] = [EventKind::Alloc, EventKind::Free].map(|kind| kind as u8);
    assert_eq!(written(&installed), [(alloc, gpu, 0x40, 512), (free, gpu, 0x40, 512)]);
}

#[test]
fn a_device_that_no_window_wants_is_not_recorded() {
    let installed = installed();
    // SAFETY: as above; CUDA device 1.
    unsafe { report(0x40 as *mut c_void, 512, 512, 2048, 0x0101) };
    assert_eq!(written(&installed), []);
}

/// While a profiler is on, the CPU allocator reports blocks that [`cpu_new`] has recorded.
#[test]
fn a_block_of_the_host_is_recorded_once() {
    let installed = installed();
    let addr = 0x80 as *mut c_void;
    // SAFETY: as above.
    unsafe {
        cpu_new(std::ptr::null_mut(), addr, 64);
        report(addr, 64, 0, 0, HOST);
        cpu_new(std::ptr::null_mut(), addr, 0);
        cpu_delete(std::ptr::null_mut(), addr);
        report(addr, -64, 0, 0, HOST);
    }
    let kinds: Vec<u8> = written(&installed).iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, [EventKind::Alloc as u8, EventKind::Free as u8]);
}

/// The list of live blocks may contain them: other threads run while it is made.
#[test]
fn blocks_that_are_freed_while_live_ones_are_listed_are_not_initial_blocks() {
    let installed = installed();
    let list = InitialBlocks::begin();
    // SAFETY: as above.
    unsafe {
        cpu_new(std::ptr::null_mut(), 0x80 as *mut c_void, 64);
        cpu_delete(std::ptr::null_mut(), 0x80 as *mut c_void);
        report(0x40 as *mut c_void, 512, 512, 2048, GPU);
        report(0x40 as *mut c_void, -512, 0, 2048, GPU);
    }
    let block =
        |device, addr| InitialBlock { device, addr, bytes: 64, requested: 64, is_segment: false };
    list.record(&[block(Device::CPU, 0x80), block(Device::cuda(0), 0x40)]);
    let kinds: Vec<u8> = written(&installed).iter().map(|(kind, ..)| *kind).collect();
    let [alloc, free] = [EventKind::Alloc, EventKind::Free].map(|kind| kind as u8);
    assert_eq!(kinds, [alloc, free, alloc, free]);
}

#[test]
fn a_failed_allocation_has_its_totals() {
    let installed = installed();
    // SAFETY: as above.
    unsafe { report_oom(1 << 40, 512, 2048, GPU) };
    let written = records(installed.recording).concat();
    let [(record, _)] = written.as_slice() else { panic!("{written:?}") };
    assert_eq!((record.kind, record.failed_request()), (EventKind::Oom as u8, 1 << 40));
    assert_eq!((record.allocated(), record.reserved()), (512, 2048));
    assert_eq!(record.flags & FLAG_DEFERRED, 0);
}

#[test]
fn nothing_is_recorded_while_no_recorder_runs() {
    let installed = installed();
    let recording = installed.recording;
    drop(installed);
    // SAFETY: as above.
    unsafe { report(0x40 as *mut c_void, 512, 512, 2048, GPU) };
    assert_eq!(records(recording).concat().len(), 0);
}
