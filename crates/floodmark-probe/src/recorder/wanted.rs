//! The events that hooks record.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use floodmark_trace::{Device, Window};

/// What hooks record: the union of all windows.
#[derive(Debug, Default)]
pub(crate) struct RecordedEvents {
    cpu: AtomicBool,
    cuda: AtomicU64,
    pub(super) stacks: AtomicBool,
    /// Blocks that torch reports.
    pub(super) torch: AtomicBool,
    /// Blocks of fake tensors.
    pub(super) fake: AtomicBool,
}

/// The sources of recorded blocks: some windows may record fake tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources {
    pub(crate) torch: bool,
    pub(crate) fake: bool,
}

impl RecordedEvents {
    /// Records what any of these windows records.
    pub(crate) fn set(&self, windows: &[Window]) {
        let any = |wants: fn(&Window) -> bool| windows.iter().any(wants);
        self.stacks.store(any(|window| window.stacks), Ordering::Relaxed);
        self.cuda.store(windows.iter().fold(0, |all, window| all | window.cuda), Ordering::Relaxed);
        self.cpu.store(any(|window| window.cpu), Ordering::Relaxed);
        self.torch.store(any(|window| !window.fake_tensors), Ordering::Relaxed);
        self.fake.store(any(|window| window.fake_tensors), Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn has(&self, device: Device) -> bool {
        match device.kind {
            0 => self.cpu.load(Ordering::Relaxed),
            _ => u32::try_from(device.index)
                .is_ok_and(|at| at < 64 && self.cuda.load(Ordering::Relaxed) >> at & 1 == 1),
        }
    }
}

/// Whether torch's CUDA devices are lent to blocks of fake tensors.
pub(super) static IS_CUDA_LENT: AtomicBool = AtomicBool::new(false);

/// Torch's CUDA devices are simulated for blocks of fake tensors alone, or, with `false`, are the program's again. While
/// they are lent, what torch allocates there belongs to the engine and is not recorded.
pub fn lend_cuda(is_lent: bool) {
    IS_CUDA_LENT.store(is_lent, Ordering::SeqCst);
}
