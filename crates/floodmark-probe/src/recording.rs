//! One recording: what all hooks share while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering};

use floodmark_trace::{Device, Header};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::ended_steps::EndedSteps;
use crate::segments::Segments;
use crate::stacks::CallTree;

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
    pub(crate) texts: HashMap<(u8, String), u32>,
}

/// The one word that all threads write, alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// The state that hooks work on. Lives from start to stop.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) id: u64,
    pub(crate) options: Options,
    started_nanos: u64,
    next_seq: Padded,
    pub(crate) next_thread: AtomicU16,
    pub(crate) segments: Segments,
    pub(crate) tree: Mutex<CallTree>,
    pub(crate) names: Mutex<Names>,
    pub(crate) is_attending: AtomicBool,
    pub(crate) steps: AtomicU32,
    /// Outlives the recording in the hands of whoever waits for it.
    pub(crate) ended_steps: Arc<EndedSteps>,
    pub(crate) failure: Mutex<Option<String>>,
    /// The header, and whether it changed since it was written.
    pub(crate) header: Mutex<(Header, bool)>,
}

/// Whether hooks have anything to do.
pub(crate) static ENABLED: AtomicBool = AtomicBool::new(false);
/// The recording that runs. Only read by a thread that is marked busy and has seen [`ENABLED`].
pub(crate) static CURRENT: AtomicPtr<Recording> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) fn monotonic_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one struct that is passed.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn unix_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

impl Recording {
    pub(crate) fn new(id: u64, mut options: Options, segments: Segments) -> Self {
        options.header.started_unix_micros = unix_micros();
        let mut tree = CallTree::new(options.max_memory);
        tree.set_library(vec![options.own_folder.clone()]);
        Self {
            id,
            started_nanos: monotonic_nanos(),
            next_seq: Padded(AtomicU64::new(1)),
            next_thread: AtomicU16::new(0),
            segments,
            tree: Mutex::new(tree),
            names: Mutex::new(Names::default()),
            is_attending: AtomicBool::new(false),
            steps: AtomicU32::new(0),
            ended_steps: Arc::default(),
            failure: Mutex::new(None),
            header: Mutex::new((options.header.clone(), false)),
            options,
        }
    }

    pub(crate) fn nanos(&self) -> u64 {
        monotonic_nanos().saturating_sub(self.started_nanos)
    }

    pub(crate) fn take_seq(&self) -> u64 {
        self.next_seq.0.fetch_add(1, Ordering::Relaxed)
    }

    /// How many records were begun.
    pub(crate) fn records(&self) -> u64 {
        self.next_seq.0.load(Ordering::Relaxed) - 1
    }

    pub(crate) fn wants(&self, device: Device) -> bool {
        self.options.wants(device)
    }

    /// Whether what torch reports of a device is to be recorded.
    pub(crate) fn hears(&self, device: Device) -> bool {
        self.options.source == Source::Torch && self.wants(device)
    }

    /// Recording cannot go on. The program does not notice; the reason is told when recording ends.
    pub(crate) fn fail(&self, reason: String) {
        ENABLED.store(false, Ordering::SeqCst);
        self.failure.lock().get_or_insert(reason);
    }
}
