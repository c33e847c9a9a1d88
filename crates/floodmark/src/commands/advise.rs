//! `floodmark advise`: what to change, with the bytes that each change saves.

use anyhow::{Context, Result};
use floodmark_analysis::{At, advise as ask};

use crate::Said;
use crate::commands::args::AdviseArgs;
use crate::commands::chosen_trace::{Chosen, choose_source};
use crate::text::stdout_style;

pub(crate) fn advise(args: &AdviseArgs) -> Result<Said> {
    let Chosen { path, trace, .. } = choose_source(&args.source, At::Peak)?;
    let found = ask(&trace, args.source.device)
        .with_context(|| format!("Failed to advise on `{}`", path.display()))?;
    if args.json {
        return Said::json(&found);
    }
    Ok(stdout_style::show(&found).into())
}
