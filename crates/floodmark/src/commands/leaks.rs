//! `floodmark leaks`: what grows from step to step.

use anyhow::{Context, Result};
use floodmark_analysis::{At, leaks as ask};

use crate::Said;
use crate::commands::args::LeaksArgs;
use crate::commands::chosen_trace::{Chosen, choose_source};
use crate::text::stdout_style;

pub(crate) fn leaks(args: &LeaksArgs) -> Result<Said> {
    let Chosen { path, trace, .. } = choose_source(&args.source, At::Peak)?;
    let leaks = ask(&trace, args.source.device, (args.top > 0).then_some(args.top))
        .with_context(|| format!("Failed to look for leaks in `{}`", path.display()))?;
    if args.json {
        return Said::json(&leaks);
    }
    Ok(stdout_style::show(&leaks).into())
}
