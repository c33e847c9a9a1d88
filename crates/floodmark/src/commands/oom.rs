//! `floodmark oom`: why an allocation failed, from a trace or from torch's message.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Context, Result};
use floodmark_analysis::{At, OomLogReader, oom as ask};
use floodmark_session::traces::{open_text, read_log};

use crate::Said;
use crate::commands::args::OomArgs;
use crate::commands::chosen_trace::{Chosen, Wanted, choose};
use crate::text::failure::Problem;
use crate::text::output;
use crate::text::stdout_style;

pub(crate) fn oom(args: &OomArgs) -> Result<Said> {
    if let Some(log) = log(&args.trace)? {
        return explain(args, log);
    }
    let wanted = Wanted { rank: args.rank, device: args.device, at: At::Oom };
    let Chosen { path, trace, .. } = choose(&args.trace, wanted)?;
    let found = ask(&trace, args.device, (args.top > 0).then_some(args.top))
        .with_context(|| format!("Failed to explain `{}`", path.display()))?;
    if args.json {
        return Said::json(&found);
    }
    Ok(stdout_style::show(&found).into())
}

/// The messages of stdin or of a text file; `None` for a trace.
fn log(path: &Path) -> Result<Option<OomLogReader>> {
    let failed = || format!("Failed to read `{}`", path.display());
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            output::talk("Paste the message, then press Ctrl-D\n");
        }
        return read_log(io::stdin().lock()).map(Some).with_context(failed);
    }
    if !path.is_file() {
        return Ok(None);
    }
    let Some(file) = open_text(path).with_context(failed)? else { return Ok(None) };
    read_log(file).map(Some).with_context(failed)
}

fn explain(args: &OomArgs, log: OomLogReader) -> Result<Said> {
    let failed = || format!("Failed to explain `{}`", args.trace.display());
    if args.rank.is_some() || args.device.is_some() {
        return Err(Problem::OptionOfTraces).with_context(failed);
    }
    let found = log.finish().with_context(failed)?;
    if args.json {
        return Said::json(&found);
    }
    Ok(stdout_style::show(&found).into())
}
