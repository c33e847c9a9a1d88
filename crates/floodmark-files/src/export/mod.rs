//! Traces in the formats of other tools, written to a path or to bytes.
//!
//! [`Format`] has the formats. [`destination`] writes a file or folder that is complete as soon as it has its name.

pub mod destination;
pub mod format;

use std::io;
use std::path::Path;
use std::sync::Arc;

use floodmark_export::{ExportError, Options, write_ranks, write_tables, write_tensorboard};
use floodmark_trace::Trace;

use crate::export::destination::{NotWritten, write_file};
use crate::export::format::{Folder, Format, PageWriter};
use crate::progress::{Progress, Silent};

/// Writes a trace into a file or folder, or returns its bytes if `to` is `None`. A file is replaced, and so is a folder that an
/// export has written.
pub fn export_trace(
    trace: &Trace,
    format: Format,
    options: &Options,
    page: PageWriter,
    path: Option<&Path>,
) -> Result<Option<Vec<u8>>, ExportError> {
    let Some(path) = path else {
        let mut bytes = Vec::new();
        format.write(trace, options, page, &mut bytes)?;
        return Ok(Some(bytes));
    };
    // A spreadsheet may open a CSV file.
    let options = Options { guard_formulas: true, ..options.clone() };
    let written = match format.folder() {
        Some(kind) => write_trace(trace, None, kind, &options, path, true, Arc::new(Silent)),
        None => write_file(path, true, Arc::new(Silent), |mut out| {
            format.write(trace, &options, page, &mut out)
        }),
    };
    match written {
        Ok(()) => Ok(None),
        Err(NotWritten::Export(error)) => Err(error),
        Err(other @ (NotWritten::Exists | NotWritten::NotOurs { .. })) => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, other.to_string()).into())
        }
    }
}

/// Writes the files of one trace, which has a number in a folder of ranks.
pub fn write_trace(
    trace: &Trace,
    rank: Option<u32>,
    kind: Folder,
    options: &Options,
    to: &Path,
    force: bool,
    progress: Arc<dyn Progress>,
) -> Result<(), NotWritten> {
    let mut files = destination::Folder::new(to, force, progress, |name| is_ours(kind, name))?;
    match kind {
        Folder::Tables(coding) => {
            let rank = rank.or(trace.header.rank).unwrap_or(0);
            let rows = write_tables(trace, options, rank, coding, &mut files)?;
            write_ranks(&rows, coding, &mut files)?;
        }
        Folder::Tensorboard => write_tensorboard(trace, options, "", &mut files)?,
    }
    files.finish()
}

/// Whether an export writes a file of this name.
pub fn is_ours(kind: Folder, name: &str) -> bool {
    let is_rank = name.strip_prefix("rank=").is_some_and(|rank| rank.parse::<u32>().is_ok());
    let is_file = match kind {
        Folder::Tables(_) => matches!(name, "_ranks.parquet" | "_ranks.arrow"),
        Folder::Tensorboard => {
            name.starts_with("events.out.tfevents.") && name.ends_with(".floodmark")
        }
    };
    is_rank || is_file
}
