//! Exports of several files: the tables and event files of one trace, or of all ranks of a folder, one after the other.

use std::path::{Path, PathBuf};

use floodmark_analysis::QuestionError;
use floodmark_export::{
    ExportError, Files, Options, RankRow, write_ranks, write_tables, write_tensorboard,
};
use floodmark_files::export::destination::{self, NotWritten};
use floodmark_files::export::format::Folder;
use floodmark_files::export::is_ours;
use floodmark_text::plural::plural;
use floodmark_trace::Trace;

use crate::args::ExportArgs;
use crate::commands::export::writing;
use crate::text::failure::{Context, Failure, Problem, Result};
use crate::text::output;
use crate::traces::trace_paths::open;

/// Writes all ranks of a folder. One trace is open at a time.
pub(crate) fn write_all(
    ranks: &[(u32, PathBuf)],
    kind: Folder,
    args: &ExportArgs,
    to: &Path,
) -> Result<()> {
    check_numbers(ranks)?;
    let failed = || format!("Failed to write `{}`", to.display());
    let options = Options { device: args.device, ..Options::default() };
    let files = destination::Folder::new(to, args.force, writing(to), |name| is_ours(kind, name));
    let mut files = files.map_err(refused).with_context(failed)?;
    let mut rows: Vec<RankRow> = Vec::new();
    let mut written = 0_u64;
    for (rank, path) in ranks {
        let trace = open(path)?;
        output::losses(&trace.losses, &format!("rank {rank}: "));
        match write_rank(&trace, *rank, kind, &options, &mut files) {
            Ok(found) => rows.extend(found),
            // Skip a rank without events.
            Err(ExportError::Question(
                nothing @ (QuestionError::NothingAllocated
                | QuestionError::NothingLeft { .. }
                | QuestionError::NoSuchDevice { .. }),
            )) => {
                output::note(&format!("left out rank {rank}: {nothing}\n"));
                continue;
            }
            Err(error) => return Err(error).with_context(failed),
        }
        written += 1;
    }
    if written == 0 {
        return Err(QuestionError::NothingAllocated).with_context(failed);
    }
    if let Folder::Tables(coding) = kind {
        write_ranks(&rows, coding, &mut files).with_context(failed)?;
    }
    files.finish().map_err(refused).with_context(failed)?;
    let what = plural(written, "rank");
    output::note(&format!("wrote {what} to `{}`; {}\n", to.display(), args.to.reader()));
    Ok(())
}

fn write_rank(
    trace: &Trace,
    rank: u32,
    kind: Folder,
    options: &Options,
    files: &mut dyn Files,
) -> Result<Vec<RankRow>, ExportError> {
    match kind {
        Folder::Tables(coding) => write_tables(trace, options, rank, coding, files),
        Folder::Tensorboard => {
            write_tensorboard(trace, options, &format!("rank={rank}/"), files)?;
            Ok(Vec::new())
        }
    }
}

/// Fails if two traces have the same rank: each rank is written to the folder of its number.
fn check_numbers(ranks: &[(u32, PathBuf)]) -> Result<(), Problem> {
    let mut sorted: Vec<&(u32, PathBuf)> = ranks.iter().collect();
    sorted.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Problem::RankTwice {
            rank: pair[0].0,
            one: name(&pair[0].1),
            other: name(&pair[1].1),
        }),
        None => Ok(()),
    }
}

/// Adds the command-line option to write to another path.
pub(crate) fn refused(error: NotWritten) -> Failure {
    match error {
        NotWritten::Exists => Problem::OutputFolderExists.into(),
        NotWritten::NotOurs { name } => Problem::FolderNotOurs { name }.into(),
        NotWritten::Export(error) => error.into(),
    }
}
