//! `floodmark gpus`: the cards that a phantom can be.

use anyhow::{Context, Result};
use floodmark_profiles::{profiles, source};
use floodmark_session::text::answer_text::AnswerText;
use floodmark_session::text::sheet::{self, Cells, Sheet};
use floodmark_trace::Bytes;
use serde_json::json;

use crate::commands::args::GpusArgs;
use crate::text::stdout_style;

pub(crate) fn gpus(args: &GpusArgs) -> Result<String> {
    if let Some(name) = &args.gpu {
        return Ok(source(name).with_context(|| format!("Failed to print `{name}`"))?.to_owned());
    }
    if args.json {
        let mut all = Vec::new();
        for (key, profile) in profiles() {
            all.push(json!({ "gpu": key, "profile": profile }));
        }
        return Ok(serde_json::to_string_pretty(&all)? + "\n");
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
    Ok(stdout_style::show(AnswerText {
        above: Vec::new(),
        losses: Vec::new(),
        sheets: vec![Sheet { columns, rows, ..Sheet::default() }],
        below: Vec::new(),
    }))
}
