//! The traces that are shown: the files of the command line and no other, each in its newest state.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use anyhow::{Context as _, Result};
use floodmark_analysis::{Context, Summary, summary};
use floodmark_trace::Trace;

use super::refusal::Refusal;
use crate::following::Following;
use crate::open::ranks;

/// A trace as it was when it was last read, with what many answers need of it.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) revision: u64,
    pub(crate) trace: Arc<Trace>,
    context: OnceLock<Context>,
    summary: OnceLock<Summary>,
}

impl Version {
    fn new(following: &Following) -> Arc<Self> {
        Arc::new(Self {
            revision: following.revision(),
            trace: Arc::clone(following.trace()),
            context: OnceLock::new(),
            summary: OnceLock::new(),
        })
    }

    /// Steps and phases, found once.
    pub(crate) fn context(&self) -> &Context {
        self.context.get_or_init(|| Context::new(&self.trace))
    }

    /// The whole in a few numbers, summed up once.
    pub(crate) fn summary(&self) -> &Summary {
        self.summary.get_or_init(|| summary(&self.trace))
    }
}

/// One of the traces that are shown.
#[derive(Debug)]
pub(crate) struct ShownTrace {
    /// How it is called on the page.
    pub(crate) name: String,
    /// Its rank, where that is known.
    pub(crate) rank: Option<u32>,
    following: Mutex<Following>,
    now: RwLock<Arc<Version>>,
}

impl ShownTrace {
    /// Its newest state.
    pub(crate) fn now(&self) -> Arc<Version> {
        // Nobody panics while holding it: what is behind it is always whole.
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks whether it grew. What cannot be read now may be readable later.
    pub(crate) fn look(&self) -> bool {
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        if !following.look().unwrap_or(false) {
            return false;
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Version::new(&following);
        true
    }
}

/// The traces that are shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) traces: Vec<ShownTrace>,
    /// Whether they are looked at again and again.
    pub(crate) follows: bool,
}

impl Shown {
    /// Opens files, and all files of folders.
    pub(crate) fn open(paths: &[PathBuf], follows: bool) -> Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            match ranks(path)? {
                Some(found) => {
                    files.extend(found.into_iter().map(|(rank, path)| (Some(rank), path)))
                }
                None => files.push((None, path.clone())),
            }
        }
        let names = names(&files);
        let traces = files.into_iter().zip(names).map(|((rank, path), name)| {
            let following = Following::open(&path)
                .with_context(|| format!("Failed to read `{}`", path.display()))?;
            let now = RwLock::new(Version::new(&following));
            let rank = rank.or(following.trace().header.rank);
            Ok(ShownTrace { name, rank, following: Mutex::new(following), now })
        });
        Ok(Self { traces: traces.collect::<Result<_>>()?, follows })
    }

    /// One of them.
    pub(crate) fn trace(&self, number: usize) -> Result<&ShownTrace, Refusal> {
        let count = self.traces.len();
        self.traces.get(number).ok_or(Refusal::NoSuchTrace { number, count })
    }
}

/// The names of files, without their folders where that is clear.
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
