//! The file of `plan -o`: the trace of the unchanged program, with the answer in it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use floodmark_files::export::destination::{NotWritten, write_file};
use floodmark_trace::append_answer;

use crate::args::PlanArgs;
use crate::plan::answer::{Plan, STORED_AS};
use crate::text::failure::{Context, Failure, Problem, Result};
use crate::text::output;
use crate::text::progress::Progress;

/// Says what is wrong with the output before anything is tried, which may take long.
pub(super) fn check_output(args: &PlanArgs) -> Result<()> {
    let Some(to) = &args.output else { return Ok(()) };
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let problem = if to.is_dir() {
        Some(Problem::PlanNotAFile)
    } else if to.exists() && !args.force {
        Some(Problem::OutputExists)
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        Some(Problem::NoOutputFolder)
    } else {
        None
    };
    match problem {
        Some(problem) => Err(problem).with_context(|| failed(to)),
        None => Ok(()),
    }
}

/// Writes the trace with the plan behind it.
pub(super) fn write(found: &Plan, trace: &Path, to: &Path, force: bool) -> Result<()> {
    let mut file = fs::read(trace)
        .context("the unchanged program left no trace")
        .with_context(|| failed(to))?;
    append_answer(&mut file, STORED_AS, &serde_json::to_string(found)?)
        .with_context(|| failed(to))?;
    let progress = Arc::new(Progress::counting(&format!("Writing `{}`", to.display())));
    let written = write_file(to, force, progress, |out| Ok(out.write_all(&file)?));
    written
        .map_err(|error| match error {
            NotWritten::Exists => Problem::OutputExists.into(),
            NotWritten::NotOurs { name } => Problem::FolderNotOurs { name }.into(),
            NotWritten::Export(error) => Failure::from(error),
        })
        .with_context(|| failed(to))?;
    let shown = to.display();
    output::note(&format!("wrote the plan to `{shown}`; see it with `floodmark view {shown}`\n"));
    Ok(())
}

fn failed(to: &Path) -> String {
    format!("Failed to write `{}`", to.display())
}
