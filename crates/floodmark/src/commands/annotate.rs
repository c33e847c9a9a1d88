//! `floodmark annotate`: a source file with the bytes beside each line.

use std::fs;
use std::path::{Path, PathBuf};

use floodmark_analysis::{AnnotationError, annotate as ask, main_script};
use floodmark_files::source_text::{SourceText, stored_text, text_on_disk};
use floodmark_text::annotation::AnnotatedSource;
use floodmark_trace::Trace;

use crate::args::{AnnotateArgs, Source};
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Failure, Problem, Result};
use crate::text::stdout_style;
use crate::traces::chosen_trace::{Chosen, TraceChoice, choose};
use crate::traces::trace_paths::named_or_newest;

pub(crate) fn annotate(args: &AnnotateArgs) -> Result<CommandOutput> {
    let (trace, file) = match (args.source.trace.as_deref(), args.file.as_deref()) {
        // `annotate train.py`: a file of the newest trace.
        (Some(only), None) if is_source(only) => (None, Some(only)),
        named => named,
    };
    let Source { rank, device, .. } = args.source;
    let named = named_or_newest(trace)?;
    let Chosen { path, trace, .. } = choose(&named, TraceChoice { rank, device, at: args.at })?;
    let file = match (file, main_script(&trace)) {
        (Some(file), _) => file.to_owned(),
        (None, Some(script)) => PathBuf::from(script),
        (None, None) => {
            let failed = || format!("Failed to annotate with `{}`", path.display());
            return Err(AnnotationError::NoFrames).with_context(failed);
        }
    };
    let wanted = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
    let mut found = ask(&trace, device, args.at, &wanted.to_string_lossy()).with_context(|| {
        format!("Failed to annotate `{}` with `{}`", file.display(), path.display())
    })?;
    let source = match stored_text(&trace, &found.file) {
        Some(stored) => Some(stored),
        None => on_disk(&trace, &path, &file, &found.file)?,
    };
    found.notes.extend(source.as_ref().and_then(|source| source.note).map(str::to_owned));
    if args.json {
        return CommandOutput::json(&found);
    }
    let failed = || format!("Failed to read `{}`", found.file);
    let source = source.ok_or(Problem::NoSource).with_context(failed)?;
    let shown = AnnotatedSource { annotation: &found, source: &source.text, shows_all: args.all };
    Ok(stdout_style::show(shown).into())
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py")
}

/// The source file on this machine, under the given path or else the recorded one.
fn on_disk(trace: &Trace, path: &Path, given: &Path, recorded: &str) -> Result<Option<SourceText>> {
    // A snapshot has no date: use that of its file.
    let written = fs::metadata(path).and_then(|about| about.modified()).ok();
    text_on_disk(trace, &[given, Path::new(recorded)], written).map_err(|(file, error)| {
        Failure::from(error).context(format!("Failed to read `{}`", file.display()))
    })
}
