//! `floodmark export`: a trace in the format of another tool.

mod folder;
pub(crate) mod saved_page;

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use floodmark_analysis::At;
use floodmark_export::{ExportError, Options};
use floodmark_files::export::destination::{NotWritten, write_file};
use floodmark_files::export::format::Format;
use floodmark_files::export::write_trace;
use floodmark_text::plural::plural;
use floodmark_trace::{Device, Trace};

use crate::args::ExportArgs;
use crate::commands::export::folder::{refused, write_all};
use crate::commands::export::saved_page::{export_page, page_of};
use crate::text::failure::{Context, Problem, Result};
use crate::text::output;
use crate::text::progress::Progress;
use crate::traces::chosen_trace::{Chosen, TraceChoice, choose};
use crate::traces::trace_paths::ranks;

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
    let wanted = TraceChoice { rank: args.rank, device: args.device, at: At::Peak };
    let Chosen { path, trace, rank, .. } = choose(&args.trace, wanted)?;
    check_device(&trace, args.device)
        .with_context(|| format!("Failed to export `{}`", path.display()))?;
    output::losses(&trace.losses, "");
    let mut options = Options { device: args.device, frames: args.frames, ..Options::default() };
    if is_stdout {
        to_stdout(&trace, args.to, &options).context("Failed to write to stdout")?;
        return Ok(String::new());
    }
    options.guard_formulas = true;
    let to = destination(args, &path);
    let written = match args.to.folder() {
        Some(kind) => write_trace(&trace, rank, kind, &options, &to, args.force, writing(&to))
            .map_err(refused),
        None => write_file(&to, args.force, writing(&to), |mut out| {
            args.to.write(&trace, &options, page_of, &mut out)
        })
        .map_err(|error| match error {
            NotWritten::Exists => Problem::OutputExists.into(),
            NotWritten::NotOurs { .. } | NotWritten::Export(_) => refused(error),
        }),
    };
    written.with_context(|| format!("Failed to write `{}`", to.display()))?;
    let allocations = plural(trace.allocations.len() as u64, "allocation");
    output::note(&format!("wrote {allocations} to `{}`; {}\n", to.display(), args.to.reader()));
    Ok(String::new())
}

/// A progress bar for writing to a path.
fn writing(to: &Path) -> Arc<Progress> {
    Arc::new(Progress::counting(&format!("Writing `{}`", to.display())))
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

/// Writes to stdout. A closed pipe (`| head`) is not an error.
fn to_stdout(trace: &Trace, format: Format, options: &Options) -> Result<(), ExportError> {
    let is_terminal = io::stdout().is_terminal();
    let options = Options { guard_formulas: is_terminal, ..options.clone() };
    let mut out: Box<dyn Write> = if is_terminal {
        Box::new(io::BufWriter::new(output::EscapingWriter::new(output::raw())))
    } else {
        Box::new(io::BufWriter::new(output::raw()))
    };
    let written = format.write(trace, &options, page_of, &mut out).and_then(|()| Ok(out.flush()?));
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

/// The path to write: the given one, or a name beside the trace.
fn destination(args: &ExportArgs, path: &Path) -> PathBuf {
    args.output.clone().unwrap_or_else(|| beside(path, args.to))
}

/// The default output path: `train.flood` becomes `train.snapshot.pickle`.
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
