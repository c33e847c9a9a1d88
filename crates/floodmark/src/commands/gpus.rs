//! `floodmark gpus`: the GPUs that can be simulated.

use floodmark_profiles::{GpuProfile, profiles, source};
use floodmark_text::answer_text::AnswerText;
use floodmark_text::sheet::{self, Cells, Sheet};
use floodmark_trace::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::GpusArgs;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Result};
use crate::text::stdout_style;

/// A GPU that can be simulated.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GpuRow {
    /// Its name on the command line.
    gpu: &'static str,
    /// Its profile.
    profile: GpuProfile,
}

pub(crate) fn gpus(args: &GpusArgs) -> Result<CommandOutput> {
    if let Some(name) = &args.gpu {
        let text = source(name).with_context(|| format!("Failed to print `{name}`"))?;
        return Ok(text.to_owned().into());
    }
    if args.json {
        let all: Vec<GpuRow> =
            profiles().into_iter().map(|(gpu, profile)| GpuRow { gpu, profile }).collect();
        return CommandOutput::json(&all);
    }
    let mut columns = sheet::words(&["GPU"]);
    columns.extend(sheet::numbers(&["Memory", "Context", "Multiprocessors", "Capability"]));
    columns.extend(sheet::words(&["Checked", "Name"]));
    let rows = profiles().into_iter().map(|(key, profile)| Cells {
        cells: vec![
            key.to_owned(),
            Bytes(profile.memory).to_string(),
            Bytes(profile.context).to_string(),
            profile.multiprocessors.to_string(),
            profile.capability,
            if profile.checked { "on hardware" } else { "no" }.to_owned(),
            profile.name,
        ],
        below: Vec::new(),
    });
    let rows = rows.collect();
    let text = stdout_style::show(AnswerText {
        above: Vec::new(),
        losses: Vec::new(),
        sheets: vec![Sheet { columns, rows, ..Sheet::default() }],
        below: Vec::new(),
    });
    Ok(text.into())
}
