//! The shown traces: the files of the command line, each in its newest state.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use floodmark_analysis::{
    At, AxisBy, MomentIndex, QuestionError, SegmentsIndex, Summary, TimelineBy, TimelineIndex,
    TraceIndex, default_device, summary,
};
use floodmark_files::traces::Following;
use floodmark_trace::{Device, Trace};

use super::made_once::MadeOnce;
use super::refusal::Refusal;
use crate::in_parallel::on_all_processors;
use crate::text::failure::{Context, Result};
use crate::traces::trace_paths::ranks;

/// A state of a trace, with values that several answers need, computed on first use.
#[derive(Debug)]
pub(crate) struct Version<'t> {
    pub(crate) revision: u64,
    pub(crate) trace: Held<'t>,
    index: OnceLock<TraceIndex>,
    summary: OnceLock<Summary>,
    moments: MadeOnce<Device, MomentIndex>,
    heaps: MadeOnce<Device, SegmentsIndex>,
    timelines: MadeOnce<(Device, TimelineBy, Option<AxisBy>), TimelineIndex>,
}

/// A trace read from a file, or borrowed from the caller.
#[derive(Debug)]
pub(crate) enum Held<'t> {
    Ours(Arc<Trace>),
    Theirs(&'t Trace),
}

impl Deref for Held<'_> {
    type Target = Trace;

    fn deref(&self) -> &Trace {
        match self {
            Self::Ours(trace) => trace,
            Self::Theirs(trace) => trace,
        }
    }
}

impl<'t> Version<'t> {
    fn new(revision: u64, trace: Held<'t>) -> Arc<Self> {
        Arc::new(Self {
            revision,
            trace,
            index: OnceLock::new(),
            summary: OnceLock::new(),
            moments: MadeOnce::default(),
            heaps: MadeOnce::default(),
            timelines: MadeOnce::default(),
        })
    }

    /// Steps, phases and categories.
    pub(crate) fn index(&self) -> &TraceIndex {
        self.index.get_or_init(|| TraceIndex::new(&self.trace))
    }

    /// The summary of the trace.
    pub(crate) fn summary(&self) -> &Summary {
        self.summary.get_or_init(|| summary(&self.trace))
    }

    /// The device of a question about a moment: the named one, or the default.
    pub(crate) fn device(&self, named: Option<Device>, at: At) -> Result<Device, QuestionError> {
        named.map_or_else(|| default_device(&self.trace, at), |device| Ok(device.canonical()))
    }

    /// The index of the moments of a device.
    pub(crate) fn moments(&self, device: Device) -> Result<Arc<MomentIndex>, QuestionError> {
        self.moments.get(device, || MomentIndex::new(&self.trace, device))
    }

    /// The index of the address space of a device over time.
    pub(crate) fn heaps(&self, device: Device) -> Result<Arc<SegmentsIndex>, QuestionError> {
        self.heaps.get(device, || SegmentsIndex::new(&self.trace, device))
    }

    /// The timeline of a device in one grouping.
    pub(crate) fn timeline(
        &self,
        device: Device,
        by: TimelineBy,
        axis: Option<AxisBy>,
    ) -> Result<Arc<TimelineIndex>, QuestionError> {
        let make = || TimelineIndex::with_axis(&self.trace, self.index(), device, by, axis);
        self.timelines.get((device, by, axis), make)
    }
}

/// A shown trace.
#[derive(Debug)]
pub(crate) struct ShownTrace<'t> {
    /// Its name on the page.
    pub(crate) name: String,
    /// Its rank, if known.
    pub(crate) rank: Option<u32>,
    /// The file; `None` for a trace in memory.
    following: Option<Mutex<Following>>,
    now: RwLock<Arc<Version<'t>>>,
}

impl<'t> ShownTrace<'t> {
    /// Its newest state.
    pub(crate) fn now(&self) -> Arc<Version<'t>> {
        // No code panics with the lock held, so the value is valid.
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads what is new; returns whether the trace grew. Ignores errors: a file may become readable later.
    pub(crate) fn refresh(&self) -> bool {
        let Some(following) = &self.following else { return false };
        let mut following = following.lock().unwrap_or_else(PoisonError::into_inner);
        if !following.refresh().unwrap_or(false) {
            return false;
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = newest(&following);
        true
    }
}

fn newest(following: &Following) -> Arc<Version<'static>> {
    Version::new(following.revision(), Held::Ours(Arc::clone(following.trace())))
}

/// The shown traces.
#[derive(Debug)]
pub(crate) struct ShownTraces<'t> {
    pub(crate) traces: Vec<ShownTrace<'t>>,
    /// Whether the server follows them.
    pub(crate) follows: bool,
}

impl<'t> ShownTraces<'t> {
    /// A trace in memory.
    pub(crate) fn from_trace(trace: &'t Trace) -> Self {
        let words = trace.header.command.iter().map(PathBuf::from);
        let program = words.filter(|word| word.extension().is_some_and(|ending| ending == "py"));
        let name = program.take(1).flat_map(|path| names(&[(None, path)])).next();
        let name = name.unwrap_or_else(|| "trace".to_owned());
        let now = RwLock::new(Version::new(1, Held::Theirs(trace)));
        let shown = ShownTrace { name, rank: trace.header.rank, following: None, now };
        Self { traces: vec![shown], follows: false }
    }

    /// The trace with this number.
    pub(crate) fn trace(&self, number: usize) -> Result<&ShownTrace<'t>, Refusal> {
        let count = self.traces.len();
        self.traces.get(number).ok_or(Refusal::NoSuchTrace { number, count })
    }
}

impl ShownTraces<'static> {
    /// Opens files, and all files of folders.
    pub(crate) fn open(paths: &[PathBuf], follows: bool) -> Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            match ranks(path)? {
                Some(found) => {
                    files.extend(found.into_iter().map(|(rank, path)| (Some(rank), path)));
                }
                None => files.push((None, path.clone())),
            }
        }
        let names = names(&files);
        let opened = on_all_processors(&files, |(_, path)| Following::open(path));
        let traces =
            files.into_iter().zip(names).zip(opened).map(|(((rank, path), name), opened)| {
                let following =
                    opened.with_context(|| format!("Failed to read `{}`", path.display()))?;
                let now = RwLock::new(newest(&following));
                let rank = rank.or(following.trace().header.rank);
                Ok(ShownTrace { name, rank, following: Some(Mutex::new(following)), now })
            });
        Ok(Self { traces: traces.collect::<Result<_>>()?, follows })
    }
}

/// The names of files, without their folders if they differ without them.
fn names(files: &[(Option<u32>, PathBuf)]) -> Vec<String> {
    let short = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let all: Vec<Option<String>> = files.iter().map(|(_, path)| short(path)).collect();
    let is_clear = |name: &Option<String>| all.iter().filter(|other| *other == name).count() == 1;
    files
        .iter()
        .zip(&all)
        .map(|((_, path), name)| match name {
            Some(name) if is_clear(&Some(name.clone())) => name.clone(),
            _ => path.display().to_string(),
        })
        .collect()
}
