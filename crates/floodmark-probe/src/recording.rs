//! The recorder of a process: what all hooks share while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use floodmark_trace::journal::Seed;
use floodmark_trace::{Device, Header, Window};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::budget::Budget;
use crate::clock::Clock;
use crate::fork_flag::ForkFlag;
use crate::initial_blocks::FreedMeanwhile;
use crate::output::Replace;
use crate::segments::Segments;
use crate::stacks::CallTree;
use crate::thread::JournalPosition;
use crate::window_state::{Opening, WindowState};

/// The source of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// torch reports them.
    Torch,
    /// Fake tensors have them ([`crate::record_fake_alloc`]); what torch itself allocates meanwhile is not recorded.
    Fake,
    /// The same, where torch has no device of the kind on which tensors say that they lie.
    FakeWithoutDevice,
}

/// What a window takes of the recorder's events, and where they go.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Options {
    /// The file; without one the events stay in memory, and go to `spill` when they are too many.
    pub path: Option<PathBuf>,
    /// A free name for a file of events that do not fit in memory.
    pub spill: PathBuf,
    /// What may be replaced at that path.
    pub replace: Replace,
    /// Host memory too.
    pub cpu: bool,
    /// CUDA devices: a bit for each ordinal.
    pub cuda: u64,
    /// The Python stack of every allocation.
    pub stacks: bool,
    /// The operator of every allocation.
    pub ops: bool,
    /// The source of blocks.
    pub source: Source,
    /// How much memory the recorder may take.
    pub max_memory: u64,
    /// How many events a window without a file may have beyond those that fit in memory.
    pub max_events: Option<u64>,
    /// Whether the source files of the program whose lines allocate are stored in it.
    pub stores_source: bool,
    /// Where the recording comes from.
    pub header: Header,
    /// Our Python package's folder: its frames are not part of the program.
    pub own_folder: String,
}

/// What hooks record: all that any window wants.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    cpu: AtomicBool,
    cuda: AtomicU64,
    stacks: AtomicBool,
    /// Blocks that torch reports.
    torch: AtomicBool,
    /// Blocks of fake tensors.
    fake: AtomicBool,
}

/// Whose blocks are recorded: some windows may have those of fake tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources {
    pub(crate) torch: bool,
    pub(crate) fake: bool,
}

impl Wanted {
    /// Sets what is wanted to all that these windows want.
    pub(crate) fn set(&self, windows: &[Window]) {
        let any = |wants: fn(&Window) -> bool| windows.iter().any(wants);
        self.stacks.store(any(|window| window.stacks), Ordering::Relaxed);
        self.cuda.store(windows.iter().fold(0, |all, window| all | window.cuda), Ordering::Relaxed);
        self.cpu.store(any(|window| window.cpu), Ordering::Relaxed);
        self.torch.store(any(|window| !window.fake_tensors), Ordering::Relaxed);
        self.fake.store(any(|window| window.fake_tensors), Ordering::SeqCst);
    }

    #[inline]
    fn has(&self, device: Device) -> bool {
        match device.kind {
            0 => self.cpu.load(Ordering::Relaxed),
            _ => u32::try_from(device.index)
                .is_ok_and(|at| at < 64 && self.cuda.load(Ordering::Relaxed) >> at & 1 == 1),
        }
    }
}

/// Names that got a number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) labels: HashMap<(u8, String, String, String), u32>,
    /// By the number of their [`floodmark_trace::TextKind`].
    pub(crate) texts: [HashMap<String, u16>; 6],
    pub(crate) text_count: usize,
}

/// The state that hooks work on. Lives from the first window until the recorder is taken off.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) id: u64,
    clock: Clock,
    pub(crate) wanted: Wanted,
    pub(crate) seed: Seed,
    pub(crate) next_thread: AtomicU32,
    pub(crate) segments: Segments,
    /// The journal of threads without a segment of their own.
    pub(crate) shared_journal: Mutex<JournalPosition>,
    pub(crate) budget: Arc<Budget>,
    /// The stacks of some autograd nodes were not remembered: the memory limit is reached, or torch has more
    /// threads than there is room for.
    pub(crate) forgets_nodes: AtomicBool,
    pub(crate) tree: Mutex<CallTree>,
    pub(crate) names: Mutex<Names>,
    pub(crate) is_gil_work_requested: AtomicBool,
    pub(crate) steps: AtomicU32,
    /// Our Python package's folder.
    pub(crate) own_folder: String,
    pub(crate) windows: Mutex<Windows>,
    pub(crate) freed_meanwhile: Arc<FreedMeanwhile>,
    /// Why recording stopped before the program did.
    failure: Mutex<Option<(String, u64)>>,
}

/// The windows that are open, as the program sees them. The writer takes what is new once a lap.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    pub(crate) open: Vec<Arc<WindowState>>,
    /// Those that the writer has not seen yet.
    pub(crate) opening: Vec<Opening>,
    /// Devices whose live blocks are followed while no window is open.
    pub(crate) kept: Option<Window>,
}

impl Windows {
    /// What each window wants, and what is followed for the next one.
    pub(crate) fn wanted(&self) -> Vec<Window> {
        self.open.iter().map(|state| state.window).chain(self.kept).collect()
    }
}

/// Whether hooks have anything to do.
pub(crate) static ENABLED: ForkFlag = ForkFlag::new();
/// Whether a window is open. While none is, hooks only follow which blocks are live.
pub(crate) static IS_WATCHED: ForkFlag = ForkFlag::new();
/// The recording that runs. Only read by a thread that is marked busy and has seen [`ENABLED`].
pub(crate) static CURRENT: AtomicPtr<Recording> = AtomicPtr::new(std::ptr::null_mut());

/// Whether torch's CUDA devices are lent to blocks of fake tensors.
static IS_CUDA_LENT: AtomicBool = AtomicBool::new(false);

/// Torch's CUDA devices are simulated for blocks of fake tensors alone, or, with `false`, are the program's again. While
/// they are lent, what torch allocates there is work of ours and is not recorded.
pub fn lend_cuda(is_lent: bool) {
    IS_CUDA_LENT.store(is_lent, Ordering::SeqCst);
}

pub(crate) fn unix_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

impl Recording {
    pub(crate) fn new(id: u64, options: &Options, segments: Segments) -> Self {
        let budget = Arc::new(Budget::new(options.max_memory));
        let mut tree = CallTree::new(Arc::clone(&budget));
        tree.set_library(vec![options.own_folder.clone()]);
        Self {
            id,
            clock: Clock::start(),
            wanted: Wanted::default(),
            seed: Seed::of_session(id),
            next_thread: AtomicU32::new(0),
            segments,
            shared_journal: Mutex::default(),
            budget,
            forgets_nodes: AtomicBool::new(false),
            tree: Mutex::new(tree),
            names: Mutex::new(Names::default()),
            is_gil_work_requested: AtomicBool::new(false),
            steps: AtomicU32::new(0),
            own_folder: options.own_folder.clone(),
            windows: Mutex::default(),
            freed_meanwhile: Arc::default(),
            failure: Mutex::new(None),
        }
    }

    /// Nanoseconds since the recorder began.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    /// Whether some window has Python stacks.
    #[inline]
    pub(crate) fn has_stacks(&self) -> bool {
        self.wanted.stacks.load(Ordering::Relaxed)
    }

    /// Whether some window wants what happens on a device.
    pub(crate) fn wants(&self, device: Device) -> bool {
        self.wanted.has(device)
    }

    /// Whether what torch reports of a device is to be recorded.
    #[inline]
    pub(crate) fn wants_torch(&self, device: Device) -> bool {
        self.wanted.torch.load(Ordering::Relaxed)
            && self.wanted.has(device)
            && (device.is_cpu() || !IS_CUDA_LENT.load(Ordering::Relaxed))
    }

    /// Whether blocks of fake tensors are to be recorded.
    pub(crate) fn wants_fake(&self, device: Device) -> bool {
        self.wanted.fake.load(Ordering::Relaxed) && self.wanted.has(device)
    }

    /// Whose blocks are recorded.
    pub(crate) fn sources(&self) -> Sources {
        Sources {
            torch: self.wanted.torch.load(Ordering::Relaxed),
            fake: self.wanted.fake.load(Ordering::Relaxed),
        }
    }

    /// Whether some window is on tensors of a device that torch does not have.
    pub(crate) fn is_without_device(&self) -> bool {
        self.wanted.fake.load(Ordering::Relaxed)
            && self.windows.lock().open.iter().any(|state| state.is_without_device)
    }

    /// Why recording had to stop, and when.
    pub(crate) fn failure(&self) -> Option<(String, u64)> {
        self.failure.lock().clone()
    }

    /// Recording cannot go on, and the program does. The journals say why from now on, the traces and the
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
    fn a_device_without_a_bit_is_not_wanted() {
        let recording = recording(MAX_MEMORY);
        recording.wanted.set(&[window(true, u64::MAX, false)]);
        assert!(!recording.wants(Device::cuda(64)) && !recording.wants(Device::cuda(-1)));
    }

    #[test]
    fn blocks_of_torch_and_of_fake_tensors_are_wanted_apart() {
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
