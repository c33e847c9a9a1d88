//! `floodmark advise`: what to change, with the bytes that each change saves.

use anyhow::{Context, Result};
use floodmark_analysis::{AdviceReport, At, advise as ask};

use crate::Said;
use crate::commands::answer::Answer;
use crate::commands::args::AdviseArgs;
use crate::commands::chosen_trace::{Chosen, choose_source};

pub(crate) fn advise(args: &AdviseArgs) -> Result<Said> {
    answer(args)?.said(args.json)
}

pub(crate) fn answer(args: &AdviseArgs) -> Result<Answer<AdviceReport>> {
    let Chosen { path, trace, note, .. } = choose_source(&args.source, At::Peak)?;
    let found = ask(&trace, args.source.device)
        .with_context(|| format!("Failed to advise on `{}`", path.display()))?;
    Ok(Answer { found, notes: note.into_iter().collect() })
}
