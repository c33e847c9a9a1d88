//! `floodmark annotate`: a source file with the bytes beside each line.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use floodmark_analysis::annotate as ask;
use floodmark_session::source_text::{SourceText, stored_text, text_on_disk};
use floodmark_session::text::annotation::AnnotatedSource;
use floodmark_trace::Trace;

use crate::Said;
use crate::commands::args::AnnotateArgs;
use crate::commands::chosen_trace::{Chosen, choose_source};
use crate::text::failure::Problem;
use crate::text::stdout_style;

pub(crate) fn annotate(args: &AnnotateArgs) -> Result<Said> {
    let Chosen { path, trace, .. } = choose_source(&args.source, args.at)?;
    let wanted = fs::canonicalize(&args.file).unwrap_or_else(|_| args.file.clone());
    let mut found = ask(&trace, args.source.device, args.at, &wanted.to_string_lossy())
        .with_context(|| {
            format!("Failed to annotate `{}` with `{}`", args.file.display(), path.display())
        })?;
    let source = match stored_text(&trace, &found.file) {
        Some(stored) => Some(stored),
        None => on_disk(&trace, &path, &args.file, &found.file)?,
    };
    found.notes.extend(source.as_ref().and_then(|source| source.note).map(str::to_owned));
    if args.json {
        return Said::json(&found);
    }
    let failed = || format!("Failed to read `{}`", found.file);
    let source = source.ok_or(Problem::NoSource).with_context(failed)?;
    let shown = AnnotatedSource { annotation: &found, source: &source.text, shows_all: args.all };
    Ok(stdout_style::show(shown).into())
}

/// The source under the name that was given, or under that of the trace.
fn on_disk(trace: &Trace, path: &Path, given: &Path, recorded: &str) -> Result<Option<SourceText>> {
    // A snapshot does not say when it was taken; its file does, unless it was copied.
    let written = fs::metadata(path).and_then(|about| about.modified()).ok();
    text_on_disk(trace, &[given, Path::new(recorded)], written).map_err(|(file, error)| {
        anyhow::Error::new(error).context(format!("Failed to read `{}`", file.display()))
    })
}
