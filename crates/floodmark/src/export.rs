//! `floodmark export`: a trace in the format of another tool.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use floodmark_analysis::At;
use floodmark_snapshot::write_snapshot;
use floodmark_trace::{Device, Trace};

use crate::args::{ExportArgs, Format};
use crate::choose::{Chosen, Wanted, choose};
use crate::failure::Problem;
use crate::info::plural;
use crate::print;

pub(crate) fn export(args: &ExportArgs) -> Result<String> {
    let wanted = Wanted { rank: args.rank, device: args.device, at: At::Peak };
    let Chosen { path, trace, .. } = choose(&args.trace, wanted)?;
    check_device(&trace, args.device)
        .with_context(|| format!("Failed to export `{}`", path.display()))?;
    let to = args.output.clone().unwrap_or_else(|| beside(&path, args.to));
    let failed = || format!("Failed to write `{}`", to.display());
    let mut options = OpenOptions::new();
    // What is there is not ours to throw away.
    options.write(true).create_new(!args.force).create(true).truncate(true);
    let file = match options.open(&to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Problem::OutputExists).with_context(failed);
        }
        file => file.with_context(failed)?,
    };
    let mut file = BufWriter::new(file);
    let written = match args.to {
        Format::TorchSnapshot => write_snapshot(&trace, args.device, &mut file),
    };
    written.and_then(|()| file.flush()).with_context(failed)?;
    let allocations = plural(trace.allocations.len() as u64, "allocation");
    print::talk(&format!("wrote {allocations} to `{}`; {}\n", to.display(), args.to.reader()));
    Ok(String::new())
}

fn check_device(trace: &Trace, device: Option<Device>) -> Result<()> {
    let recorded = trace.devices();
    match device {
        Some(device) if !recorded.contains(&device.canonical()) => {
            Err(floodmark_analysis::QuestionError::NoSuchDevice { device, recorded }.into())
        }
        _ => Ok(()),
    }
}

/// `train.flood` becomes `train.snapshot.pickle`.
fn beside(path: &Path, format: Format) -> PathBuf {
    let ending = match format {
        Format::TorchSnapshot => "snapshot.pickle",
    };
    let mut stem = path.to_owned();
    let is_ending =
        |part: &OsStr| ["flood", "pickle", "pkl", "gz", "zst"].iter().any(|&e| part == e);
    while stem.extension().is_some_and(is_ending) {
        stem.set_extension("");
    }
    let mut name = stem.into_os_string();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
