//! `floodmark oom`: why an allocation failed, from a trace or from torch's message.

use std::io::{self, IsTerminal};
use std::path::Path;

use floodmark_analysis::{At, OomLogReader, OomMessages, OomReport, oom as ask};
use floodmark_files::traces::{open_text, read_log};
use floodmark_text::answer_text::AnswerText;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::OomArgs;
use crate::commands::answer::Answer;
use crate::commands::plan_hint::plan_hint;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Problem, Result};
use crate::text::output;
use crate::traces::chosen_trace::{Chosen, TraceChoice, choose};
use crate::traces::trace_paths::named_or_newest;

/// Why an allocation failed, from a trace or from torch's messages in a text.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum OomAnswer {
    /// The failed allocation of a trace.
    Trace(Box<OomReport>),
    /// The messages of a text.
    Messages(OomMessages),
}

impl From<&OomAnswer> for AnswerText {
    fn from(found: &OomAnswer) -> Self {
        match found {
            OomAnswer::Trace(report) => (&**report).into(),
            OomAnswer::Messages(messages) => messages.into(),
        }
    }
}

pub(crate) fn oom(args: &OomArgs) -> Result<CommandOutput> {
    answer(args)?.output(args.json)
}

pub(crate) fn answer(args: &OomArgs) -> Result<Answer<OomAnswer>> {
    let path = named_or_newest(args.trace.as_deref())?;
    if let Some(log) = log(&path)? {
        if args.rank.is_some() || args.device.is_some() {
            return Err(Problem::OptionOfTraces).with_context(|| failed_to_explain(&path));
        }
        return explain(log).with_context(|| failed_to_explain(&path));
    }
    let wanted = TraceChoice { rank: args.rank, device: args.device, at: At::Oom };
    let Chosen { path, trace, note, .. } = choose(&path, wanted)?;
    let found = ask(&trace, args.device, (args.top > 0).then_some(args.top))
        .with_context(|| failed_to_explain(&path))?;
    let hint = (!found.device.is_cpu()).then(|| plan_hint(&trace.header, found.total));
    Ok(Answer { hint, ..Answer::new(OomAnswer::Trace(Box::new(found)), note).about(&[&trace]) })
}

/// Explains the messages in a text.
pub(crate) fn explain(log: OomLogReader) -> Result<Answer<OomAnswer>> {
    Ok(Answer::new(OomAnswer::Messages(log.finish()?), None))
}

fn failed_to_explain(path: &Path) -> String {
    format!("Failed to explain `{}`", path.display())
}

/// Reads the messages of stdin or of a text file; returns `None` for a trace.
fn log(path: &Path) -> Result<Option<OomLogReader>> {
    let failed = || format!("Failed to read `{}`", path.display());
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            output::note("Paste the message, then press Ctrl-D\n");
        }
        return read_log(io::stdin().lock()).map(Some).with_context(failed);
    }
    if !path.is_file() {
        return Ok(None);
    }
    let Some(file) = open_text(path).with_context(failed)? else { return Ok(None) };
    read_log(file).map(Some).with_context(failed)
}
