//! `floodmark leaks`: what grows from step to step.

use floodmark_analysis::{At, Leaks, leaks as ask};

use crate::args::LeaksArgs;
use crate::commands::answer::Answer;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Result};
use crate::traces::chosen_trace::{Chosen, choose_source};

pub(crate) fn leaks(args: &LeaksArgs) -> Result<CommandOutput> {
    answer(args)?.output(args.json)
}

pub(crate) fn answer(args: &LeaksArgs) -> Result<Answer<Leaks>> {
    let Chosen { path, trace, note, .. } = choose_source(&args.source, At::Peak)?;
    let found = ask(&trace, args.source.device, (args.top > 0).then_some(args.top))
        .with_context(|| format!("Failed to look for leaks in `{}`", path.display()))?;
    Ok(Answer::new(found, note).about(&[&trace]))
}
