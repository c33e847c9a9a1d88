//! Chooses a trace of a folder: the one of a rank, or the one with the highest peak.

use std::path::{Path, PathBuf};

use floodmark_analysis::{At, Summary, summary};
use floodmark_trace::{Bytes, Device, Trace};

use crate::args::Source;
use crate::text::failure::{Problem, Result};
use crate::text::output;
use crate::traces::trace_paths::{named_or_newest, open, rank_in, ranks};

/// The parts of a question on which the choice of a trace depends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceChoice {
    pub(crate) rank: Option<u32>,
    pub(crate) device: Option<Device>,
    pub(crate) at: At,
}

/// The chosen trace.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) path: PathBuf,
    /// Its rank, in a folder.
    pub(crate) rank: Option<u32>,
    pub(crate) trace: Trace,
    /// Why this rank was chosen, if the question names none.
    pub(crate) note: Option<String>,
}

/// Opens the trace of a command.
pub(crate) fn choose_source(source: &Source, at: At) -> Result<Chosen> {
    let path = named_or_newest(source.trace.as_deref())?;
    choose(&path, TraceChoice { rank: source.rank, device: source.device, at })
}

/// Opens the trace at a path, or one of the traces in a folder.
pub(crate) fn choose(path: &Path, wanted: TraceChoice) -> Result<Chosen> {
    if let Some(rank) = wanted.rank {
        let path = rank_in(path, rank)?;
        return Ok(Chosen { rank: Some(rank), trace: open(&path)?, path, note: None });
    }
    match ranks(path)? {
        Some(ranks) => highest(ranks, wanted),
        None => Ok(Chosen { path: path.to_owned(), rank: None, trace: open(path)?, note: None }),
    }
}

/// The rank that the question is most likely about, and a note for stderr that names it.
fn highest(ranks: Vec<(u32, PathBuf)>, wanted: TraceChoice) -> Result<Chosen> {
    let count = ranks.len();
    let mut best: Option<(Weight, u32, PathBuf, Trace)> = None;
    for (rank, path) in ranks {
        let trace = open(&path)?;
        let weight = weight(&summary(&trace), wanted);
        if best.as_ref().is_none_or(|(best, ..)| weight > *best) {
            best = Some((weight, rank, path, trace));
        }
    }
    let ((has_failed, ..), rank, path, trace) = best.ok_or(Problem::NoTraces)?;
    let note = (count > 1).then(|| {
        let what = if has_failed { "ran out of memory" } else { "has the highest peak" };
        format!("of {count} ranks, rank {rank} {what}; choose another with `--rank`")
    });
    if let Some(note) = &note {
        output::note(&format!("{note}\n"));
    }
    Ok(Chosen { path, rank: Some(rank), trace, note })
}

/// For questions about failures whether an allocation failed; then the peak of GPUs, then that of the CPU.
type Weight = (bool, Bytes, Bytes);

fn weight(summary: &Summary, wanted: TraceChoice) -> Weight {
    let peak = |is_cpu: bool| {
        let devices = summary.devices.iter();
        let asked =
            devices.filter(|found| wanted.device.is_none_or(|device| device == found.device));
        let kind = asked.filter(|found| found.device.is_cpu() == is_cpu);
        kind.map(|found| found.peak).max().unwrap_or_default()
    };
    (wanted.at == At::Oom && summary.failed_requests > 0, peak(false), peak(true))
}
