//! The watched ranks of a folder, including files that appear later.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use floodmark_analysis::LiveDevice;

use crate::args::Source;
use crate::text::failure::Result;
use crate::traces::trace_paths::{named_or_newest, rank_in, ranks};
use crate::traces::watched_trace::{WatchedTrace, watched_paths};

/// The memory of a rank on its device with the highest peak, GPUs first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RankLevel {
    pub(crate) rank: u32,
    pub(crate) device: LiveDevice,
}

/// The watched traces: those of a folder, or a single one.
#[derive(Debug)]
pub(crate) struct WatchedRanks {
    /// The folder, in which further files may appear.
    folder: Option<PathBuf>,
    traces: Vec<WatchedTrace>,
    /// The index of the trace to read next.
    next: usize,
}

impl WatchedRanks {
    /// Opens the traces of a folder, or only the one of a given rank.
    pub(crate) fn open(source: &Source) -> Result<Self> {
        let path = named_or_newest(source.trace.as_deref())?;
        let (folder, paths) = if let Some(rank) = source.rank {
            (None, vec![(Some(rank), rank_in(&path, rank)?)])
        } else {
            let folder = path.is_dir().then(|| path.clone());
            (folder, watched_paths(&path)?)
        };
        let traces = paths.iter().map(|(rank, path)| WatchedTrace::open(*rank, path));
        Ok(Self { folder, traces: traces.collect::<Result<_>>()?, next: 0 })
    }

    /// The shown name: the path of the folder, or of the file.
    pub(crate) fn name(&self) -> String {
        let path = self.folder.as_ref().or_else(|| self.traces.first().map(|one| &one.path));
        path.map_or_else(String::new, |path| path.display().to_string())
    }

    /// All ranks, by peak; empty for a single trace.
    pub(crate) fn levels(&self) -> Vec<RankLevel> {
        if self.traces.len() < 2 {
            return Vec::new();
        }
        let level = |trace: &WatchedTrace| {
            let devices = trace.summary.devices.iter();
            let device = devices.max_by_key(|one| weight(one))?.clone();
            Some(RankLevel { rank: trace.summary.rank?, device })
        };
        let mut levels: Vec<RankLevel> = self.traces.iter().filter_map(level).collect();
        levels.sort_by_key(|one| (Reverse(weight(&one.device)), one.rank));
        levels
    }

    /// The rank with the highest peak, in a folder.
    pub(crate) fn highest(&self) -> Option<u32> {
        self.levels().first().map(|level| level.rank)
    }

    /// The trace of a rank, or the first one if there is no such rank.
    pub(crate) fn chosen(&self, rank: Option<u32>) -> &WatchedTrace {
        let found = self.traces.iter().find(|one| rank.is_some() && one.summary.rank == rank);
        found.unwrap_or(&self.traces[0])
    }

    pub(crate) fn chosen_mut(&mut self, rank: Option<u32>) -> &mut WatchedTrace {
        let found = self.traces.iter().position(|one| rank.is_some() && one.summary.rank == rank);
        &mut self.traces[found.unwrap_or(0)]
    }

    /// Finds new files, and reads the other traces in turn until `time` has passed. Returns whether something is new.
    /// Ignores errors: a file may become readable later.
    pub(crate) fn refresh(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut is_new = self.find_new();
        for _ in 0..self.traces.len() {
            self.next = (self.next + 1) % self.traces.len();
            is_new |= self.traces[self.next].refresh().unwrap_or(false);
            if Instant::now() >= until {
                break;
            }
        }
        is_new
    }

    /// Opens files that appeared in the folder.
    fn find_new(&mut self) -> bool {
        let Some(folder) = &self.folder else { return false };
        let found = ranks(folder).ok().flatten().unwrap_or_default();
        let known = |path: &PathBuf| self.traces.iter().any(|one| one.path == *path);
        let new = found.into_iter().filter(|(_, path)| !known(path));
        let mut opened: Vec<WatchedTrace> =
            new.filter_map(|(rank, path)| WatchedTrace::open(Some(rank), &path).ok()).collect();
        let is_new = !opened.is_empty();
        self.traces.append(&mut opened);
        is_new
    }
}

fn weight(device: &LiveDevice) -> (bool, floodmark_trace::Bytes) {
    (!device.device.is_cpu(), device.peak)
}
