//! `floodmark export`: a trace in the format of another tool.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use floodmark_analysis::At;
use floodmark_export::{ExportError, Options};
use floodmark_trace::{Device, Trace};

use crate::args::ExportArgs;
use crate::choose::{Chosen, Wanted, choose};
use crate::failure::Problem;
use crate::format::Format;
use crate::info::plural;
use crate::print;
use crate::saved_page::export_page;

pub(crate) fn export(args: &ExportArgs) -> Result<String> {
    if args.to == Format::Html {
        return export_page(args).map(|()| String::new());
    }
    if let Some(path) = args.more.first() {
        return Err(Problem::OneTraceOnly)
            .with_context(|| format!("Failed to export `{}`", path.display()));
    }
    let wanted = Wanted { rank: args.rank, device: args.device, at: At::Peak };
    let Chosen { path, trace, .. } = choose(&args.trace, wanted)?;
    check_device(&trace, args.device)
        .with_context(|| format!("Failed to export `{}`", path.display()))?;
    let to = args.output.clone().unwrap_or_else(|| beside(&path, args.to));
    let failed = || format!("Failed to write `{}`", to.display());
    let mut opening = OpenOptions::new();
    // What is there is not ours to throw away.
    opening.write(true).create_new(!args.force).create(true).truncate(true);
    let file = match opening.open(&to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Problem::OutputExists).with_context(failed);
        }
        file => file.with_context(failed)?,
    };
    let mut file = BufWriter::new(file);
    let options = Options { device: args.device, ..Options::default() };
    let written = args.to.write(&trace, &options, &mut file);
    if let Err(error) = written.and_then(|()| Ok(file.flush()?)) {
        drop(file);
        // Half a file looks like a whole one; that it cannot be removed is the lesser problem.
        let _ = fs::remove_file(&to);
        return Err(error).with_context(failed);
    }
    let allocations = plural(trace.allocations.len() as u64, "allocation");
    print::talk(&format!("wrote {allocations} to `{}`; {}\n", to.display(), args.to.reader()));
    Ok(String::new())
}

/// Writes a trace into a file, or gives back its bytes where none is named.
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
    let mut file = BufWriter::new(fs::File::create(path)?);
    format.write(trace, options, &mut file)?;
    file.flush()?;
    Ok(None)
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
