//! `floodmark ledger`: all memory of a GPU by owner.

use floodmark_analysis::{Ledger, ledger as ask};

use crate::args::LedgerArgs;
use crate::commands::answer::Answer;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Result};
use crate::traces::chosen_trace::{Chosen, choose_source};

pub(crate) fn ledger(args: &LedgerArgs) -> Result<CommandOutput> {
    answer(args)?.output(args.json)
}

pub(crate) fn answer(args: &LedgerArgs) -> Result<Answer<Ledger>> {
    let Chosen { path, trace, note, .. } = choose_source(&args.source, args.at)?;
    let found = ask(&trace, args.source.device, args.at).with_context(|| {
        format!("Failed to add up the memory of the GPU in `{}`", path.display())
    })?;
    Ok(Answer::new(found, note).about(&[&trace]))
}
