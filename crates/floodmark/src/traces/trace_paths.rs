//! Finds the traces at a path: a file, or a folder with one file per rank.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use floodmark_files::traces::open_trace_with;
use floodmark_text::terminal_safe::safe_text;
use floodmark_trace::Trace;

use crate::text::failure::{Context, Problem, Result};
use crate::text::output;
use crate::text::progress::Progress;

/// Reads a trace, with a progress bar and an error that names the path.
pub(crate) fn open(path: &Path) -> Result<Trace> {
    let progress = Progress::new(&format!("Reading `{}`", path.display()), 0);
    open_trace_with(path, &progress).with_context(|| format!("Failed to read `{}`", path.display()))
}

/// The given trace, or the newest one in the current folder, which a note on stderr names.
pub(crate) fn named_or_newest(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let newest = newest_in(Path::new("."))?.ok_or(Problem::NoTraceHere)?;
    let shown = safe_text(&newest.display().to_string()).into_owned();
    output::note(&format!("`{shown}` is the newest trace in this folder\n"));
    Ok(newest)
}

/// The newest trace or folder of traces; the last one by name if several are equally new.
fn newest_in(folder: &Path) -> Result<Option<PathBuf>> {
    let failed = || format!("Failed to read `{}`", folder.display());
    let mut newest = None;
    for entry in fs::read_dir(folder).with_context(failed)? {
        let path = PathBuf::from(entry.with_context(failed)?.file_name());
        if !is_named_like_a_trace(&path) {
            continue;
        }
        // Skip a file that was removed meanwhile.
        let Ok(written) = fs::metadata(folder.join(&path)).and_then(|about| about.modified())
        else {
            continue;
        };
        newest = newest.max(Some((written, path)));
    }
    Ok(newest.map(|(_, path)| path))
}

/// The traces in a folder, each with its rank; `None` if the path is not a folder.
pub(crate) fn ranks(path: &Path) -> Result<Option<Vec<(u32, PathBuf)>>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let failed = || format!("Failed to read `{}`", path.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if is_named_like_a_trace(&path) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Problem::NoTraces).with_context(failed);
    }
    paths.sort();
    let ranked = (0_u32..).zip(paths).map(|(at, path)| (rank_of(&path).unwrap_or(at), path));
    Ok(Some(ranked.collect()))
}

/// The trace of a rank in a folder.
pub(crate) fn rank_in(path: &Path, rank: u32) -> Result<PathBuf> {
    let failed = || format!("Failed to read `{}`", path.display());
    let Some(ranks) = ranks(path)? else { return Err(Problem::NotAFolder).with_context(failed) };
    let present = || {
        let numbers: Vec<String> = ranks.iter().map(|(rank, _)| rank.to_string()).collect();
        numbers.join(", ")
    };
    let found = ranks.iter().find(|(found, _)| *found == rank);
    let found = found.ok_or_else(|| Problem::NoSuchRank { rank, present: present() });
    found.map(|(_, path)| path.clone()).with_context(failed)
}

/// Whether a file is named like a trace: `x.flood`, or a usual name of torch's snapshots.
pub(crate) fn is_named_like_a_trace(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return false };
    let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    [".flood", ".pickle", ".pkl"].iter().any(|ending| packed.ends_with(ending))
}

/// The rank in a file name: 3 in `rank-0003.flood` and in `memory.rank-0003.flood`.
fn rank_of(path: &Path) -> Option<u32> {
    let mut parts = path.file_name()?.to_str()?.split('.');
    parts.find_map(|part| part.strip_prefix("rank-")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_rank() {
        let of = |name: &str| rank_of(Path::new(name));
        assert_eq!(of("a/rank-0003.flood"), Some(3));
        assert_eq!(of("memory.rank-0012.flood"), Some(12));
        assert_eq!(of("rank-1.pickle.gz"), Some(1));
        assert_eq!(of("frank-1.flood"), None);
        assert_eq!(of("x.flood"), None);
    }
}
