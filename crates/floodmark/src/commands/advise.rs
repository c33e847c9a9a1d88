//! `floodmark advise`: what to change, with the bytes that each change saves.

use floodmark_analysis::{AdviceReport, At, advise as ask};
use floodmark_trace::Bytes;

use crate::args::AdviseArgs;
use crate::commands::answer::Answer;
use crate::commands::plan_hint::plan_hint;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Result};
use crate::traces::chosen_trace::{Chosen, choose_source};

pub(crate) fn advise(args: &AdviseArgs) -> Result<CommandOutput> {
    answer(args)?.output(args.json)
}

pub(crate) fn answer(args: &AdviseArgs) -> Result<Answer<AdviceReport>> {
    let Chosen { path, trace, note, .. } = choose_source(&args.source, At::Peak)?;
    let found = ask(&trace, args.source.device)
        .with_context(|| format!("Failed to advise on `{}`", path.display()))?;
    let shown = found.device.to_string();
    let gpu = trace.header.devices.iter().find(|info| info.device == shown);
    let capacity = gpu.map(|info| Bytes(info.total_bytes)).filter(|total| total.0 > 0);
    let hint = (!found.device.is_cpu()).then(|| plan_hint(&trace.header, capacity));
    Ok(Answer { hint, ..Answer::new(found, note).about(&[&trace]) })
}
