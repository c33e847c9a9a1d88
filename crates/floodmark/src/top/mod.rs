//! `floodmark top`: a trace in the terminal, also while it grows.
//!
//! Two threads. The watcher (`watch.rs`) looks at the file, or at those of a folder of ranks (`ranks.rs`), and answers what the screen asks for, so that a long
//! trace never makes a key wait; the screen (`screen.rs`) draws the last answer and takes keys. What is shown is a
//! value (`view.rs`), what the keys did is a value (`state.rs`), and a picture is made of both alone (`draw.rs`):
//! tests draw into a buffer.
//!
//! Names come from the traced program. All of them pass through [`safe_text`](floodmark_text::terminal_safe::safe_text) on their way.

mod draw;
mod draw_devices;
mod draw_help;
mod draw_past;
mod draw_ranks;
mod draw_rows;
mod once;
mod ranks;
mod rows;
mod screen;
mod state;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod view;
mod watch;

use std::path::Path;

use crate::args::TopArgs;
use crate::text::failure::{Context, Problem, Result};
use crate::text::stdout_style;

/// Shows a trace until the user has seen enough; with `--once` gives the text of one frame.
pub(crate) fn top(args: &TopArgs) -> Result<String> {
    if !args.once && !stdout_style::can_draw() {
        let path = args.source.trace.as_deref().unwrap_or(Path::new("."));
        return Err(Problem::NoTerminal)
            .with_context(|| format!("Failed to show `{}`", path.display()));
    }
    let ranks = ranks::WatchedRanks::open(&args.source)?;
    let tab = state::TABS.iter().position(|(by, _)| *by == args.by).unwrap_or(0);
    let (device, rank) = (args.source.device, ranks.highest());
    let state = state::State { tab, rank, device, ..state::State::default() };
    if args.once {
        return Ok(once::once(&ranks, state));
    }
    screen::run(ranks, state, args.interval)?;
    Ok(String::new())
}
