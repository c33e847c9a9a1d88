//! A followed trace with its summary, for `top` and `metrics`.

use std::path::{Path, PathBuf};

use floodmark_analysis::{LiveSummary, live_summary};
use floodmark_files::traces::{Following, OpenError};

use crate::text::failure::{Context, Result};
use crate::traces::trace_paths::ranks;

/// A followed trace, and its summary as of the last read.
#[derive(Debug)]
pub(crate) struct WatchedTrace {
    pub(crate) path: PathBuf,
    pub(crate) following: Following,
    pub(crate) summary: LiveSummary,
    /// The revision of the summary.
    revision: u64,
}

impl WatchedTrace {
    /// Opens a trace; `rank` is that of its file name in a folder.
    pub(crate) fn open(rank: Option<u32>, path: &Path) -> Result<Self> {
        let following = Following::open(path)
            .with_context(|| format!("Failed to read `{}`", path.display()))?;
        let mut summary = live_summary(following.trace());
        summary.rank = summary.rank.or(rank);
        Ok(Self { path: path.to_owned(), revision: following.revision(), following, summary })
    }

    /// Reads what is new; returns whether the trace grew.
    pub(crate) fn refresh(&mut self) -> Result<bool, OpenError> {
        self.following.refresh()?;
        if self.following.revision() == self.revision {
            return Ok(false);
        }
        let rank = self.summary.rank;
        self.summary = live_summary(self.following.trace());
        self.summary.rank = self.summary.rank.or(rank);
        self.revision = self.following.revision();
        Ok(true)
    }
}

/// The traces at a path: a file, or all in a folder, each with its rank.
pub(crate) fn watched_paths(path: &Path) -> Result<Vec<(Option<u32>, PathBuf)>> {
    Ok(match ranks(path)? {
        None => vec![(None, path.to_owned())],
        Some(ranks) => ranks.into_iter().map(|(rank, path)| (Some(rank), path)).collect(),
    })
}
