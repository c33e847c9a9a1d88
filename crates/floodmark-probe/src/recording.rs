//! One recording: what all hooks share while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use floodmark_trace::journal::Seed;
use floodmark_trace::journal_state::StopNote;
use floodmark_trace::{Device, Ending, Header};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::budget::Budget;
use crate::clock::Clock;
use crate::ended_steps::EndedSteps;
use crate::fork_flag::ForkFlag;
use crate::output::Replace;
use crate::peaks::Peaks;
use crate::segments::Segments;
use crate::stacks::CallTree;
use crate::state_file::StateFile;

/// Who tells of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// torch reports them.
    Torch,
    /// Whoever knows what torch would have ([`crate::tell_alloc`]); what torch itself allocates meanwhile is
    /// not looked at.
    Told,
    /// The same, where torch has no device of the kind on which tensors say that they lie.
    ToldWithoutDevice,
}

/// What to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file.
    pub path: PathBuf,
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
    /// Who tells of blocks.
    pub source: Source,
    /// How much memory the recorder may take.
    pub max_memory: u64,
    /// Where the recording comes from.
    pub header: Header,
    /// Our Python package's folder: its frames are not part of the program.
    pub own_folder: String,
}

impl Options {
    fn wants(&self, device: Device) -> bool {
        match device.kind {
            0 => self.cpu,
            _ => u32::try_from(device.index).is_ok_and(|at| at < 64 && self.cuda >> at & 1 == 1),
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

/// The state that hooks work on. Lives from start to stop.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) id: u64,
    pub(crate) options: Options,
    clock: Clock,
    pub(crate) seed: Seed,
    pub(crate) next_thread: AtomicU32,
    pub(crate) segments: Segments,
    pub(crate) budget: Arc<Budget>,
    /// The stacks of some autograd nodes were not remembered: the memory limit is reached, or torch has more
    /// threads than there is room for.
    pub(crate) forgets_nodes: AtomicBool,
    pub(crate) tree: Mutex<CallTree>,
    pub(crate) names: Mutex<Names>,
    pub(crate) is_attending: AtomicBool,
    pub(crate) steps: AtomicU32,
    /// Outlives the recording in the hands of whoever waits for it.
    pub(crate) ended_steps: Arc<EndedSteps>,
    pub(crate) peaks: Arc<Peaks>,
    pub(crate) state: StateFile,
    /// Why recording stopped before the program did.
    pub(crate) failure: Mutex<Option<StopNote>>,
    /// The header, and whether it changed since it was written.
    pub(crate) header: Mutex<(Header, bool)>,
}

/// Whether hooks have anything to do.
pub(crate) static ENABLED: ForkFlag = ForkFlag::new();
/// The recording that runs. Only read by a thread that is marked busy and has seen [`ENABLED`].
pub(crate) static CURRENT: AtomicPtr<Recording> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) fn unix_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

impl Recording {
    /// `clock` started when the header says that the recording did.
    pub(crate) fn new(
        id: u64,
        clock: Clock,
        options: Options,
        segments: Segments,
        state: StateFile,
    ) -> Self {
        let budget = Arc::new(Budget::new(options.max_memory));
        let mut tree = CallTree::new(Arc::clone(&budget));
        tree.set_library(vec![options.own_folder.clone()]);
        Self {
            id,
            clock,
            seed: Seed::of_session(id),
            next_thread: AtomicU32::new(0),
            segments,
            budget,
            forgets_nodes: AtomicBool::new(false),
            tree: Mutex::new(tree),
            names: Mutex::new(Names::default()),
            is_attending: AtomicBool::new(false),
            steps: AtomicU32::new(0),
            ended_steps: Arc::default(),
            peaks: Arc::default(),
            state,
            failure: Mutex::new(None),
            header: Mutex::new((options.header.clone(), false)),
            options,
        }
    }

    /// Nanoseconds since the recording began.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    pub(crate) fn wants(&self, device: Device) -> bool {
        self.options.wants(device)
    }

    /// Whether what torch reports of a device is to be recorded.
    pub(crate) fn hears(&self, device: Device) -> bool {
        self.options.source == Source::Torch && self.wants(device)
    }

    /// How it ends: now, or when it had to stop.
    pub(crate) fn ending(&self) -> Ending {
        let stop = self.failure.lock().clone();
        let now = || StopNote { reason: String::new(), at_micros: self.nanos() / 1000 };
        let StopNote { reason, at_micros } = stop.unwrap_or_else(now);
        Ending { reason, at_micros }
    }

    /// Recording cannot go on, and the program does. The journal says why from now on, the trace and the
    /// program's output when recording ends. The first reason counts.
    pub(crate) fn fail(&self, reason: String) {
        ENABLED.store(false, Ordering::SeqCst);
        let mut failure = self.failure.lock();
        let at_micros = self.nanos() / 1000;
        self.state.note_stop(failure.get_or_insert(StopNote { reason, at_micros }));
    }
}
