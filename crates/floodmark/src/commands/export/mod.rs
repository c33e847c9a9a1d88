//! `floodmark export`: a trace in the format of another tool.

mod destination;
mod folder;
pub(crate) mod format;
mod saved_page;

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use floodmark_analysis::At;
use floodmark_export::{ExportError, Options};
use floodmark_trace::{Device, Trace};

use crate::commands::args::ExportArgs;
use crate::commands::chosen_trace::{Chosen, Wanted, choose};
use crate::commands::export::destination::{NotWritten, write_file};
use crate::commands::export::folder::{refused, write_all, write_trace};
use crate::commands::export::format::Format;
use crate::commands::export::saved_page::export_page;
use crate::commands::info::plural;
use crate::text::failure::Problem;
use crate::text::output;
use crate::traces::open::ranks;

pub(crate) fn export(args: &ExportArgs) -> Result<String> {
    if args.to == Format::Html {
        return export_page(args).map(|()| String::new());
    }
    if let Some(path) = args.more.first() {
        return Err(Problem::OneTraceOnly)
            .with_context(|| format!("Failed to export `{}`", path.display()));
    }
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    if is_stdout {
        check_stdout(args.to).context("Failed to write to stdout")?;
    }
    if let (Some(kind), None) = (args.to.folder(), args.rank)
        && let Some(ranks) = ranks(&args.trace)?
    {
        write_all(&ranks, kind, args, &destination(args, &args.trace))?;
        return Ok(String::new());
    }
    let wanted = Wanted { rank: args.rank, device: args.device, at: At::Peak };
    let Chosen { path, trace, rank } = choose(&args.trace, wanted)?;
    check_device(&trace, args.device)
        .with_context(|| format!("Failed to export `{}`", path.display()))?;
    output::losses(&trace.losses, "");
    let mut options = Options { device: args.device, ..Options::default() };
    if is_stdout {
        to_stdout(&trace, args.to, &options).context("Failed to write to stdout")?;
        return Ok(String::new());
    }
    options.guard_formulas = true;
    let to = destination(args, &path);
    let written = match args.to.folder() {
        Some(kind) => write_trace(&trace, rank, kind, &options, &to, args.force).map_err(refused),
        None => write_file(&to, args.force, |mut out| args.to.write(&trace, &options, &mut out))
            .map_err(|error| match error {
                NotWritten::Exists => Problem::OutputExists.into(),
                other => refused(other),
            }),
    };
    written.with_context(|| format!("Failed to write `{}`", to.display()))?;
    let allocations = plural(trace.allocations.len() as u64, "allocation");
    output::talk(&format!("wrote {allocations} to `{}`; {}\n", to.display(), args.to.reader()));
    Ok(String::new())
}

/// Writes a trace into a file or folder, or gives back its bytes where none is named. A file is replaced; so is a folder that
/// an export has written.
pub fn export_trace(
    trace: &Trace,
    format: Format,
    options: &Options,
    path: Option<&Path>,
) -> Result<Option<Vec<u8>>, ExportError> {
    let Some(path) = path else {
        let mut bytes = Vec::new();
        format.write(trace, options, &mut bytes)?;
        return Ok(Some(bytes));
    };
    // A file of CSV may be opened in a spreadsheet.
    let options = Options { guard_formulas: true, ..options.clone() };
    let written = match format.folder() {
        Some(kind) => write_trace(trace, None, kind, &options, path, true),
        None => write_file(path, true, |mut out| format.write(trace, &options, &mut out)),
    };
    match written {
        Ok(()) => Ok(None),
        Err(NotWritten::Export(error)) => Err(error),
        Err(other @ (NotWritten::Exists | NotWritten::NotOurs { .. })) => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, other.to_string()).into())
        }
    }
}

fn check_stdout(format: Format) -> Result<(), Problem> {
    if format.folder().is_some() {
        return Err(Problem::FolderToStdout);
    }
    if format.is_binary() && io::stdout().is_terminal() {
        return Err(Problem::BinaryToTerminal);
    }
    Ok(())
}

/// A reader that has seen enough (`| head`) is no failure.
fn to_stdout(trace: &Trace, format: Format, options: &Options) -> Result<(), ExportError> {
    let is_terminal = io::stdout().is_terminal();
    let options = Options { guard_formulas: is_terminal, ..options.clone() };
    let mut out: Box<dyn Write> = if is_terminal {
        Box::new(io::BufWriter::new(output::Harmless::new(output::raw())))
    } else {
        Box::new(io::BufWriter::new(output::raw()))
    };
    let written = format.write(trace, &options, &mut out).and_then(|()| Ok(out.flush()?));
    match written {
        Err(ExportError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

pub(crate) fn check_device(trace: &Trace, device: Option<Device>) -> Result<()> {
    let recorded = trace.devices();
    match device {
        Some(device) if !recorded.contains(&device.canonical()) => {
            Err(floodmark_analysis::QuestionError::NoSuchDevice { device, recorded }.into())
        }
        _ => Ok(()),
    }
}

/// Where it goes: what is said, or a name beside the trace.
fn destination(args: &ExportArgs, path: &Path) -> PathBuf {
    args.output.clone().unwrap_or_else(|| beside(path, args.to))
}

/// `train.flood` becomes `train.snapshot.pickle`.
pub(crate) fn beside(path: &Path, format: Format) -> PathBuf {
    let mut stem = path.to_owned();
    let is_ending =
        |part: &OsStr| ["flood", "pickle", "pkl", "gz", "zst"].iter().any(|&e| part == e);
    while stem.extension().is_some_and(is_ending) {
        stem.set_extension("");
    }
    let mut name = stem.into_os_string();
    name.push(".");
    name.push(format.ending());
    PathBuf::from(name)
}
