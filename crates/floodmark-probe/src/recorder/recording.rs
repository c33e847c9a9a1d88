//! The recorder of a process: what all hooks share while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use floodmark_trace::{Device, Window};
use parking_lot::Mutex;

use super::freed_blocks::FreedBlocks;
use super::name_table::Names;
use super::options::WindowOptions;
use super::wanted::{IS_CUDA_LENT, RecordedEvents, Sources};
use crate::budget::Budget;
use crate::gil::GilRequest;
use crate::journal::Journal;
use crate::journal::chunks::Chunks;
use crate::stacks::CallTree;
use crate::switches::ENABLED;
use crate::window_state::{Opening, WindowState};

/// The state that hooks share, from the first window until the recorder is removed.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) journal: Journal,
    pub(crate) wanted: RecordedEvents,
    pub(crate) next_thread: AtomicU32,
    pub(crate) budget: Arc<Budget>,
    /// The stacks of some autograd nodes were not stored: the memory limit is reached, or torch has too many
    /// threads.
    pub(crate) forgets_nodes: AtomicBool,
    pub(crate) tree: Mutex<CallTree>,
    pub(crate) names: Mutex<Names>,
    pub(crate) gil_request: GilRequest,
    pub(crate) steps: AtomicU32,
    pub(crate) windows: Mutex<Windows>,
    pub(crate) freed_blocks: Arc<FreedBlocks>,
    /// Why recording stopped before the program did.
    failure: Mutex<Option<(String, u64)>>,
}

/// The open windows, as the program sees them. The writer takes new ones once a round.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    pub(crate) open: Vec<Arc<WindowState>>,
    /// Those that the writer has not seen yet.
    pub(crate) opening: Vec<Opening>,
    /// Devices whose live blocks are followed while no window is open.
    pub(crate) kept: Option<Window>,
}

impl Windows {
    /// The events that each window records, and the devices that are followed for the next one.
    pub(crate) fn wanted(&self) -> Vec<Window> {
        self.open.iter().map(|state| state.window).chain(self.kept).collect()
    }
}

/// The recording that runs. Only read by a thread that is marked busy and has seen [`ENABLED`].
pub(crate) static CURRENT: AtomicPtr<Recording> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) fn unix_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

impl Recording {
    pub(crate) fn new(id: u64, options: &WindowOptions, chunks: Chunks) -> Self {
        let budget = Arc::new(Budget::new(options.recording.max_memory));
        let mut tree = CallTree::new(Arc::clone(&budget));
        tree.folders.own.clone_from(&options.own_folders);
        Self {
            journal: Journal::new(id, chunks),
            wanted: RecordedEvents::default(),
            next_thread: AtomicU32::new(0),
            budget,
            forgets_nodes: AtomicBool::new(false),
            tree: Mutex::new(tree),
            names: Mutex::new(Names::default()),
            gil_request: GilRequest::default(),
            steps: AtomicU32::new(0),
            windows: Mutex::default(),
            freed_blocks: Arc::default(),
            failure: Mutex::new(None),
        }
    }

    /// Nanoseconds since the recorder began.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.journal.nanos()
    }

    /// Whether some window records Python stacks.
    #[inline]
    pub(crate) fn has_stacks(&self) -> bool {
        self.wanted.stacks.load(Ordering::Relaxed)
    }

    /// Whether some window records events of a device.
    pub(crate) fn wants(&self, device: Device) -> bool {
        self.wanted.has(device)
    }

    /// Whether torch's reports of a device are recorded.
    #[inline]
    pub(crate) fn wants_torch(&self, device: Device) -> bool {
        self.wanted.torch.load(Ordering::Relaxed)
            && self.wanted.has(device)
            && (device.is_cpu() || !IS_CUDA_LENT.load(Ordering::Relaxed))
    }

    /// Whether blocks of fake tensors are recorded.
    pub(crate) fn wants_fake(&self, device: Device) -> bool {
        self.wanted.fake.load(Ordering::Relaxed) && self.wanted.has(device)
    }

    /// The sources of blocks that are recorded.
    pub(crate) fn sources(&self) -> Sources {
        Sources {
            torch: self.wanted.torch.load(Ordering::Relaxed),
            fake: self.wanted.fake.load(Ordering::Relaxed),
        }
    }

    /// Whether some window records tensors of a device type that torch does not have.
    pub(crate) fn is_without_device(&self) -> bool {
        self.wanted.fake.load(Ordering::Relaxed)
            && self.windows.lock().open.iter().any(|state| state.is_without_device)
    }

    /// Why recording had to stop, and when.
    pub(crate) fn failure(&self) -> Option<(String, u64)> {
        self.failure.lock().clone()
    }

    /// Stops recording; the program continues. The journals have the reason from now on, the traces and the
    /// program's output when recording ends. The first reason counts.
    pub(crate) fn fail(&self, reason: String) {
        ENABLED.store(false, Ordering::SeqCst);
        let at_nanos = self.nanos();
        let (reason, at_nanos) = self.failure.lock().get_or_insert((reason, at_nanos)).clone();
        for state in &self.windows.lock().open {
            state.fail(&reason, at_nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_recorder::{MAX_MEMORY, alone, recording, window_state};

    fn window(cpu: bool, cuda: u64, fake_tensors: bool) -> Window {
        Window { cpu, cuda, fake_tensors, ..Window::default() }
    }

    #[test]
    fn hooks_record_what_any_window_wants() {
        let recording = recording(MAX_MEMORY);
        let devices = [Device::CPU, Device::cuda(0), Device::cuda(1), Device::cuda(63)];
        let wants = || devices.map(|device| recording.wants(device));
        assert_eq!(wants(), [false; 4], "no window is open");
        recording.wanted.set(&[window(true, 0, false), window(false, 1 << 63 | 1, false)]);
        assert_eq!(wants(), [true, true, false, true]);
        assert!(!recording.has_stacks());
        recording.wanted.set(&[Window { stacks: true, ..window(false, 2, false) }]);
        assert_eq!(wants(), [false, false, true, false], "what only closed windows wanted is off");
        assert!(recording.has_stacks());
    }

    #[test]
    fn a_device_without_a_bit_is_not_recorded() {
        let recording = recording(MAX_MEMORY);
        recording.wanted.set(&[window(true, u64::MAX, false)]);
        assert!(!recording.wants(Device::cuda(64)) && !recording.wants(Device::cuda(-1)));
    }

    #[test]
    fn blocks_of_torch_and_of_fake_tensors_are_recorded_separately() {
        let recording = recording(MAX_MEMORY);
        let both = || (recording.wants_torch(Device::CPU), recording.wants_fake(Device::CPU));
        recording.wanted.set(&[window(true, 0, false)]);
        assert_eq!(both(), (true, false));
        recording.wanted.set(&[window(true, 0, true)]);
        assert_eq!(both(), (false, true));
        recording.wanted.set(&[window(true, 0, true), window(false, 1, false)]);
        assert_eq!(both(), (true, true));
    }

    #[test]
    fn a_failure_reaches_every_open_window() {
        let _alone = alone();
        let recording = recording(MAX_MEMORY);
        let states = [1, 2].map(|number| window_state(Window { number, ..Window::default() }));
        recording.windows.lock().open.extend(states.iter().map(Arc::clone));
        recording.fail("the disk is full".to_owned());
        recording.fail("something else".to_owned());
        let reasons = states.map(|state| state.failure().unwrap().reason);
        assert_eq!(reasons, ["the disk is full", "the disk is full"]);
        assert_eq!(recording.failure().unwrap().0, "the disk is full");
    }

    #[test]
    fn a_recorder_follows_what_the_next_window_begins_with() {
        let mut windows = Windows::default();
        windows.open.push(window_state(window(true, 0, false)));
        windows.kept = Some(window(false, 1, false));
        assert_eq!(windows.wanted(), [window(true, 0, false), window(false, 1, false)]);
    }
}
