//! `floodmark oom`: why an allocation failed.

use anyhow::{Context, Result};
use floodmark_analysis::{At, oom as ask};

use crate::Said;
use crate::commands::args::OomArgs;
use crate::commands::chosen_trace::{Chosen, Wanted, choose};
use crate::text::stdout_style;

pub(crate) fn oom(args: &OomArgs) -> Result<Said> {
    let wanted = Wanted { rank: args.rank, device: args.device, at: At::Oom };
    let Chosen { path, trace, .. } = choose(&args.trace, wanted)?;
    let found = ask(&trace, args.device, (args.top > 0).then_some(args.top))
        .with_context(|| format!("Failed to explain `{}`", path.display()))?;
    if args.json {
        return Said::json(&found);
    }
    Ok(stdout_style::show(&found).into())
}
