//! `floodmark report`: what filled a device at a moment.

use std::path::PathBuf;

use anyhow::{Context, Result};
use floodmark_analysis::{At, Question, Summary, report as ask, summary};
use floodmark_trace::{Bytes, Trace};

use crate::args::ReportArgs;
use crate::failure::Problem;
use crate::open::{open, ranks};
use crate::{csv, print, table};

pub(crate) fn report(args: &ReportArgs) -> Result<String> {
    let (path, trace) = load(args)?;
    let question = Question {
        device: args.device,
        by: args.by,
        at: args.at,
        top: (args.top > 0).then_some(args.top),
        torch_frames: args.torch_frames,
    };
    let report = ask(&trace, &question)
        .with_context(|| format!("Failed to report on `{}`", path.display()))?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&report)? + "\n");
    }
    Ok(if args.csv { csv::render(&report) } else { table::render(&report) })
}

fn load(args: &ReportArgs) -> Result<(PathBuf, Trace)> {
    let failed = || format!("Failed to read `{}`", args.trace.display());
    let Some(ranks) = ranks(&args.trace)? else {
        if args.rank.is_some() {
            return Err(Problem::NotAFolder).with_context(failed);
        }
        return Ok((args.trace.clone(), open(&args.trace)?));
    };
    let Some(rank) = args.rank else { return highest(ranks, args) };
    let present = || {
        let numbers: Vec<String> = ranks.iter().map(|(rank, _)| rank.to_string()).collect();
        numbers.join(", ")
    };
    let found = ranks.iter().find(|(found, _)| *found == rank);
    let (_, path) = found
        .ok_or_else(|| Problem::NoSuchRank { rank, present: present() })
        .with_context(failed)?;
    Ok((path.clone(), open(path)?))
}

/// The rank that the question is most likely about, said on stderr.
fn highest(ranks: Vec<(u32, PathBuf)>, args: &ReportArgs) -> Result<(PathBuf, Trace)> {
    let count = ranks.len();
    let mut best: Option<(Weight, u32, PathBuf, Trace)> = None;
    for (rank, path) in ranks {
        let trace = open(&path)?;
        let weight = weight(&summary(&trace), args);
        if best.as_ref().is_none_or(|(best, ..)| weight > *best) {
            best = Some((weight, rank, path, trace));
        }
    }
    let (_, rank, path, trace) = best.ok_or(Problem::NoTraces)?;
    if count > 1 {
        let what = if args.at == At::Oom { "ran out of memory" } else { "has the highest peak" };
        print::talk(&format!("of {count} ranks, rank {rank} {what}; `--rank` chooses another\n"));
    }
    Ok((path, trace))
}

/// Whether a request failed when that is the question, then the peak beyond the CPU, then that of it.
type Weight = (bool, Bytes, Bytes);

fn weight(summary: &Summary, args: &ReportArgs) -> Weight {
    let peak = |is_cpu: bool| {
        let devices = summary.devices.iter();
        let asked = devices.filter(|found| args.device.is_none_or(|device| device == found.device));
        let kind = asked.filter(|found| found.device.is_cpu() == is_cpu);
        kind.map(|found| found.peak).max().unwrap_or_default()
    };
    (args.at == At::Oom && summary.failed_requests > 0, peak(false), peak(true))
}
