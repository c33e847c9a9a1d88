//! `floodmark export --to html`: the page of `floodmark view` in one file, with its answers included.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use floodmark_export::ExportError;
use floodmark_text::plural::plural;
use floodmark_trace::{Device, Trace};
use tempfile::Builder;

use crate::args::ExportArgs;
use crate::commands::export::{beside, check_device};
use crate::server::{ShownTraces, save};
use crate::text::failure::{Context, Problem, Result};
use crate::text::output;
use crate::text::progress::Progress;
use crate::traces::trace_paths::rank_in;

pub(crate) fn export_page(args: &ExportArgs) -> Result<()> {
    let mut paths = args.traces();
    if let Some(rank) = args.rank {
        paths = paths.iter().map(|path| rank_in(path, rank)).collect::<Result<_>>()?;
    }
    let to = args.output.clone().unwrap_or_else(|| beside(&args.trace, args.to));
    let failed = || format!("Failed to write `{}`", to.display());
    let is_stdout = to == Path::new("-");
    if !is_stdout && to.exists() && !args.force {
        return Err(Problem::OutputExists).with_context(failed);
    }
    let shown = ShownTraces::open(&paths, false)?;
    for trace in &shown.traces {
        output::losses(&trace.now().trace.losses, &format!("{}: ", trace.name));
    }
    if let Some(device) = args.device {
        for trace in &shown.traces {
            check_device(&trace.now().trace, Some(device))
                .with_context(|| format!("Failed to export `{}`", trace.name))?;
        }
    }
    let progress = Progress::new("Asking", 100);
    let tell = |done: usize, all: usize| progress.at((100 * done / all.max(1)) as u64);
    let page = save(&shown, args.device, tell).with_context(failed)?;
    drop(progress);
    if is_stdout {
        return to_stdout(page.as_bytes()).context("Failed to write to stdout");
    }
    write(&to, page.as_bytes(), args.force).with_context(failed)?;
    let traces = plural(shown.traces.len() as u64, "trace");
    output::note(&format!("wrote {traces} to `{}`; {}\n", to.display(), args.to.reader()));
    Ok(())
}

/// The page of one trace, with its answers included.
pub fn page_of(trace: &Trace, device: Option<Device>) -> Result<String, ExportError> {
    Ok(save(&ShownTraces::from_trace(trace), device, |_, _| {})?)
}

/// Writes to stdout. A closed pipe (`| head`) is not an error.
fn to_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = output::raw();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a temporary file, and renames it when it is complete.
fn write(to: &Path, bytes: &[u8], force: bool) -> Result<()> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    // The mode of any new file, not the private one of a temporary file: users pass the page on.
    let mut file = Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    let put = if force { file.persist(to) } else { file.persist_noclobber(to) };
    put.map_err(|error| error.error)?;
    Ok(())
}

impl ExportArgs {
    /// The given traces.
    fn traces(&self) -> Vec<PathBuf> {
        std::iter::once(&self.trace).chain(&self.more).cloned().collect()
    }
}
