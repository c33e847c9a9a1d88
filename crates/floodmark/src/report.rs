//! `floodmark report`: what filled a device at a moment.

use anyhow::{Context, Result};
use floodmark_analysis::{Question, report as ask};

use crate::args::ReportArgs;
use crate::choose::{Chosen, choose_source};
use crate::{csv, table};

pub(crate) fn report(args: &ReportArgs) -> Result<String> {
    let Chosen { path, trace, .. } = choose_source(&args.source, args.at)?;
    let question = Question {
        device: args.source.device,
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
    Ok(if args.csv { csv::render(&report) } else { table::show(&report) })
}
