//! `floodmark annotate`: a source file with the bytes beside each line.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use floodmark_analysis::annotate as ask;
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
    let file = source_file(&args.file, &found.file);
    found.notes.extend(file.as_deref().and_then(|file| change_since(file, &trace, &path)));
    if args.json {
        return Said::json(&found);
    }
    let failed = || format!("Failed to read `{}`", found.file);
    let file = file.ok_or(Problem::NoSource).with_context(failed)?;
    let source = fs::read(&file).with_context(|| format!("Failed to read `{}`", file.display()))?;
    let source = String::from_utf8_lossy(&source);
    let shown = AnnotatedSource { annotation: &found, source: &source, shows_all: args.all };
    Ok(stdout_style::show(shown).into())
}

/// Where the source lies: under the name that was given, or under that of the trace.
fn source_file(given: &Path, recorded: &str) -> Option<PathBuf> {
    [given.to_owned(), PathBuf::from(recorded)].into_iter().find(|path| path.is_file())
}

/// What to say of a source that is newer than the recording.
fn change_since(file: &Path, trace: &Trace, path: &Path) -> Option<String> {
    let modified = |path: &Path| fs::metadata(path).ok()?.modified().ok();
    // A snapshot does not say when it was taken; its file does, unless it was copied.
    let recorded = match trace.header.started_unix_micros {
        0 => modified(path)?,
        started => SystemTime::UNIX_EPOCH + Duration::from_micros(started),
    };
    (modified(file)? > recorded).then(|| {
        "the source is newer than the recording: bytes may be beside the wrong lines".to_owned()
    })
}
