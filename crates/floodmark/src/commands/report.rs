//! `floodmark report`: what filled a device at a moment.

use anyhow::{Context, Result};
use floodmark_analysis::{Question, report as ask};

use crate::Said;
use crate::commands::args::ReportArgs;
use crate::commands::chosen_trace::{Chosen, choose_source};
use crate::text::csv;
use crate::text::output;
use crate::text::stdout_style;

pub(crate) fn report(args: &ReportArgs) -> Result<Said> {
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
        return Said::json(&report);
    }
    if args.csv {
        output::losses(&report.losses, "");
        return Ok(Said::exactly(csv::render(&report, csv::Reader::of_stdout())));
    }
    Ok(stdout_style::show(&report).into())
}
